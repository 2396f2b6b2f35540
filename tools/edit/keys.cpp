// See keys.h.
#include "keys.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace tegula_tool::edit {

namespace {

constexpr size_t kMostPasted = 16u << 20, kMostHeld = 256;
constexpr std::string_view kPasteEnd = "\x1b[201~";
constexpr char kEscape = '\x1b';

std::string utf8(uint32_t point) {
    utf8proc_uint8_t bytes[4];
    const auto length = point < 0x110000 ? utf8proc_encode_char(static_cast<utf8proc_int32_t>(point), bytes) : 0;
    return std::string(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

/// The length of the UTF-8 character that begins with this byte; 1 where none does.
size_t length_of(char first) {
    const auto byte = static_cast<uint8_t>(first);
    return byte < 0xc2 || byte > 0xf4 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

Press plain_byte(char c) {
    const auto byte = static_cast<uint8_t>(c);
    Press press;
    if (byte == '\r' || byte == '\n') {
        press.key = Key::enter;
    } else if (byte == '\t') {
        press.key = Key::tab;
    } else if (byte == 0x7f || byte == 0x08) {
        press.key = Key::backspace;
    } else if (byte < 0x20) {
        press.ctrl = true;
        press.text = std::string(1, static_cast<char>(byte >= 1 && byte <= 26 ? byte + 0x60 : byte + 0x40));
    } else {
        press.text = c;
    }
    return press;
}

struct Named {
    int number;
    Key key;
};
// ESC [ n ~
constexpr Named kTilde[] = {{1, Key::home}, {3, Key::erase}, {4, Key::end}, {5, Key::page_up}, {6, Key::page_down}, {7, Key::home}, {8, Key::end}};
// ESC [ X, ESC O X
constexpr Named kLetters[] = {{'A', Key::up},   {'B', Key::down}, {'C', Key::right}, {'D', Key::left},
                              {'H', Key::home}, {'F', Key::end},  {'M', Key::enter}, {'Z', Key::tab}};
// The private code points of kitty's protocol: the keypad.
constexpr Named kKeypad[] = {{57414, Key::enter},   {57417, Key::left},      {57418, Key::right}, {57419, Key::up},  {57420, Key::down},
                             {57421, Key::page_up}, {57422, Key::page_down}, {57423, Key::home},  {57424, Key::end}, {57426, Key::erase}};
constexpr std::string_view kKeypadText = "0123456789./*-+\r=";  // from 57399 on

template <size_t n>
std::optional<Key> named(const Named (&table)[n], int number) {
    const auto* found = std::ranges::find(table, number, &Named::number);
    return found == std::end(table) ? std::nullopt : std::optional<Key>(found->key);
}

/// xterm's and kitty's modifiers: one more than the sum of bits.
void modify(Press& press, int modifiers) {
    const int bits = std::max(modifiers, 1) - 1;
    press.shift |= (bits & 1) != 0;
    press.alt |= (bits & 2) != 0;
    press.ctrl |= (bits & 4) != 0;
}

/// A key that is told by its code point.
std::optional<Press> by_point(int point, int modifiers) {
    Press press;
    if (point < 0x20 || point == 0x7f) {
        press = plain_byte(static_cast<char>(point));
        if (point == kEscape) press = {.key = Key::escape};
        if (press.ctrl) return std::nullopt;
    } else if (const auto key = named(kKeypad, point)) {
        press.key = *key;
    } else if (point >= 57399 && point < 57399 + static_cast<int>(kKeypadText.size())) {
        press.text = kKeypadText[static_cast<size_t>(point - 57399)];
    } else if (point >= 0xe000 && point <= 0xf8ff) {
        return std::nullopt;  // keys without a meaning here
    } else {
        press.text = utf8(static_cast<uint32_t>(point));
        if (press.text.empty()) return std::nullopt;
    }
    modify(press, modifiers);
    if (press.key == Key::text && press.shift && point >= 'a' && point <= 'z' && !press.ctrl) press.text = static_cast<char>(point - 0x20);
    if (press.key == Key::text && press.ctrl && point >= 'A' && point <= 'Z') press.text = static_cast<char>(point + 0x20);
    return press;
}

/// Numbers between `;`; of those with parts (`5:3`) `parts` has the second. Absent ones are 0.
std::array<int, 3> numbers(std::string_view text, std::array<int, 3>& parts) {
    std::array<int, 3> out{};
    size_t index = 0, part = 0;
    for (const char c : text) {
        if (c == ';') {
            if (++index == out.size()) break;
            part = 0;
        } else if (c == ':') {
            ++part;
        } else if (c >= '0' && c <= '9' && part < 2) {
            int& number = part == 0 ? out[index] : parts[index];
            number = std::min(10 * number + (c - '0'), 9'999'999);
        }
    }
    return out;
}

std::optional<Press> sequence(std::string_view parameters, char last) {
    std::array<int, 3> parts{};
    const auto n = numbers(parameters, parts);
    if (!parameters.empty() && (parameters[0] < '0' || parameters[0] > ';')) return std::nullopt;  // mice, and answers to questions
    if (parts[1] == 3) return std::nullopt;                                                        // a key is let go
    if (last == 'u') return by_point(n[0], n[1]);
    Press press;
    if (last == '~' || last == '^' || last == '$' || last == '@') {
        if (n[0] == 27 && last == '~') return by_point(n[2], n[1]);
        const auto key = named(kTilde, n[0]);
        if (!key) return std::nullopt;
        press.key = *key;
        modify(press, n[1]);
        press.ctrl |= last == '^' || last == '@';  // rxvt
        press.shift |= last == '$' || last == '@';
        return press;
    }
    if (last >= 'a' && last <= 'd') {  // rxvt
        press.key = *named(kLetters, last - 0x20);
        press.shift = true;
        return press;
    }
    const auto key = named(kLetters, last);
    if (!key || last == 'M') return std::nullopt;
    press.key = *key;
    press.shift = last == 'Z';
    modify(press, n[1]);
    return press;
}

}  // namespace

void Decoder::feed(std::string_view bytes, std::vector<Press>& out) {
    std::string all;
    if (!held_.empty()) {
        all = std::exchange(held_, {});
        all += bytes;
        bytes = all;
    }
    while (!bytes.empty()) {
        const size_t taken = pasting_ ? take_paste(bytes, out) : take(bytes, out);
        if (taken == 0) {
            held_ = bytes;
            return;
        }
        bytes.remove_prefix(taken);
    }
}

void Decoder::settle(std::vector<Press>& out) {
    if (!waits()) return;
    const std::string held = std::exchange(held_, {});
    if (held == "\x1b" || held == "\x1b\x1b") {
        out.push_back({.key = Key::escape});
    } else if (held[0] == kEscape && held.size() == 2) {  // the beginning of a sequence, or a key with Alt
        Press press = plain_byte(held[1]);
        press.alt = true;
        out.push_back(press);
    } else if (held[0] != kEscape) {
        for (const char c : held) out.push_back({.text = std::string(1, c)});
    }
}

/// How many bytes the first key takes; 0: it is not whole.
size_t Decoder::take(std::string_view bytes, std::vector<Press>& out) {
    if (bytes[0] == kEscape) return take_escape(bytes, out);
    const size_t length = length_of(bytes[0]);
    if (length == 1) return out.push_back(plain_byte(bytes[0])), 1;
    for (size_t i = 1; i < length; ++i) {
        if (i == bytes.size()) return 0;
        if ((static_cast<uint8_t>(bytes[i]) & 0xc0) != 0x80) {  // the character is broken off: its bytes stand for themselves
            for (size_t k = 0; k < i; ++k) out.push_back({.text = std::string(1, bytes[k])});
            return i;
        }
    }
    out.push_back({.text = std::string(bytes.substr(0, length))});
    return length;
}

size_t Decoder::take_paste(std::string_view bytes, std::vector<Press>& out) {
    const size_t end = bytes.find(kPasteEnd);
    size_t taken = end;
    if (end == std::string_view::npos) {  // the end of what came may be the beginning of the mark
        taken = bytes.size();
        for (size_t part = std::min(kPasteEnd.size() - 1, bytes.size()); part > 0; --part)
            if (kPasteEnd.starts_with(bytes.substr(bytes.size() - part))) {
                taken -= part;
                break;
            }
    }
    paste_ += bytes.substr(0, std::min(taken, kMostPasted - paste_.size()));
    if (end == std::string_view::npos) return taken;
    pasting_ = false;
    out.push_back({.key = Key::paste, .text = std::exchange(paste_, {})});
    return taken + kPasteEnd.size();
}

size_t Decoder::take_escape(std::string_view bytes, std::vector<Press>& out) {
    if (bytes.size() == 1) return 0;
    size_t at = 1;
    bool alt = false;
    if (bytes[1] == kEscape) {  // rxvt: Alt with a key that sends a sequence
        if (bytes.size() == 2) return 0;
        if (bytes[2] != '[' && bytes[2] != 'O') return out.push_back({.key = Key::escape}), 1;
        alt = true, at = 2;
    }
    const char kind = bytes[at];
    if (kind == '[') return take_control_sequence(bytes, at + 1, alt, out);
    if (kind == 'O') {
        size_t last = at + 1;
        while (last < bytes.size() && bytes[last] >= '0' && bytes[last] <= '9') ++last;
        if (last == bytes.size()) return last - at < kMostHeld ? 0 : last;
        if (static_cast<uint8_t>(bytes[last]) < 0x20) return last;  // a key that came between
        const bool rxvt = bytes[last] >= 'a' && bytes[last] <= 'd';
        if (const auto key = named(kLetters, rxvt ? bytes[last] - 0x20 : bytes[last])) {
            Press press{.key = *key, .alt = alt};
            modify(press, last > at + 1 ? bytes[at + 1] - '0' : 1);
            press.ctrl |= rxvt;
            out.push_back(press);
        }
        return last + 1;
    }
    if (kind == ']' || kind == 'P' || kind == '_' || kind == '^' || kind == 'X') {  // strings: up to BEL or ESC backslash
        for (size_t i = at + 1; i < bytes.size(); ++i) {
            if (bytes[i] == '\a') return i + 1;
            if (bytes[i] == kEscape) return i + 1 == bytes.size() ? 0 : bytes[i + 1] == '\\' ? i + 2 : i;
            if (static_cast<uint8_t>(bytes[i]) < 0x20) return i;
        }
        return bytes.size() < kMostHeld ? 0 : bytes.size();
    }
    // Alt and a character.
    const size_t length = length_of(kind);
    if (at + length > bytes.size()) return 0;
    const size_t before = out.size(), taken = take(bytes.substr(at), out);
    for (size_t i = before; i < out.size(); ++i) out[i].alt = true;
    return at + taken;
}

size_t Decoder::take_control_sequence(std::string_view bytes, size_t begin, bool alt, std::vector<Press>& out) {
    if (begin == bytes.size()) return 0;
    if (bytes[begin] == '[') return begin + 1 == bytes.size() ? 0 : begin + 2;  // the Linux console's F1 to F5
    if (bytes[begin] == 'M') return bytes.size() < begin + 4 ? 0 : begin + 4;   // a mouse
    size_t at = begin;
    for (;; ++at) {
        if (at == bytes.size()) return at - begin < kMostHeld ? 0 : at;
        const auto byte = static_cast<uint8_t>(bytes[at]);
        if (byte < 0x20 || byte > 0x7e) return at;  // a key that came between: the sequence is damaged
        if (byte >= 0x40 || (byte == '$' && at > begin && bytes[begin] != '?')) break;
    }
    const std::string_view parameters = bytes.substr(begin, at - begin);
    if (parameters == "200" && bytes[at] == '~') {
        pasting_ = true;
    } else if (auto press = sequence(parameters, bytes[at])) {
        press->alt |= alt;
        out.push_back(*press);
    }
    return at + 1;
}

}  // namespace tegula_tool::edit
