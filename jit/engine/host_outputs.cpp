// What launches of host statements write: variables, members, elements and parts of them, so that what a kernel writes is seen afterwards.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "jit/engine/host.h"
#include "sema/walk.h"

namespace tegula {

namespace {

constexpr int64_t kOutside = -1;  ///< an element of a part that the tensor does not have: read as 0, dropped on writing

bool has_tensor(const HostValue& value) { return value.kind == HostValue::tensor || std::ranges::any_of(value.items, has_tensor); }

}  // namespace

bool makes_array(const ast::Expr& expr) {
    const ast::Expr* head = &expr;
    if (head->kind == ast::ExprKind::call) head = ast::as<ast::CallExpr>(head).callee;
    return head->kind == ast::ExprKind::index && ast::as<ast::IndexExpr>(head).base->kind == ast::ExprKind::instantiate;
}

const ast::Expr* viewed(const ast::Expr& expr) {
    const auto* call = expr.kind == ast::ExprKind::call ? &ast::as<ast::CallExpr>(&expr) : nullptr;
    if (!call || called_name(expr) != "view" || call->args.size() != 1) return nullptr;
    const ast::Expr* inner = viewed(*call->args[0].value);
    return inner ? inner : call->args[0].value;
}

bool HostRunner::place(const ast::Expr& expr, HostValue*& at) {
    at = nullptr;
    HostValue* base = nullptr;
    switch (expr.kind) {
        case ast::ExprKind::name:
            at = find(ast::as<ast::NameExpr>(&expr).name);
            return true;
        case ast::ExprKind::member: {
            const auto& member = ast::as<ast::MemberExpr>(&expr);
            if (!place(*member.base, base)) return false;
            at = base ? member_of(*base, member.member.text) : nullptr;
            return true;
        }
        case ast::ExprKind::index: {
            const auto& index = ast::as<ast::IndexExpr>(&expr);
            if (!place(*index.base, base)) return false;
            if (!base || base->kind != HostValue::tuple || base->of || index.items.size() != 1 || index.items[0].kind != ast::IndexItem::value)
                return true;
            const auto value = evaluate(*index.items[0].start);
            if (!value) return false;
            const auto i = integer_in(*value);
            if (i && *i >= 0 && *i < static_cast<__int128>(base->items.size())) at = &base->items[static_cast<size_t>(*i)];
            return true;
        }
        default:
            return true;
    }
}

bool HostRunner::holds_tensor(const ast::Expr& expr) {
    return std::ranges::any_of(sema::names_in(expr), [&](const ast::Name& name) {
        const HostValue* value = find(name.text);
        return value && has_tensor(*value);
    });
}

std::optional<HostValue> HostRunner::output(const ast::Expr& expr, std::vector<WrittenPart>& parts) {
    HostValue* at = nullptr;
    if (!place(expr, at)) return std::nullopt;
    if (at) return *at;
    if (makes_array(expr) || !holds_tensor(expr)) return evaluate(expr);
    if (const ast::Expr* seen = viewed(expr); seen && !module_.find("view")) {
        if (!place(*seen, at)) return std::nullopt;
        if (at) return evaluate(expr);
    }
    const auto* index = expr.kind == ast::ExprKind::index ? &ast::as<ast::IndexExpr>(&expr) : nullptr;
    const auto* member = expr.kind == ast::ExprKind::member ? &ast::as<ast::MemberExpr>(&expr) : nullptr;
    if ((index && !place(*index->base, at)) || (member && !place(*member->base, at))) return std::nullopt;
    if (index && at && at->kind == HostValue::tensor) return part_of(*index, at->t, parts);
    if (at && !evaluate(expr)) return std::nullopt;  // there is no such member or element
    diags_->report(Diag::host_output, expr.span, {sema::source_text(expr), "a copy that nobody sees after the launch"});
    return std::nullopt;
}

std::optional<HostValue> HostRunner::part_of(const ast::IndexExpr& expr, const std::shared_ptr<HostTensor>& whole, std::vector<WrittenPart>& parts) {
    TypeTable& types = module_.types();
    const auto refuse = [&](const char* why) {
        diags_->report(Diag::host_output, expr.span, {sema::source_text(expr), why});
        return std::nullopt;
    };
    const Format& format = types.format(whole->elem);
    if (format.is_block()) return refuse("a part of a tensor whose elements share scales");
    // The same part of the numbers of the elements tells which elements it has. They count from 1: outside of the tensor is read as 0.
    const auto count = static_cast<size_t>(whole->extents.elements());
    step(expr.span, count);
    TileData numbers{id_of(Fmt::i64), whole->extents, std::vector<uint8_t>(count * sizeof(int64_t))};
    for (size_t i = 0; i < count; ++i) {
        const auto number = static_cast<int64_t>(i) + 1;
        std::memcpy(numbers.bytes.data() + i * sizeof number, &number, sizeof number);
    }
    const sema::HostResolver others = resolver();
    bool asked = false;
    const auto resolve = [&](const ast::Expr& e) -> std::optional<sema::HostOperand> {
        if (&e != expr.base) return others(e);
        asked = true;
        sema::HostOperand operand;
        operand.data = &numbers;
        return operand;
    };
    std::vector<TileData> results;
    const auto shape = computed(expr, resolve, results);
    if (!shape) return std::nullopt;
    if (!asked || shape->kind != sema::HostOperand::tile || results.size() != 1) return refuse("no part of a tensor");

    WrittenPart part;
    part.whole = whole;
    part.elements.resize(static_cast<size_t>(results[0].shape.elements()));
    std::memcpy(part.elements.data(), results[0].bytes.data(), part.elements.size() * sizeof(int64_t));
    for (int64_t& element : part.elements) --element;
    std::vector<bool> taken(count);
    for (const int64_t element : part.elements) {
        if (element == kOutside) continue;
        if (taken[static_cast<size_t>(element)]) return refuse("a part that has an element twice");
        taken[static_cast<size_t>(element)] = true;
    }
    for (const WrittenPart& other : parts)
        if (other.whole != whole && owner(other.whole) == owner(whole)) return refuse("a part of a tensor of which another view is written too");
    for (const WrittenPart& other : parts)
        if (other.whole == whole && std::ranges::any_of(other.elements, [&](int64_t element) { return element != kOutside && taken[static_cast<size_t>(element)]; }))
            return refuse("elements of which another argument is written too");

    HostValue out;
    out.kind = HostValue::tensor;
    if (!new_tensor(out.t, whole->elem, types.intern(Layout::row()), results[0].shape, !whole->view().initialised, expr.span)) return std::nullopt;
    const TileData all = read_tile(types, whole->view());
    const std::vector<bool> written = written_elements(types, whole->view());
    const unsigned width = format.container_bytes();
    TileData tile{whole->elem, results[0].shape, std::vector<uint8_t>(part.elements.size() * width)};
    std::vector<bool> part_written(written.empty() ? 0 : part.elements.size());
    const uint64_t zero = encode(format, 0.0);
    for (size_t i = 0; i < part.elements.size(); ++i) {
        if (part.elements[i] == kOutside) {
            std::memcpy(tile.bytes.data() + i * width, &zero, width);
            if (!written.empty()) part_written[i] = true;
            continue;
        }
        const auto from = static_cast<size_t>(part.elements[i]);
        std::memcpy(tile.bytes.data() + i * width, all.bytes.data() + from * width, width);
        if (!written.empty()) part_written[i] = written[from];
    }
    write_tile(types, out.t->view(), tile);
    forget_elements(types, out.t->view(), part_written);
    part.part = out.t;
    parts.push_back(std::move(part));
    return out;
}

void HostRunner::put_back(const WrittenPart& part) {
    TypeTable& types = module_.types();
    TileData all = read_tile(types, part.whole->view());
    const TileData tile = read_tile(types, part.part->view());
    std::vector<bool> written = written_elements(types, part.whole->view());
    const std::vector<bool> part_written = written_elements(types, part.part->view());
    const unsigned width = types.format(part.whole->elem).container_bytes();
    for (size_t i = 0; i < part.elements.size(); ++i) {
        if (part.elements[i] == kOutside) continue;
        const auto to = static_cast<size_t>(part.elements[i]);
        std::memcpy(all.bytes.data() + to * width, tile.bytes.data() + i * width, width);
        if (!written.empty()) written[to] = part_written[i];
    }
    write_tile(types, part.whole->view(), all);
    forget_elements(types, part.whole->view(), written);
}

}  // namespace tegula
