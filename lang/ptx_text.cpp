// A scanner and a walk over the statements of PTX text (ptx_text.h).
#include "lang/ptx_text.h"

#include <algorithm>
#include <map>

namespace tegula {

namespace {

struct Row {
    std::string_view name;
    bool warp;
};
constexpr Row kInstructions[] = {
#define PTX(name, warp) {#name, warp},
#include "lang/ptx.def"
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

struct Token {
    enum Kind { end, word, number, operand, sign } kind = end;
    size_t begin = 0, stop = 0;
    std::string_view text;
};

class Reader {
public:
    Reader(std::string_view text, std::span<const PtxOperand> operands, bool warp) : text_(text), operands_(operands), warp_(warp) { advance(); }

    PtxText read() {
        const bool braced = take("{");
        while (!out_.problem && token_.kind != Token::end && !(braced && is("}"))) statement();
        if (braced && !out_.problem) expect("}");
        if (!out_.problem && token_.kind != Token::end) fail(token_, "stands behind the closing brace");
        if (!out_.problem && out_.statements == 0) fail(token_, "the text holds no instruction");
        if (!out_.problem) all_written();
        if (pieces_from_ < text_.size()) out_.pieces.push_back({pieces_from_, text_.size(), -1, -1});
        return std::move(out_);
    }

private:
    // ---- tokens ----
    void advance() {
        while (at_ < text_.size() && is_space(text_[at_])) ++at_;
        token_ = {Token::end, at_, at_, {}};
        if (at_ == text_.size()) return;
        const size_t begin = at_;
        const char c = text_[at_++];
        if (is_letter(c)) {
            while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
            token_.kind = Token::word;
        } else if (is_digit(c)) {
            while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
            token_.kind = Token::number;
        } else if (c == '%') {
            while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
            token_.kind = Token::operand;
        } else {
            token_.kind = Token::sign;
        }
        token_.begin = begin;
        token_.stop = at_;
        token_.text = text_.substr(begin, at_ - begin);
    }
    bool is(std::string_view sign) const { return token_.kind == Token::sign && token_.text == sign; }
    bool take(std::string_view sign) {
        if (!is(sign)) return false;
        advance();
        return true;
    }
    void expect(std::string_view sign) {
        if (!take(sign)) fail(token_, unexpected("`" + std::string(sign) + "`"));
    }
    std::string unexpected(const std::string& wanted) const {
        return token_.kind == Token::end ? "the text ends where " + wanted + " is missing"
                                         : "`" + shown(token_) + "` stands where " + wanted + " is missing";
    }
    static std::string shown(const Token& t) { return std::string(t.text.substr(0, 40)); }
    void fail(const Token& at, std::string what) {
        if (!out_.problem) out_.problem = {at.begin, std::max(at.stop, at.begin + (at.kind != Token::end)), std::move(what)};
    }

    // ---- registers ----
    /// A statement reads or writes a register; an `input` has a value from the start and keeps it.
    void touch(bool& has_value, const Token& at, bool writes, bool input) {
        if (writes && input) return fail(at, "`" + shown(at) + "` is an argument, which no instruction may change");
        if (!writes && !input && !has_value) return fail(at, "`" + shown(at) + "` is read before it has a value");
        if (writes && !has_value) {
            if (guarded_) return fail(at, "the first value of `" + shown(at) + "` depends on a predicate: without it there is none");
            written_.push_back(&has_value);
        }
    }
    void named_operand(bool writes) {
        const Token name = token_;
        const auto it = std::ranges::find(operands_, name.text.substr(1), &PtxOperand::name);
        if (it == operands_.end()) {
            std::string list;
            for (const PtxOperand& o : operands_) list += (list.empty() ? "%" : ", %") + std::string(o.name);
            return fail(name, "no register `" + shown(name) + "`: the operands are " + list);
        }
        size_t end = at_;
        int part = -1;
        if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1])) {
            part = 0;
            for (++end; end < text_.size() && is_digit(text_[end]) && part < 1000; ++end) part = part * 10 + (text_[end] - '0');
        }
        const Token whole{Token::operand, name.begin, end, text_.substr(name.begin, end - name.begin)};
        if (part >= 0 && it->parts == 0) return fail(whole, "`%" + std::string(it->name) + "` is one register, without parts");
        if (part >= it->parts) return fail(whole, "`%" + std::string(it->name) + "` has " + std::to_string(it->parts) + " parts, counted from 0");
        if (part < 0 && !it->whole) return fail(whole, "`%" + std::string(it->name) + "` fills several registers: name them `.0`, `.1` ..");
        const int number = static_cast<int>(it - operands_.begin());
        out_.pieces.push_back({pieces_from_, name.begin, -1, -1});
        out_.pieces.push_back({name.begin, end, number, part});
        pieces_from_ = at_ = end;
        touch(states_["%" + std::string(it->name) + "." + std::to_string(part)], whole, writes, !it->written);
        advance();
    }
    void own_register(bool writes) {
        if (token_.text == "_" && writes) return advance();
        const auto it = own_.find(std::string(token_.text));
        if (it == own_.end())
            return fail(token_, "`" + shown(token_) + "` is no register of the text: declare it, `.reg .b32 " + shown(token_) +
                                    ";`, or name an operand, `%..`");
        touch(it->second, token_, writes, false);
        advance();
    }
    /// Every part of the result, or the result as a whole.
    void all_written() {
        for (const PtxOperand& o : operands_) {
            if (!o.written) continue;
            const auto has = [&](int part) {
                const auto it = states_.find("%" + std::string(o.name) + "." + std::to_string(part));
                return it != states_.end() && it->second;
            };
            bool parts = o.parts > 0;
            for (int i = 0; i < o.parts; ++i) parts = parts && has(i);
            if (has(-1) == parts)
                fail(token_, parts ? "`%" + std::string(o.name) + "` is written as a whole and in parts"
                                   : "the text does not give all of `%" + std::string(o.name) + "` a value");
        }
    }

    // ---- statements ----
    void statement() {
        guarded_ = false;
        if (is(".")) return declaration();
        if (take("@")) {
            take("!");
            guarded_ = true;
            operand(false);
        }
        if (out_.problem) return;
        if (token_.kind != Token::word) return fail(token_, unexpected("an instruction"));
        const Token name = token_;
        const auto row = std::ranges::find(kInstructions, name.text, &Row::name);
        advance();
        if (is(":")) return fail(name, "a label: instructions have no control flow");
        if (row == std::end(kInstructions)) return fail(name, "`" + shown(name) + "` is none of the instructions that compute in registers alone");
        if (row->warp && !warp_) return fail(name, "`" + shown(name) + "` takes a whole warp: only instructions on tiles may have it");
        while (!out_.problem && take(".")) modifier();
        ++out_.statements;
        written_.clear();
        destination();
        while (!out_.problem && take(",")) operand(false);
        if (!out_.problem) expect(";");
        for (bool* has_value : written_) *has_value = true;
    }
    void modifier() {
        // .v2, .m16n8k16, .b32, .x2, and `::` between words
        if (token_.kind != Token::word && token_.kind != Token::number) return fail(token_, unexpected("a modifier"));
        advance();
        while (is(":")) {
            advance();
            if (!take(":") || token_.kind != Token::word) return fail(token_, "a label: instructions have no control flow");
            advance();
        }
    }
    void destination() {
        operand(true);
        if (!out_.problem && take("|")) operand(true);
    }
    void operand(bool writes) {
        if (out_.problem) return;
        if (take("{")) {
            do operand(writes);
            while (!out_.problem && take(","));
            if (!out_.problem) expect("}");
            return;
        }
        if (token_.kind == Token::operand) return named_operand(writes);
        if (token_.kind == Token::word) return own_register(writes);
        if (writes) return fail(token_, unexpected("a register"));
        if (is("-") || is("!")) advance();
        if (token_.kind == Token::operand) return named_operand(false);
        if (token_.kind == Token::word) return own_register(false);
        if (is("[")) return fail(token_, "an address: instructions touch no memory");
        if (token_.kind != Token::number) return fail(token_, unexpected("an operand"));
        advance();
        if (is(".") && at_ < text_.size() && is_digit(text_[at_])) advance(), advance();  // 1.5
    }
    void declaration() {
        const Token dot = token_;
        advance();
        if (token_.text != "reg") return fail(dot, "only `.reg` declares something in an instruction");
        advance();
        expect(".");
        if (out_.problem) return;
        static constexpr std::string_view kTypes[] = {"pred", "b8",  "b16", "b32", "b64", "b128", "u8",  "u16",   "u32",  "u64",
                                                      "s8",   "s16", "s32", "s64", "f16", "f32",  "f64", "f16x2", "bf16", "bf16x2"};
        if (std::ranges::find(kTypes, token_.text) == std::end(kTypes)) return fail(token_, unexpected("the type of a register"));
        advance();
        out_.declares = true;
        do {
            if (token_.kind != Token::word || token_.text == "_") return fail(token_, unexpected("the name of a register"));
            if (!own_.emplace(std::string(token_.text), false).second) return fail(token_, "`" + shown(token_) + "` is declared twice");
            advance();
        } while (take(","));
        expect(";");
    }

    std::string_view text_;
    std::span<const PtxOperand> operands_;
    bool warp_, guarded_ = false;
    size_t at_ = 0, pieces_from_ = 0;
    Token token_;
    PtxText out_;
    std::map<std::string, bool> own_, states_;  ///< registers of the text, operands and their parts: has it a value?
    std::vector<bool*> written_;                ///< what the statement gives a first value
};

}  // namespace

PtxText read_ptx(std::string_view text, std::span<const PtxOperand> operands, bool warp) { return Reader(text, operands, warp).read(); }

}  // namespace tegula
