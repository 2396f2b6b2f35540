// Loops. Sets, lists, tuples and `for const` unroll; other ranges become for_loop, or while_loop when the body may break or return; `while`
// becomes while_loop. Everything the body may change is carried. A function result that is first seen inside the body is carried too, from
// zeros: only the pass that returns reads it.
#include <algorithm>

#include "sema/elaborate.h"
#include "sema/flow.h"

namespace tegula::sema {

/// The carried state of one loop region while it is built.
struct Elaborator::Carried {
    Locals locals;
    std::vector<Value> likes;  ///< shape of each local's value at entry
    std::vector<ir::ValueId> inits;
    std::vector<TypeId> types;
    Frame* function = nullptr;
    std::optional<Value> saved_result;  ///< of `function`, at entry
};

namespace {

constexpr uint64_t kPassSteps = 128;  // cost of one pass of an unrolled or compile-time loop against limits.const_steps

Frame* function_frame(const std::vector<Frame*>& frames) {
    for (auto it = frames.rbegin(); it != frames.rend(); ++it)
        if ((*it)->kind == Frame::function) return *it;
    return nullptr;
}

/// -step without overflow.
uint64_t negated(int64_t step) { return 0 - static_cast<uint64_t>(step); }

bool statically_set(const std::shared_ptr<Local>& flag) { return flag->value.kind == Value::boolean && flag->value.b; }

}  // namespace

void Elaborator::enter_loop(Carried& c, Span span) {
    for (const auto& l : c.locals) {
        const std::vector<ir::ValueId> leaves = flatten(l->value, span);
        c.likes.push_back(l->value);
        c.inits.insert(c.inits.end(), leaves.begin(), leaves.end());
    }
    for (const ir::ValueId v : c.inits) c.types.push_back(ir().fn().type_of(v));
    c.function = function_frame(frames_);
    if (c.function) {
        c.saved_result = c.function->result;
        c.function->result.reset();
    }
}

void Elaborator::set_carried(const Carried& c, const std::vector<ir::ValueId>& leaves) {
    size_t at = 0;
    for (size_t i = 0; i < c.locals.size(); ++i) c.locals[i]->value = unflatten(c.likes[i], leaves, at);
}

std::vector<ir::ValueId> Elaborator::add_args(ir::BlockId block, const std::vector<TypeId>& types) {
    std::vector<ir::ValueId> out;
    for (const TypeId t : types) out.push_back(ir().fn().add_arg(block, t));
    return out;
}

std::vector<ir::ValueId> Elaborator::loop_end(const Carried& c, Span span) {
    std::vector<ir::ValueId> out;
    for (const auto& l : c.locals) {
        const std::vector<ir::ValueId> leaves = flatten(l->value, span);
        out.insert(out.end(), leaves.begin(), leaves.end());
    }
    out.resize(c.types.size());
    for (size_t i = 0; i < c.types.size(); ++i) {
        if (out[i].valid() && ir().fn().type_of(out[i]) == c.types[i]) continue;
        TEGULA_CHECK(diags_.has_errors(), "carried type");
        out[i] = ir().constant(c.types[i], 0);
    }
    return out;
}

void Elaborator::for_statement(const ast::ForStmt& s) {
    using K = ast::ExprKind;
    if (s.iterable->kind == K::range) return for_range(s, ast::as<ast::RangeExpr>(s.iterable));
    std::vector<Value> items;
    if (s.iterable->kind == K::set) {
        for (const ast::Expr* e : ast::as<ast::SetExpr>(s.iterable).items) items.push_back(expr(*e));
        return for_items(s, items);
    }
    const Value v = expr(*s.iterable);
    if (v.kind == Value::poison) return lost_loop(s);
    if (v.kind != Value::list && v.kind != Value::tuple) {
        error(Diag::not_iterable, s.iterable->span, describe(v));
        return;
    }
    for_items(s, v.items);
}

void Elaborator::for_range(const ast::ForStmt& s, const ast::RangeExpr& range) {
    const Value lo = expr(*range.lo), hi = expr(*range.hi);
    const Value step = range.step ? expr(*range.step) : integer_value(1, s.span);
    if (lo.kind == Value::poison || hi.kind == Value::poison || step.kind == Value::poison) return lost_loop(s);
    if (step.kind == Value::integer && step.i == 0) {
        error(Diag::zero_step, range.step ? range.step->span : s.span);
        return;
    }
    if (folding() && step.kind == Value::tile && folded_int(step).value_or(1) <= 0) return;  // counts upward, as at run time
    if (s.is_const || !building() || (folding() && folded_int(lo) && folded_int(hi) && folded_int(step))) return for_static_range(s, lo, hi, step);
    for_dynamic(s, lo, hi, step);
}

/// A loop over what has no meaning: one pass, for what is wrong in its body.
void Elaborator::lost_loop(const ast::ForStmt& s) {
    Effects effects;
    collect(s.body.stmts, effects, false);
    if (Frame* function = function_frame(frames_); function && effects.returns) {
        function->unknown = true;
        return;
    }
    Frame frame(Frame::loop, {});
    frames_.push_back(&frame);
    iteration(s, poison(s.iterable->span));
    frames_.pop_back();
}

void Elaborator::iteration(const ast::ForStmt& s, const Value& item) {
    const ScopeSwitch scope(scope_, make_scope(scope_));
    bind_pattern(s.pattern, item, false);
    statements(s.body.stmts);
}

/// One unrolled pass per item; exits taken at run time guard the later ones.
void Elaborator::unroll(const ast::ForStmt& s, const std::function<bool(Value&)>& next) {
    Effects effects;
    collect(s.body.stmts, effects, false);
    Frame frame(Frame::loop, {});
    Frame* function = function_frame(frames_);
    frames_.push_back(&frame);
    Value item;
    while (!aborted_ && next(item)) {
        if (!step(s.span, kPassSteps)) break;
        frame.skip->value = flag_value(false);
        if (statically_set(frame.stop) || (function && statically_set(function->stop))) break;
        guard(
            effects, [&] { iteration(s, item); }, s.span);
    }
    frames_.pop_back();
}

void Elaborator::for_items(const ast::ForStmt& s, const std::vector<Value>& items) {
    size_t at = 0;
    unroll(s, [&](Value& item) {
        if (at >= items.size()) return false;
        item = items[at++];
        return true;
    });
}

void Elaborator::for_static_range(const ast::ForStmt& s, const Value& lo, const Value& hi, const Value& step) {
    const auto a = static_int(lo, s.iterable->span, "the start of a `for const` range"),
               b = static_int(hi, s.iterable->span, "the end of a `for const` range"),
               d = static_int(step, s.iterable->span, "the step of a `for const` range");
    if (!a || !b || !d || *d == 0) return;
    __int128 i = *a;
    unroll(s, [&, end = *b, by = *d](Value& item) {
        if (by > 0 ? i >= end : i <= end) return false;
        item = integer_value(i, s.span);
        if (folding() && !s.is_const) item = tile(to_tile(item, s.span), s.span);
        i += by;
        return true;
    });
}

/// Passes of a range from `lo` down to `hi`, no more than count upward in i64: nobody sees more end. Distances are up to 2^64 - 1.
ir::ValueId Elaborator::backward_passes(const Value& lo_value, const Value& hi_value, ir::ValueId lo, ir::ValueId hi, uint64_t by) {
    const auto most = static_cast<uint64_t>(INT64_MAX);
    if (lo_value.kind == Value::integer && hi_value.kind == Value::integer) {
        if (lo_value.i <= hi_value.i) return ir().index(0);
        const uint64_t distance = static_cast<uint64_t>(lo_value.i) - static_cast<uint64_t>(hi_value.i);
        return ir().index(static_cast<int64_t>(std::min((distance - 1) / by + 1, most)));
    }
    const TypeId count = types_.tile(Fmt::u64);
    const ir::ValueId distance = ir().value(ir::Op::bitcast, {ir().elementwise(ir::Op::sub, {lo, hi})}, count);
    const ir::ValueId passes = ir().elementwise(ir::Op::div_ceil, {distance, ir().constant(count, by)});
    const ir::ValueId fewer = ir().elementwise(ir::Op::min, {passes, ir().constant(count, most)});
    const ir::ValueId counted = ir().value(ir::Op::bitcast, {fewer}, types_.tile(Fmt::i64));
    return ir().select(ir().elementwise(ir::Op::gt, {lo, hi}), counted, ir().index(0));
}

void Elaborator::for_dynamic(const ast::ForStmt& s, const Value& lo_value, const Value& hi_value, const Value& step_value) {
    const Span span = s.iterable->span;
    ir::ValueId lo = to_index(lo_value, span), hi = to_index(hi_value, span), by = to_index(step_value, span);
    if (!lo.valid() || !hi.valid() || !by.valid()) return;
    for (const ir::ValueId v : {lo, hi, by}) {
        if (ir().fn().type(v).shape.rank == 0) continue;
        error(Diag::not_an_index, span, "a tile");
        return;
    }
    const bool constant = step_value.kind == Value::integer, backward = constant && step_value.i < 0;
    const bool by_one = backward || (constant && step_value.i == 1);  // what is counted
    const ir::ValueId first = lo, stride = by;
    if (backward) {  // counts passes upward; the index is first + pass * stride
        hi = backward_passes(lo_value, hi_value, lo, hi, negated(step_value.i));
        lo = ir().index(0);
        by = ir().index(1);
    }
    const auto index_at = [&](ir::ValueId counter) {
        if (!backward) return tile(counter, s.pattern.span);
        const ir::ValueId moved = ir().elementwise(ir::Op::mul, {counter, stride});
        return tile(ir().elementwise(ir::Op::add, {first, moved}), s.pattern.span);
    };
    Effects effects;
    collect(s.body.stmts, effects, false);
    Frame frame(Frame::loop, {});
    if (effects.breaks || effects.returns) {
        const ir::ValueId forward = by_one ? ir::ValueId() : ir().elementwise(ir::Op::gt, {by, ir().index(0)});
        const ir::ValueId last = by_one ? ir::ValueId() : ir().elementwise(ir::Op::sub, {hi, by});
        while_region(
            effects, frame, s.attributes, lo,
            [&](ir::ValueId counter) {
                const ir::ValueId below = ir().elementwise(ir::Op::lt, {counter, hi});
                return by_one ? below : ir().elementwise(ir::Op::bit_and, {below, forward});
            },
            [&](ir::ValueId counter) {
                iteration(s, index_at(counter));
                const ir::ValueId next = ir().elementwise(ir::Op::add, {counter, by});
                // The sum may pass the largest integer; where hi - by passes the smallest one, no counter below hi lies above it.
                return by_one ? next : ir().select(ir().elementwise(ir::Op::gt, {counter, last}), hi, next);
            },
            s.span);
        return;
    }
    effects.continues = false;
    Carried c;
    c.locals = carried_by(effects);
    enter_loop(c, s.span);
    ir::Function& fn = ir().fn();
    const ir::BlockId outer = ir().block(), body = fn.add_block();
    const ir::ValueId counter = fn.add_arg(body, types_.tile(Fmt::i64));
    set_carried(c, add_args(body, c.types));
    ir().set_block(body);
    frames_.push_back(&frame);
    iteration(s, index_at(counter));
    frames_.pop_back();
    ir().emit(ir::Op::yield, loop_end(c, s.span), {});
    if (c.function) c.function->result = c.saved_result;
    ir().set_block(outer);
    ir().set_span(s.span);
    std::vector<ir::ValueId> operands{lo, hi, by};
    operands.insert(operands.end(), c.inits.begin(), c.inits.end());
    const int64_t hint = loop_hint(s.attributes);
    const ir::InstId inst = ir().emit(ir::Op::for_loop, operands, c.types, {&hint, 1}, {&body, 1});
    std::vector<ir::ValueId> results;
    for (uint32_t i = 0; i < c.types.size(); ++i) results.push_back(fn.result(inst, i));
    set_carried(c, results);
}

int64_t Elaborator::loop_hint(std::span<const ast::Attribute> attributes) {
    if (attributes.empty()) return 0;
    ir::Function& fn = ir().fn();
    if (fn.loop_hints.empty()) fn.loop_hints.emplace_back();
    fn.loop_hints.push_back(hints(attributes, false));
    return static_cast<int64_t>(fn.loop_hints.size() - 1);
}

void Elaborator::while_statement(const ast::WhileStmt& s) {
    Effects effects;
    collect(s.body.stmts, effects, false);
    Frame frame(Frame::loop, {});
    if (building() && !folding()) {
        while_region(
            effects, frame, s.attributes, {},
            [&](ir::ValueId) {
                const Value v = expr(*s.condition);
                ir::ValueId c;
                if (v.kind == Value::poison || !to_bool(v, s.condition->span, c)) return ir().constant(types_.tile(Fmt::boolean), 0);
                if (ir().fn().type(c).shape.rank == 0) return c;
                error(Diag::not_bool, s.condition->span, "the condition of `while`", describe(v));
                return ir().constant(types_.tile(Fmt::boolean), 0);
            },
            [&](ir::ValueId) {
                block(s.body);
                return ir::ValueId{};
            },
            s.span);
        return;
    }
    Frame* function = function_frame(frames_);
    frames_.push_back(&frame);
    while (!aborted_ && step(s.span, kPassSteps)) {
        const std::optional<bool> go = static_bool(expr(*s.condition), s.condition->span);
        if (!go || !*go) break;
        frame.skip->value = flag_value(false);
        block(s.body);
        if (statically_set(frame.stop) || (function && statically_set(function->stop))) break;
    }
    frames_.pop_back();
}

/// The condition of a loop that may have been left: `test` runs only while no exit was taken.
ir::ValueId Elaborator::guarded_condition(const Locals& exits, const std::function<ir::ValueId()>& test, Span span) {
    ir::ValueId taken;
    for (const auto& flag : exits) taken = taken.valid() ? ir().elementwise(ir::Op::bit_or, {taken, flag->value.v}) : flag->value.v;
    if (!taken.valid()) return test();
    ir::Function& fn = ir().fn();
    const ir::BlockId outer = ir().block();
    const ir::BlockId blocks[2] = {fn.add_block(), fn.add_block()};
    const ir::ValueId open = ir().elementwise(ir::Op::bit_not, {taken});
    for (int side = 0; side < 2; ++side) {
        ir().set_block(blocks[side]);
        const ir::ValueId v = side == 0 ? test() : ir().constant(types_.tile(Fmt::boolean), 0);
        ir().emit(ir::Op::yield, {&v, 1}, {});
    }
    ir().set_block(outer);
    ir().set_span(span);
    const TypeId type = types_.tile(Fmt::boolean);
    return fn.result(ir().emit(ir::Op::if_else, {&open, 1}, {&type, 1}, {}, blocks));
}

void Elaborator::while_region(Effects effects, Frame& frame, std::span<const ast::Attribute> attributes, ir::ValueId counter,
                              const std::function<ir::ValueId(ir::ValueId)>& condition, const std::function<ir::ValueId(ir::ValueId)>& body,
                              Span span) {
    Locals exits;
    if (effects.breaks) exits.push_back(frame.stop);
    effects.breaks = effects.continues = false;
    Carried c;
    c.locals = carried_by(effects);
    Frame* function = function_frame(frames_);
    if (effects.returns && function) exits.push_back(function->stop);
    if (!exits.empty() && exits.front() == frame.stop) c.locals.push_back(frame.stop);
    enter_loop(c, span);
    if (counter.valid()) {
        c.inits.push_back(counter);
        c.types.push_back(types_.tile(Fmt::i64));
    }
    ir::Function& fn = ir().fn();
    const ir::BlockId outer = ir().block();
    const ir::BlockId blocks[2] = {fn.add_block(), fn.add_block()};
    frames_.push_back(&frame);

    std::vector<ir::ValueId> passed = add_args(blocks[0], c.types);
    set_carried(c, passed);
    ir().set_block(blocks[0]);
    const ir::ValueId at_test = counter.valid() ? passed.back() : ir::ValueId{};
    const ir::ValueId go = guarded_condition(
        exits, [&] { return condition(at_test); }, span);

    const std::vector<ir::ValueId> args = add_args(blocks[1], c.types);
    set_carried(c, args);
    for (const auto& flag : exits) flag->value = flag_value(false);
    ir().set_block(blocks[1]);
    const ir::ValueId next = body(counter.valid() ? args.back() : ir::ValueId{});
    const size_t counters = counter.valid() ? 1 : 0;
    Carried without = c;
    without.types.resize(c.types.size() - counters);
    std::vector<ir::ValueId> yields = loop_end(without, span);
    if (counters) yields.push_back(next);
    frames_.pop_back();

    Value result;
    const size_t result_at = yields.size();
    if (function && function->result) {
        result = *function->result;
        std::vector<ir::ValueId> leaves = flatten(result, span);
        std::vector<TypeId> types;
        for (const ir::ValueId v : leaves) types.push_back(fn.type_of(v));
        for (const ir::ValueId v : add_args(blocks[0], types)) passed.push_back(v);
        add_args(blocks[1], types);
        yields.insert(yields.end(), leaves.begin(), leaves.end());
        c.types.insert(c.types.end(), types.begin(), types.end());
        ir().set_block(outer);
        for (const TypeId t : types) c.inits.push_back(ir().constant(t, 0));
    }
    ir().set_span(span);
    ir().set_block(blocks[1]);
    ir().emit(ir::Op::yield, yields, {});
    ir().set_block(blocks[0]);
    passed.insert(passed.begin(), go);
    ir().emit(ir::Op::condition, passed, {});
    ir().set_block(outer);
    const int64_t hint = loop_hint(attributes);
    const ir::InstId inst = ir().emit(ir::Op::while_loop, c.inits, c.types, {&hint, 1}, blocks);
    std::vector<ir::ValueId> results;
    for (uint32_t i = 0; i < c.types.size(); ++i) results.push_back(fn.result(inst, i));
    set_carried(c, results);
    if (!function) return;
    if (!function->result) {
        function->result = c.saved_result;
    } else {
        const std::vector<ir::ValueId> leaves(results.begin() + static_cast<ptrdiff_t>(result_at), results.end());
        function->result = unflatten_numbers(result, leaves);
    }
}

}  // namespace tegula::sema
