// Branches and guards: which Locals a region may change, and how two ways meet again as results of an if_else. Values that are equal and
// static on both ways stay static; everything else becomes a result of the if_else.
#include <algorithm>

#include "sema/elaborate.h"
#include "sema/flow.h"
#include "sema/modifiers.h"

namespace tegula::sema {

namespace {

constexpr unsigned kMaxGuards = 200;  // early exits in a row nest the IR this deep

std::string_view assigned_root(const ast::Expr* e) {
    e = &without_modifiers(*e);
    for (;;) {
        if (e->kind == ast::ExprKind::member) {
            e = ast::as<ast::MemberExpr>(e).base;
        } else if (e->kind == ast::ExprKind::index) {
            e = ast::as<ast::IndexExpr>(e).base;
        } else {
            return e->kind == ast::ExprKind::name ? ast::as<ast::NameExpr>(e).name : std::string_view();
        }
    }
}

void add_name(std::vector<std::string_view>& names, std::string_view name) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

bool same_static(const Value& a, const Value& b) {
    if (a.kind != b.kind || !a.is_static_number()) return false;
    return a.kind == Value::integer ? a.i == b.i : a.kind == Value::boolean ? a.b == b.b : a.r == b.r;
}

/// Can a choice at run time give this value?
bool has_runtime_form(const Value& v) {
    switch (v.kind) {
        case Value::unit:
        case Value::tile:
        case Value::block_tile:
        case Value::integer:
        case Value::real:
        case Value::boolean:
            return true;
        case Value::tuple:
        case Value::list:
        case Value::structure:
            return std::all_of(v.items.begin(), v.items.end(), has_runtime_form);
        default:
            return false;
    }
}

}  // namespace

void Elaborator::collect(const ast::Stmt& s, Effects& out, bool in_loop) {
    switch (s.kind) {
        case ast::StmtKind::assign: {
            const ast::Expr* target = static_cast<const ast::AssignStmt&>(s).target;
            if (target->kind == ast::ExprKind::tuple) {
                for (const ast::Expr* t : ast::as<ast::TupleExpr>(target).items) add_name(out.names, assigned_root(t));
            } else {
                add_name(out.names, assigned_root(target));
            }
            return;
        }
        case ast::StmtKind::if_: {
            const auto& i = static_cast<const ast::IfStmt&>(s);
            collect(i.then_block.stmts, out, in_loop);
            if (i.has_else) collect(i.else_block.stmts, out, in_loop);
            return;
        }
        case ast::StmtKind::for_:
            return collect(static_cast<const ast::ForStmt&>(s).body.stmts, out, true);
        case ast::StmtKind::while_:
            return collect(static_cast<const ast::WhileStmt&>(s).body.stmts, out, true);
        case ast::StmtKind::block:
            return collect(static_cast<const ast::BlockStmt&>(s).block.stmts, out, in_loop);
        case ast::StmtKind::break_:
            out.breaks |= !in_loop;
            return;
        case ast::StmtKind::continue_:
            out.continues |= !in_loop;
            return;
        case ast::StmtKind::return_:
            out.returns = true;
            return;
        case ast::StmtKind::let:
        case ast::StmtKind::expr:
            return;
    }
}

void Elaborator::collect(std::span<const ast::Stmt* const> stmts, Effects& out, bool in_loop) {
    for (const ast::Stmt* s : stmts) collect(*s, out, in_loop);
}

Elaborator::Locals Elaborator::live_flags() {
    Locals out;
    for (auto it = frames_.rbegin(); it != frames_.rend(); ++it) {
        const Frame& f = **it;
        if (f.kind == Frame::function) {
            out.push_back(f.stop);
            break;
        }
        if (it == frames_.rbegin()) {
            out.push_back(f.stop);
            out.push_back(f.skip);
        }
    }
    return out;
}

/// The Locals that exist now and that a region with these effects may change.
Elaborator::Locals Elaborator::carried_by(const Effects& effects) {
    Locals out;
    for (std::string_view name : effects.names) {
        for (const Scope* s = scope_.get(); s; s = s->parent.get()) {
            const auto it = s->names.find(name);
            if (it == s->names.end()) continue;
            if (it->second->is_var && it->second->value.kind != Value::poison) out.push_back(it->second);
            break;
        }
    }
    if (!frames_.empty() && frames_.back()->kind == Frame::loop) {
        if (effects.breaks) out.push_back(frames_.back()->stop);
        if (effects.continues) out.push_back(frames_.back()->skip);
    }
    for (auto it = frames_.rbegin(); effects.returns && it != frames_.rend(); ++it) {
        if ((*it)->kind != Frame::function) continue;
        out.push_back((*it)->stop);
        break;
    }
    return out;
}

/// What follows an `if` whose condition has no meaning: either branch may be taken, or left out when the kernel is compiled.
void Elaborator::lost_branch(const ast::IfStmt& s) {
    Effects effects;
    collect(s.then_block.stmts, effects, false);
    if (s.has_else) collect(s.else_block.stmts, effects, false);
    for (auto it = frames_.rbegin(); effects.returns && it != frames_.rend(); ++it) {
        if ((*it)->kind != Frame::function) continue;
        (*it)->unknown = true;
        return;
    }
    if (s.is_const || assumed_ || !building() || folding()) return;
    branch(
        ir().constant(types_.tile(Fmt::boolean), 0), effects, [&] { block(s.then_block); },
        [&] {
            if (s.has_else) block(s.else_block);
        },
        s.span);
}

void Elaborator::if_statement(const ast::IfStmt& s) {
    const Value c = expr(*s.condition);
    if (c.kind == Value::poison) return lost_branch(s);
    if (s.is_const || c.kind == Value::boolean || !building() || folded_code(c)) {
        const std::optional<bool> taken = static_bool(c, s.condition->span);
        if (!taken) return;
        if (*taken) return block(s.then_block);
        if (s.has_else) block(s.else_block);
        return;
    }
    ir::ValueId condition;
    if (!to_bool(c, s.condition->span, condition)) return;
    if (ir().fn().type(condition).shape.rank != 0) {
        Diagnostic& d = diags_.report(Diag::not_bool, s.condition->span, {"the condition of `if`", describe(c)});
        d.help("a branch needs one bool; reduce with any(..) or all(..), or choose per element with select(..)");
        return;
    }
    Effects effects;
    collect(s.then_block.stmts, effects, false);
    if (s.has_else) collect(s.else_block.stmts, effects, false);
    branch(
        condition, effects, [&] { block(s.then_block); },
        [&] {
            if (s.has_else) block(s.else_block);
        },
        s.span);
}

/// Joins the function results of two ways (null: none yet). What one way lacks is zeros there: no path reads them.
void Elaborator::merge_result(Frame& frame, const Value* before, const Value* then, const Value* otherwise, ir::BlockId a, ir::BlockId b,
                              std::vector<ir::ValueId>& va, std::vector<ir::ValueId>& vb, Span span) {
    const auto leaves_of = [&](const Value& v, ir::BlockId at) {
        ir().set_block(at);
        Value copy = v;
        return flatten(copy, span);
    };
    const auto zeros_like = [&](const std::vector<ir::ValueId>& like, ir::BlockId at) {
        ir().set_block(at);
        std::vector<ir::ValueId> out;
        for (const ir::ValueId v : like) out.push_back(ir().constant(ir().fn().type_of(v), 0));
        return out;
    };
    const Value* x = then ? then : before;
    const Value* y = otherwise ? otherwise : before;
    if (!x && !y) return;
    if ((x && x->kind == Value::poison) || (y && y->kind == Value::poison)) {
        frame.result = x && x->kind == Value::poison ? *x : *y;
        return;
    }
    bool ok = true;
    const Value shape_x = x ? *x : *y;
    if (has_runtime_form(shape_x)) {
        std::vector<ir::ValueId> p = x ? leaves_of(*x, a) : std::vector<ir::ValueId>(), q = y ? leaves_of(*y, b) : std::vector<ir::ValueId>();
        if (!x) p = zeros_like(q, a);
        if (!y) q = zeros_like(p, b);
        ok = p.size() == q.size() && (!x || !y || x->kind == y->kind || (x->items.empty() && y->items.empty() && p.size() == 1));
        for (size_t i = 0; ok && i < p.size(); ++i) ok = ir().fn().type_of(p[i]) == ir().fn().type_of(q[i]);
        if (ok) {
            va.insert(va.end(), p.begin(), p.end());
            vb.insert(vb.end(), q.begin(), q.end());
            return;
        }
    } else if (x && y && x->kind == y->kind && same_value(*x, *y)) {
        frame.result = *x;
        return;
    } else {
        frame.result = error(Diag::no_runtime_form, span, describe(shape_x));
        return;
    }
    if (frame.fits_all) {
        Diagnostic& d = diags_.report(Diag::return_types, x->span.valid() ? x->span : span, {std::string(frame.name), describe(*x), describe(*y)});
        const auto is_number = [&](const Value& v) { return v.kind == Value::tile && !ir().fn().type(v.v).pointer; };
        if (x && y && is_number(*x) && is_number(*y) && elem_of(*x) != elem_of(*y)) {
            const std::string &one = types_.format(elem_of(*x)).name, &other = types_.format(elem_of(*y)).name;
            const bool first = widens(types_.format(elem_of(*x)), types_.format(elem_of(*y)));  // which loses nothing
            const bool second = widens(types_.format(elem_of(*y)), types_.format(elem_of(*x)));
            if (second) offer_cast(d, {y->span}, one, true);
            offer_cast(d, {x->span}, other, first);
            if (!second) offer_cast(d, {y->span}, one);
        }
    }
    frame.fits_all = false;
    frame.result = poison(span);
}

void Elaborator::branch(ir::ValueId condition, const Effects& effects, const std::function<void()>& then, const std::function<void()>& otherwise,
                        Span span) {
    ir::Function& fn = ir().fn();
    const ir::BlockId outer = ir().block();
    const ir::BlockId blocks[2] = {fn.add_block(), fn.add_block()};
    const Locals locals = carried_by(effects);
    Frame* frame = nullptr;
    for (auto it = frames_.rbegin(); it != frames_.rend() && !frame; ++it)
        if ((*it)->kind == Frame::function) frame = *it;
    std::vector<Value> before, ends[2];
    for (const auto& l : locals) before.push_back(l->value);
    const std::optional<Value> result_before = frame ? frame->result : std::nullopt;
    std::optional<Value> results[2];
    for (int side = 0; side < 2; ++side) {
        ir().set_block(blocks[side]);
        if (frame) frame->result.reset();
        side == 0 ? then() : otherwise();
        for (size_t i = 0; i < locals.size(); ++i) {
            ends[side].push_back(locals[i]->value);
            locals[i]->value = before[i];
        }
        if (frame) results[side] = frame->result;
    }
    std::vector<ir::ValueId> yields[2];
    std::vector<Value> merged(locals.size());
    std::vector<size_t> counts(locals.size(), 0);
    for (size_t i = 0; i < locals.size(); ++i) {
        if (same_static(ends[0][i], ends[1][i])) {
            merged[i] = ends[0][i];
            continue;
        }
        std::vector<ir::ValueId> leaves[2];
        for (int side = 0; side < 2; ++side) {
            ir().set_block(blocks[side]);
            leaves[side] = flatten(ends[side][i], span);
        }
        merged[i] = ends[0][i];
        if (leaves[0] == leaves[1]) continue;
        counts[i] = leaves[0].size();
        for (int side = 0; side < 2; ++side) yields[side].insert(yields[side].end(), leaves[side].begin(), leaves[side].end());
    }
    const size_t result_at = yields[0].size();
    if (frame) {
        frame->result = result_before;
        if (results[0] || results[1]) {
            const Value* prior = result_before ? &*result_before : nullptr;
            merge_result(*frame, prior, results[0] ? &*results[0] : nullptr, results[1] ? &*results[1] : nullptr, blocks[0], blocks[1], yields[0],
                         yields[1], span);
        }
    }
    std::vector<TypeId> types;
    for (const ir::ValueId v : yields[0]) types.push_back(fn.type_of(v));
    for (int side = 0; side < 2; ++side) {
        ir().set_block(blocks[side]);
        ir().emit(ir::Op::yield, yields[side], {});
    }
    ir().set_block(outer);
    ir().set_span(span);
    const ir::InstId inst = ir().emit(ir::Op::if_else, {&condition, 1}, types, {}, blocks);
    std::vector<ir::ValueId> out;
    for (uint32_t i = 0; i < types.size(); ++i) out.push_back(fn.result(inst, i));
    size_t at = 0;
    for (size_t i = 0; i < locals.size(); ++i) {
        locals[i]->value = counts[i] ? unflatten(merged[i], out, at) : merged[i];
    }
    if (out.size() > result_at) {
        Value like = results[0] ? *results[0] : *results[1];
        ir().set_block(outer);
        if (like.is_static_number()) {
            like = tile(out[result_at], like.span);
        } else {
            const std::vector<ir::ValueId> taken(out.begin() + static_cast<ptrdiff_t>(result_at), out.end());
            like = unflatten_numbers(like, taken);
        }
        frame->result = like;
    } else if (frame && !frame->result && (results[0] || results[1])) {
        frame->result = results[0] ? results[0] : results[1];
    }
}

/// unflatten of a bundle whose static numbers had been made tiles when it was flattened.
Value Elaborator::unflatten_numbers(const Value& like, const std::vector<ir::ValueId>& leaves) {
    size_t at = 0;
    const std::function<Value(const Value&)> tiles = [&](const Value& v) {
        Value out = v;
        if (v.is_static_number()) {
            out = Value{};
            out.kind = Value::tile;
            out.span = v.span;
        }
        for (Value& item : out.items) item = tiles(item);
        return out;
    };
    return unflatten(tiles(like), leaves, at);
}

/// Runs `rest` where none of the live exits was taken. False when nothing could be reached.
bool Elaborator::guard(const Effects& effects, const std::function<void()>& rest, Span span) {
    const Locals flags = live_flags();
    ir::ValueId taken;
    size_t run_time = 0;
    for (const auto& flag : flags) {
        if (flag->value.kind == Value::boolean && flag->value.b) return false;
        if (flag->value.kind != Value::tile) continue;
        ++run_time;
        taken = taken.valid() ? ir().elementwise(ir::Op::bit_or, {taken, flag->value.v}) : flag->value.v;
    }
    if (!taken.valid()) {
        rest();
        return true;
    }
    if (guards_ >= kMaxGuards) {
        if (!aborted_) diags_.report(Diag::nesting_budget, span);
        aborted_ = true;
        return false;
    }
    ++guards_;
    const ir::ValueId open = ir().elementwise(ir::Op::bit_not, {taken});
    // Every live flag counts as changed: it is known to be clear inside, and set outside when there is only one.
    Effects all = effects;
    all.breaks = all.continues = all.returns = true;
    branch(
        open, all,
        [&] {
            for (const auto& flag : flags) flag->value = flag_value(false);
            rest();
        },
        [&] {
            for (const auto& flag : flags)
                if (run_time == 1 && flag->value.kind == Value::tile) flag->value = flag_value(true);
        },
        span);
    --guards_;
    return true;
}

}  // namespace tegula::sema
