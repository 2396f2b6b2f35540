// Names in text: which are declared, written, indexed, and whether device functions that move queues are called.
#include <algorithm>
#include <array>

#include "lang/kernel/program.h"

namespace tegula::kernel {

namespace {

struct Token {
    enum Kind : uint8_t { identifier, number, literal, sign } kind;
    std::string_view text;
    uint16_t code;  ///< of a sign of one or two characters
    bool is(char sign_of_one) const { return code == static_cast<unsigned char>(sign_of_one); }
    bool is(char first, char second) const { return code == code_of(first, second); }
    static uint16_t code_of(char first, char second) {
        return static_cast<uint16_t>(static_cast<unsigned char>(first) | static_cast<unsigned char>(second) << 8);
    }
};

bool in_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t sign_length(std::string_view text) {
    static constexpr std::array<std::string_view, 22> kSigns = {
        "<<=", ">>=", "->", "++", "--", "==", "!=", "<=", ">=", "+=", "-=",
        "*=",  "/=",  "%=", "&=", "|=", "^=", "<<", ">>", "&&", "||", "::"};
    if (text.size() < 2 || std::string_view("=<>+-&|:").find(text[1]) == std::string_view::npos) return 1;
    for (const std::string_view s : kSigns)
        if (text.starts_with(s)) return s.size();
    return 1;
}

std::vector<Token> tokens_of(std::string_view text) {
    std::vector<Token> out;
    out.reserve(text.size() / 2 + 1);
    for (size_t i = 0; i < text.size();) {
        const char c = text[i];
        size_t end = i + 1;
        Token::Kind kind = Token::sign;
        uint16_t code = 0;
        if (c == ' ' || c == '\n' || c == '\t') {
            ++i;
            continue;
        }
        if (c == '#') {  // a directive
            end = text.find('\n', i);
            i = end == std::string_view::npos ? text.size() : end;
            continue;
        }
        if (c == '/' && i + 1 < text.size() && text[i + 1] == '/') {
            end = text.find('\n', i);
            i = end == std::string_view::npos ? text.size() : end;
            continue;
        }
        if (c == '"' || c == '\'') {
            kind = Token::literal;
            while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2 : 1;
            end = std::min(end + 1, text.size());
        } else if (in_name(c)) {
            kind = is_digit(c) ? Token::number : Token::identifier;
            while (end < text.size() && (in_name(text[end]) || (kind == Token::number && text[end] == '.'))) ++end;
        } else {
            const size_t length = sign_length(text.substr(i));
            end = i + length;
            if (length < 3) code = Token::code_of(c, length == 2 ? text[i + 1] : '\0');
        }
        out.push_back({kind, text.substr(i, end - i), code});
        i = end;
    }
    return out;
}

bool is_type(std::string_view word) {
    static constexpr std::array<std::string_view, 18> kTypes = {
        "int",  "unsigned", "float", "double", "char",  "short", "long", "bool",   "void",
        "auto", "const",    "uint2", "uint4",  "uint3", "int2",  "int4", "float2", "float4"};
    return std::find(kTypes.begin(), kTypes.end(), word) != kTypes.end();
}

bool is_keyword(std::string_view word) {
    static constexpr std::array<std::string_view, 22> kWords = {
        "return",    "else",    "goto",   "case",   "new",      "delete",      "if",  "for",
        "while",     "do",      "switch", "break",  "continue", "default",     "asm", "volatile",
        "constexpr", "alignas", "static", "signed", "sizeof",   "maybe_unused"};
    return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

/// `=`, or an operator and `=`; no comparison.
bool assigns(const Token& token) {
    if (token.kind != Token::sign || !token.text.ends_with('=')) return false;
    const char first = token.text[0];
    return token.text.size() != 2 || (first != '=' && first != '!' && first != '<' && first != '>');
}

class Reader {
public:
    Reader(Program& program, std::string_view text, bool notes)
        : program_(program), notes_(notes), tokens_(tokens_of(text)) {}

    std::vector<Mention> read() {
        int depth = 0, declaring = kNone;  // the depth of parentheses of a declaration
        for (size_t i = 0; i < tokens_.size(); ++i) {
            const Token& t = tokens_[i];
            if (t.is('(') || t.is('[') || t.is('{')) ++depth;
            if (t.is(')') || t.is(']') || t.is('}')) --depth;
            if (t.is(';')) declaring = kNone;
            if (t.kind == Token::literal) in_literal(t.text);
            if (t.kind != Token::identifier) continue;
            const int number = program_.number(t.text);
            if (program_.word(number) != Word::name) continue;
            if (i && (before(i).is('.') || before(i).is('-', '>') || before(i).is(':', ':'))) continue;
            if (after(i).is('(')) {
                note(t.text);
                continue;
            }
            Mention m{number};
            m.declared = declares(i) || (declaring == depth && before(i).is(',') && after(i).is('='));
            if (m.declared) declaring = depth;
            m.indexed = after(i).is('[');
            if (m.indexed && i + 3 < tokens_.size() && tokens_[i + 2].kind == Token::number && tokens_[i + 3].is(']'))
                m.index = value(tokens_[i + 2].text);
            m.written = (i && (before(i).is('+', '+') || before(i).is('-', '-'))) || after(i).is('+', '+') ||
                        after(i).is('-', '-') || assigns(behind_indices(i));
            m.indexed = m.indexed || (m.written && before(i).is('*'));  // what it points at
            m.anew = i == 0 && after(i).is('=');
            out_.push_back(m);
        }
        return std::move(out_);
    }

private:
    const Token& before(size_t i) const { return i ? tokens_[i - 1] : nothing_; }
    const Token& after(size_t i) const { return i + 1 < tokens_.size() ? tokens_[i + 1] : nothing_; }

    static int64_t value(std::string_view digits) {
        int64_t v = 0;
        for (const char c : digits) {
            if (!is_digit(c)) return kUnknown;
            v = v * 10 + (c - '0');
            if (v > INT32_MAX) return kUnknown;
        }
        return v;
    }

    const Token& behind_indices(size_t i) const {
        size_t at = i + 1;
        while (at < tokens_.size() && tokens_[at].is('[')) {
            int depth = 0;
            do {
                depth += tokens_[at].is('[') ? 1 : tokens_[at].is(']') ? -1 : 0;
                ++at;
            } while (at < tokens_.size() && depth > 0);
        }
        return at < tokens_.size() ? tokens_[at] : nothing_;
    }

    /// Two names side by side, or a type and stars, then a name.
    bool declares(size_t i) const {
        const Token& next = after(i);
        if (!(next.is('=') || next.is(';') || next.is('[') || next.is(',') || next.text.empty())) return false;
        size_t at = i;
        bool stars = false;
        while (at > 0 && (tokens_[at - 1].is('*') || tokens_[at - 1].is('&'))) --at, stars = true;
        if (at == 0 || tokens_[at - 1].kind != Token::identifier) return false;
        const Word type = program_.word(program_.number(tokens_[at - 1].text));
        return type == Word::type || (!stars && type == Word::name);
    }

    void in_literal(std::string_view text) {
        const std::vector<NamedRegisters>& stems = program_.kernel.named;
        for (size_t i = 0; i < text.size() && !stems.empty();) {
            if (!in_name(text[i])) {
                ++i;
                continue;
            }
            size_t end = i;
            while (end < text.size() && in_name(text[end])) ++end;
            std::string_view word = text.substr(i, end - i);
            while (!word.empty() && is_digit(word.back())) word.remove_suffix(1);
            const auto stem = std::find_if(stems.begin(), stems.end(), [&](const auto& s) { return s.stem == word; });
            if (stem != stems.end()) out_.push_back({program_.number(stem->stem), false, true});
            i = end;
        }
    }

    void note(std::string_view function) {
        if (!notes_) return;
        const auto known = program_.functions.find(function);
        if (known == program_.functions.end()) return;
        const Row& r = *known->second;
        if (r.has(ISSUES) || r.has(COMMITS) || r.has(AWAITS)) program_.text_queues[static_cast<size_t>(r.queue)] = true;
        if (r.has(INITIALISES) || r.has(ARRIVES) || r.has(WAITS) || r.queue == Queue::barrier)
            program_.text_barriers = true;
    }

    Program& program_;
    bool notes_;
    std::vector<Token> tokens_;
    std::vector<Mention> out_;
    Token nothing_{Token::sign, {}, 0};
};

}  // namespace

Word Program::word(int number) {
    const auto at = static_cast<size_t>(number);
    if (words_.size() <= at) words_.resize(names_.size());
    if (!words_[at])
        words_[at] = is_type(names_[at]) ? Word::type : is_keyword(names_[at]) ? Word::keyword : Word::name;
    return *words_[at];
}

std::vector<Mention> mentions_of(Program& program, std::string_view text, bool notes) {
    return Reader(program, text, notes).read();
}

}  // namespace tegula::kernel
