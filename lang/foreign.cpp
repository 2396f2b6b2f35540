// The table of foreign words (foreign.def), looked up and filled in.
#include "lang/foreign.h"

#include <algorithm>
#include <iterator>

#include "lang/check.h"

namespace tegula {

namespace {

constexpr ForeignRow kRows[] = {
#define FOREIGN(use, word, rewrite, note) {ForeignUse::use, word, rewrite, note},
#include "lang/foreign.def"
#undef FOREIGN
};

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\n' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\n' || text.back() == '\t' || text.back() == ',')) text.remove_suffix(1);
    return text;
}

/// `(4, 8)` and `[4, 8]` without their brackets.
std::string_view without_brackets(std::string_view text) {
    text = trimmed(text);
    const bool bracketed = text.size() >= 2 && ((text.front() == '(' && text.back() == ')') || (text.front() == '[' && text.back() == ']'));
    return bracketed ? trimmed(text.substr(1, text.size() - 2)) : text;
}

/// Fills the holes of one rewrite.
class Filling {
public:
    explicit Filling(const ForeignUseText& with) : with_(with), used_(with.arguments.size(), false) {}

    std::optional<std::string> fill(std::string_view pattern) {
        rest_ = pattern.find("{*}") != pattern.npos;
        mark_used(pattern);
        std::string out;
        while (true) {
            const size_t hole = pattern.find('{');
            out += pattern.substr(0, hole);
            if (hole == pattern.npos) break;
            const size_t end = pattern.find('}', hole);
            if (end == pattern.npos) return out += pattern.substr(hole), out;
            const auto text = hole_text(pattern.substr(hole + 1, end - hole - 1));
            if (!text) return std::nullopt;
            out += *text;
            pattern.remove_prefix(end + 1);
        }
        if (!rest_ && std::find(used_.begin(), used_.end(), false) != used_.end()) return std::nullopt;
        return out;
    }

private:
    const ForeignUseText& with_;
    std::vector<bool> used_;
    bool rest_ = false;

    /// The argument that a hole names: its number, or its name.
    std::optional<size_t> argument(std::string_view hole) const {
        const std::string_view key = hole.substr(0, hole.find_first_of("[="));
        size_t position = 0;
        for (size_t i = 0; i < with_.arguments.size(); ++i) {
            const std::string& name = with_.arguments[i].first;
            if (name.empty() ? key.size() == 1 && key[0] >= '0' && key[0] <= '9' && position == size_t(key[0] - '0') : name == key) return i;
            position += name.empty();
        }
        return std::nullopt;
    }
    void mark_used(std::string_view pattern) {
        for (size_t at = pattern.find('{'); at != pattern.npos; at = pattern.find('{', at + 1))
            if (const auto i = argument(pattern.substr(at + 1, pattern.find('}', at) - at - 1))) used_[*i] = true;
    }
    std::optional<std::string> hole_text(std::string_view hole) const {
        if (hole.empty() || hole == " ") return "{" + std::string(hole) + "}";
        if (hole == "self") return with_.self;
        if (hole == "*") {
            std::string out;
            for (size_t i = 0; i < with_.arguments.size(); ++i) {
                const auto& [name, text] = with_.arguments[i];
                if (!used_[i]) out += (out.empty() ? "" : ", ") + (name.empty() ? "" : (name == "dim" ? "axis" : name) + " = ") + text;
            }
            return out;
        }
        const auto i = argument(hole);
        if (!i) return std::nullopt;
        const std::string& text = with_.arguments[*i].second;
        if (const size_t equals = hole.find('='); equals != hole.npos) {
            if (trimmed(text) != hole.substr(equals + 1)) return std::nullopt;
            return std::string();
        }
        return std::string(hole.ends_with("[]") ? without_brackets(text) : std::string_view(text));
    }
};

}  // namespace

std::vector<const ForeignRow*> foreign(ForeignUse use, std::string_view word) {
    std::vector<const ForeignRow*> out;
    for (const ForeignRow& row : kRows)
        if (row.use == use && row.word == word) out.push_back(&row);
    return out;
}

const ForeignRow& foreign_form(std::string_view word) {
    const auto rows = foreign(ForeignUse::form, word);
    TEGULA_CHECK(!rows.empty(), "no such row of foreign.def");
    return *rows.front();
}

std::optional<std::string> rewritten(const ForeignRow& row, const ForeignUseText& with) {
    if (row.rewrite.empty()) return std::nullopt;
    return Filling(with).fill(row.rewrite);
}

}  // namespace tegula
