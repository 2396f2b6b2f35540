// A recursive-descent reader of layout texts (layout_text.h); nesting is bounded by kMaxLayoutDepth before anything is built.
#include "lang/layout_text.h"

#include <charconv>

namespace tegula {

namespace {

struct Operator {
    std::string_view text;
    LayoutExpr::Op op;
};
constexpr Operator kOperators[] = {
    {"<<", LayoutExpr::shl}, {">>", LayoutExpr::shr}, {"+", LayoutExpr::add},     {"-", LayoutExpr::sub},     {"*", LayoutExpr::mul},
    {"/", LayoutExpr::div},  {"%", LayoutExpr::rem},  {"^", LayoutExpr::bit_xor}, {"&", LayoutExpr::bit_and}, {"|", LayoutExpr::bit_or},
};

class Reader {
public:
    explicit Reader(std::string_view text) : text_(text) {}

    bool take(std::string_view token) {
        while (!text_.empty() && text_[0] == ' ') text_.remove_prefix(1);
        if (!text_.starts_with(token)) return false;
        text_.remove_prefix(token.size());
        return true;
    }
    bool at_end() { return take("") && text_.empty(); }
    std::optional<int64_t> number() {
        take("");
        int64_t v = 0;
        const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), v);
        if (error != std::errc()) return std::nullopt;
        text_.remove_prefix(static_cast<size_t>(end - text_.data()));
        return v;
    }
    /// operand [operator operand]: nested operations stand in parentheses.
    std::optional<LayoutExpr> expression(int depth) {
        auto a = operand(depth);
        if (!a) return std::nullopt;
        for (const Operator& o : kOperators) {
            if (!take(o.text)) continue;
            auto b = operand(depth);
            if (!b) return std::nullopt;
            return LayoutExpr::make(o.op, std::move(*a), std::move(*b));
        }
        return a;
    }

private:
    std::optional<LayoutExpr> operand(int depth) {
        if (depth > kMaxLayoutDepth) return std::nullopt;
        if (take("min(")) return call(LayoutExpr::min, depth);
        if (take("max(")) return call(LayoutExpr::max, depth);
        if (take("(")) {
            auto inner = expression(depth + 1);
            return inner && take(")") ? inner : std::nullopt;
        }
        const bool index = take("i"), extent = !index && take("e");
        const auto v = number();
        if (!v || ((index || extent) && (*v < 0 || *v >= kMaxLayoutMembers))) return std::nullopt;
        if (index) return LayoutExpr::make_index(static_cast<int>(*v));
        return extent ? LayoutExpr::make_extent(static_cast<int>(*v)) : LayoutExpr::make_constant(*v);
    }
    std::optional<LayoutExpr> call(LayoutExpr::Op op, int depth) {
        auto a = expression(depth + 1);
        if (!a || !take(",")) return std::nullopt;
        auto b = expression(depth + 1);
        if (!b || !take(")")) return std::nullopt;
        return LayoutExpr::make(op, std::move(*a), std::move(*b));
    }

    std::string_view text_;
};

std::optional<Layout> read_strides(Reader& r) {
    std::vector<int64_t> strides;
    if (!r.take(")")) {
        do {
            const auto v = r.number();
            if (!v || strides.size() >= kMaxLayoutMembers) return std::nullopt;
            strides.push_back(*v);
        } while (r.take(","));
        if (!r.take(")")) return std::nullopt;
    }
    return Layout::with_strides(std::move(strides));
}

std::optional<Layout> read_exprs(Reader& r) {
    const auto rank = r.number();
    if (!rank || *rank < 0 || *rank > kMaxLayoutMembers || !r.take("](")) return std::nullopt;
    std::vector<LayoutExpr> members;
    Layout::Pins pins;
    if (!r.take(")")) {
        do {
            auto e = members.size() < kMaxLayoutMembers ? r.expression(0) : std::nullopt;
            if (!e) return std::nullopt;
            members.push_back(std::move(*e));
            std::optional<LayoutExpr>& pin = pins.emplace_back();
            if (r.take(":") && !(pin = r.expression(0))) return std::nullopt;
        } while (r.take(","));
        if (!r.take(")")) return std::nullopt;
    }
    return Layout::from_exprs("layout", static_cast<int>(*rank), std::move(members), std::move(pins));
}

}  // namespace

std::optional<Layout> parse_layout_text(std::string_view text) {
    if (text == "row") return Layout::row();
    if (text == "col") return Layout::col();
    Reader r(text);
    std::optional<Layout> out;
    if (r.take("strides("))
        out = read_strides(r);
    else if (r.take("["))
        out = read_exprs(r);
    if (!out || !r.at_end() || !out->problem().empty()) return std::nullopt;
    return out;
}

}  // namespace tegula
