// Values of JSON (RFC 8259), json_reader.h.
#include "lang/json_reader.h"

#include <charconv>

namespace tegula {

namespace {

void append_utf8(std::string& out, uint32_t c) {
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (c >> shift & 63)); };
    if (c < 0x80) return out += static_cast<char>(c), void();
    if (c < 0x800) return out += static_cast<char>(0xc0 | c >> 6), tail(0);
    if (c < 0x10000) return out += static_cast<char>(0xe0 | c >> 12), tail(6), tail(0);
    out += static_cast<char>(0xf0 | c >> 18), tail(12), tail(6), tail(0);
}

}  // namespace

char JsonReader::next() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
    return ok_ && at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonReader::at_end() { return ok_ && next() == '\0' && at_ == text_.size(); }

bool JsonReader::hex(uint32_t& out) {
    if (text_.size() - at_ < 4) return fail();
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, out, 16);
    at_ += 4;
    return (error == std::errc() && end == text_.data() + at_) || fail();
}

/// Behind a backslash.
bool JsonReader::escape(std::string& out) {
    if (at_ == text_.size()) return fail();
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const char c = text_[at_++];
    if (const size_t i = kLetters.find(c); i != std::string_view::npos) return out += kMeant[i], true;
    uint32_t code = 0, low = 0;
    if (c != 'u' || !hex(code)) return fail();
    if (code >= 0xd800 && code < 0xdc00) {  // the first of a pair
        if (text_.substr(at_, 2) != "\\u") return fail();
        at_ += 2;
        if (!hex(low) || low < 0xdc00 || low > 0xdfff) return fail();
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    return append_utf8(out, code), true;
}

bool JsonReader::string(std::string& out) {
    out.clear();
    if (!take('"')) return false;
    while (at_ < text_.size() && text_[at_] != '"') {
        const char c = text_[at_++];
        if (static_cast<unsigned char>(c) < 0x20) return fail();
        if (c != '\\')
            out += c;
        else if (!escape(out))
            return false;
    }
    return at_ < text_.size() ? (++at_, true) : fail();
}

bool JsonReader::number(double& out) {
    const char first = next();
    if (first != '-' && (first < '0' || first > '9')) return fail();
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), out);
    if (error != std::errc() && error != std::errc::result_out_of_range) return fail();
    at_ = static_cast<size_t>(end - text_.data());
    return true;
}

bool JsonReader::word(std::string_view w) { return text_.substr(at_, w.size()) == w ? (at_ += w.size(), true) : fail(); }

bool JsonReader::skip() {
    std::string text;
    double value = 0;
    switch (next()) {
        case '{':
            return object([](std::string_view) {});
        case '[':
            return array([] {});
        case '"':
            return string(text);
        case 't':
            return word("true");
        case 'f':
            return word("false");
        case 'n':
            return word("null");
        default:
            return number(value);
    }
}

}  // namespace tegula
