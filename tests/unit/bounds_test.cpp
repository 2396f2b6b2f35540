// The range proofs of lower/bounds.cpp and what the mask pass makes of them, against random functions evaluated for many launches that the facts
// allow: a proof that is false for one of them is a failure. Seeds from the first on; TEGULA_BOUNDS_SEEDS=FROM:TO for others.
#include "lower/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>

#include "lang/ir_text.h"
#include "lang/layout.h"
#include "tests/unit/bounds_values.h"
#include "tests/unit/sample.h"

namespace tegula::testing {
namespace {

using namespace ir;

constexpr uint64_t kSeeds = 400;
constexpr int kLaunches = 40;

/// What was proved of a - b wherever an instruction stands.
struct Claim {
    LinearForm a, b;
    int64_t least;
    std::vector<int64_t> divisors;  ///< of it
    ValueId value;                  ///< whose form `a` is, if any
    bool itself;                    ///< it, and not only its form, is 0 or more
};

class Checker {
public:
    explicit Checker(uint64_t seed) : seed_(seed), program_(seed) {
        static_cast<LaunchFacts&>(options_) = program_.facts;
        fn_ = parse();
        passed_ = parse();
        masks(*passed_, options_);
        for (uint32_t b = 0; b < fn_->block_count(); ++b)
            for (const InstId i : fn_->block(BlockId{b}).insts) collect(i);
        for (uint32_t b = 0; b < fn_->block_count(); ++b)
            for (const InstId i : fn_->block(BlockId{b}).insts)
                if (fn_->inst(i).op == Op::for_loop) claim_counter(i);
    }
    void run() {
        SCOPED_TRACE("seed " + std::to_string(seed_) + "\n" + facts_text() + program_.text);
        Draw r(seed_ + 1000000);
        for (int n = 0; n < kLaunches && !::testing::Test::HasFailure(); ++n) {
            const Launch launch = draw_launch(r, *fn_, options_, false);
            if (launch.grid[0] < 1 || launch.grid[1] < 1 || launch.grid[2] < 1) continue;
            std::string text;
            for (const auto& [name, v] : launch.numbers) text += name + " = " + std::to_string(v) + ", ";
            for (size_t axis = 0; axis < 3; ++axis)
                text += "program " + std::to_string(launch.program[axis]) + " of " + std::to_string(launch.grid[axis]) + ", ";
            SCOPED_TRACE(text);
            Evaluator e(*fn_, launch, seed_);
            e.run([&](InstId i) { visit(e, i); });
        }
    }
    int inside = 0, dropped = 0, zero = 0, bounds = 0;

private:
    std::unique_ptr<Function> parse() {
        DiagSink diags;
        auto fn = parse_ir(sources_, sources_.add("test.ir", program_.text), types_, diags);
        for (const Diagnostic& d : diags.all()) ADD_FAILURE() << render_text(d, sources_, false);
        if (!fn) throw std::runtime_error("IR text does not parse:\n" + program_.text);
        return fn;
    }
    std::string facts_text() const {
        std::string out;
        for (const auto& f : options_.facts)
            out += "// fact: " + f.extent + " multiple " + std::to_string(f.divisor) + " at_least " + std::to_string(f.at_least) + " at_most " +
                   std::to_string(f.at_most) + "\n";
        for (const auto& d : options_.dims) out += "// dim: " + d.tensor + " " + std::to_string(d.axis) + " " + d.extent + "\n";
        for (const auto& g : options_.grid)
            out +=
                "// grid: " + std::to_string(g.axis) + " " + g.extent + " " + std::to_string(g.tile) + " at_most " + std::to_string(g.at_most) + "\n";
        return out;
    }

    /// The largest slack that is proved of a - b.
    void claim(Bounds& prover, InstId at, const LinearForm& a, const LinearForm& b) {
        Claim c{a, b, INT64_MIN, {}, {}, false};
        for (const int64_t range : {int64_t{1} << 12, int64_t{1} << 61}) {
            if (!prover.at_least(a, b, -range)) continue;
            int64_t yes = -range, no = range;
            while (no - yes > 1) {
                const int64_t middle = yes + (no - yes) / 2;
                (prover.at_least(a, b, middle) ? yes : no) = middle;
            }
            c.least = yes;
            break;
        }
        bounds += c.least != INT64_MIN;
        claims_[at.v].push_back(std::move(c));
    }
    void claim_scalar(InstId at, ValueId v) {
        Bounds prover(*fn_, options_);
        const auto form = prover.exact(v);
        if (!form) return;
        claim(prover, at, *form, {});
        Claim& c = claims_[at.v].back();
        c.value = v;
        c.itself = prover.at_least(v, 0);
        for (const int64_t by : {2, 3, 4, 5, 6, 8, 9, 10, 16})
            if (prover.divisible(v, by)) c.divisors.push_back(by);
        claim(prover, at, {}, *form);
        for (const Param& p : fn_->params) {
            if (p.kind != Param::extent) continue;
            const LinearForm extent = *prover.exact(p.value);
            claim(prover, at, extent, *form);
            if (form->constant % 2 == 0) claim(prover, at, *form, extent);
        }
    }
    void claim_counter(InstId loop) {
        const BlockId body = fn_->blocks(fn_->inst(loop))[0];
        claim_scalar(fn_->block(body).insts.front(), fn_->block(body).args[0]);
    }
    void collect(InstId i) {
        const Inst& inst = fn_->inst(i);
        if (inst.results.count != 1 || inst.op == Op::for_loop) return;
        const ValueId result = fn_->result(inst);
        const Type& type = fn_->type(result);
        if (type.elem == Fmt::i64 && type.shape.rank == 0) claim_scalar(i, result);
        if (!type.pointer && type.elem == Fmt::boolean && Bounds(*fn_, options_).always_true(result)) true_.insert(result.v);
        if (inst.op < Op::eq || inst.op > Op::ge || type.shape.rank != 0) return;
        Bounds prover(*fn_, options_);
        const auto a = prover.exact(fn_->operands(inst)[0]), b = prover.exact(fn_->operands(inst)[1]);
        if (!a || !b) return;
        claim(prover, i, *a, *b);
        claim(prover, i, *b, *a);
    }

    /// The form's own value, which 64 bits may not hold; nothing where it has atoms that are no values.
    std::optional<__int128> value_of(const Evaluator& e, const LinearForm& form) const {
        __int128 sum = form.constant;
        for (const auto& [atom, coefficient] : form.terms) {
            if (atom >= fn_->value_count() || !e.has(ValueId{atom})) return std::nullopt;
            sum += static_cast<__int128>(coefficient) * e.value(ValueId{atom})[0];
        }
        return sum;
    }
    void visit(const Evaluator& e, InstId i) {
        const Inst& inst = fn_->inst(i);
        if (const auto found = claims_.find(i.v); found != claims_.end())
            for (const Claim& c : found->second) hold(e, i, c);
        if (inst.results.count == 1 && true_.contains(fn_->result(inst).v)) all(e, i, fn_->result(inst), 1, "was taken for true");
        if (inst.op == Op::load || inst.op == Op::store) access(e, i);
        if (inst.op == Op::ptr_load || inst.op == Op::ptr_store) pointer(e, i);
        if (inst.op != Op::rem || !zeros().contains(fn_->result(inst).v)) return;
        ++zero;
        all(e, i, fn_->result(inst), 0, "was taken for 0");
    }
    void hold(const Evaluator& e, InstId i, const Claim& c) {
        const auto a = value_of(e, c.a), b = value_of(e, c.b);
        if (!a || !b) return;
        const auto text = [](__int128 v) { return std::to_string(static_cast<double>(v)); };
        if (c.value.valid()) {
            const int64_t value = e.value(c.value)[0];
            if (static_cast<int64_t>(*a) != value) ADD_FAILURE() << at(i) << " is " << value << " and its form " << text(*a);
            if (c.itself && value < 0) ADD_FAILURE() << at(i) << " is " << value << ", not 0 or more";
        }
        if (c.least != INT64_MIN && *a - *b < c.least) ADD_FAILURE() << at(i) << ": " << text(*a - *b) << " is below " << c.least;
        for (const int64_t by : c.divisors)
            if (e.value(c.value)[0] % by != 0) ADD_FAILURE() << at(i) << ": " << e.value(c.value)[0] << " is no multiple of " << by;
    }
    /// Are all elements so?
    void all(const Evaluator& e, InstId i, ValueId v, int64_t wanted, const char* what) {
        const auto& values = e.value(v);
        if (std::any_of(values.begin(), values.end(), [&](int64_t x) { return x != wanted; })) ADD_FAILURE() << at(i) << " " << what;
    }
    void access(const Evaluator& e, InstId i) {
        const Access before = fn_->access(fn_->inst(i)), now = passed_->access(passed_->inst(i));
        const auto operands = fn_->operands(fn_->inst(i));
        size_t operand = 1;
        bool all_inside = true;
        for (size_t d = 0; d < before.axes.size(); ++d) {
            const Access::Axis& axis = before.axes[d];
            if (axis.kind == Access::all) continue;
            const int64_t start = e.value(operands[operand++])[0], extent = e.extent(operands[0], d);
            const __int128 end = start + static_cast<__int128>(axis.kind == Access::range ? axis.extent - 1 : 0) * axis.step;
            const bool in = start >= 0 && start < extent && end >= 0 && end < extent;
            all_inside = all_inside && in;
            inside += now.axes[d].in_bounds;
            if (now.axes[d].in_bounds && !in) ADD_FAILURE() << at(i) << ": axis " << d << " starts at " << start << " of " << extent;
        }
        const auto had = [&](Access::Flags flag) { return (before.flags & flag) && !(now.flags & flag); };
        if (had(Access::has_mask)) {
            ++dropped;
            all(e, i, operands.back(), 1, "lost its mask");
        }
        if (had(Access::has_other) && (!all_inside || (now.flags & Access::has_mask)))
            ADD_FAILURE() << at(i) << " lost its value for what lies outside";
    }
    void pointer(const Evaluator& e, InstId i) {
        const int64_t before = fn_->attrs(fn_->inst(i))[0], now = passed_->attrs(passed_->inst(i))[0];
        if (!(before & Access::has_mask) || (now & Access::has_mask)) return;
        ++dropped;
        all(e, i, fn_->operands(fn_->inst(i))[fn_->inst(i).op == Op::ptr_store ? 2 : 1], 1, "lost its mask");
    }
    /// Remainders that nothing uses any longer, but did.
    const std::set<uint32_t>& zeros() {
        if (zeros_) return *zeros_;
        std::set<uint32_t> before, after;
        for (const ValueId v : fn_->operand_pool) before.insert(v.v);
        for (uint32_t b = 0; b < passed_->block_count(); ++b)
            for (const InstId i : passed_->block(BlockId{b}).insts)
                for (const ValueId v : passed_->operands(passed_->inst(i))) after.insert(v.v);
        zeros_.emplace();
        for (uint32_t b = 0; b < fn_->block_count(); ++b)
            for (const InstId i : fn_->block(BlockId{b}).insts) {
                if (fn_->inst(i).op != Op::rem) continue;
                const uint32_t v = fn_->result(fn_->inst(i)).v;
                if (before.contains(v) && !after.contains(v)) zeros_->insert(v);
            }
        return *zeros_;
    }
    std::string at(InstId i) const {
        const Span s = fn_->inst(i).span;
        const std::string& all = program_.text;
        return s.begin < all.size() ? all.substr(s.begin, all.find('\n', s.begin) - s.begin) : std::string(op_row(fn_->inst(i).op).name);
    }

    uint64_t seed_;
    IndexProgram program_;
    PassOptions options_;
    TypeTable types_;
    SourceMap sources_;
    std::unique_ptr<Function> fn_, passed_;
    std::map<uint32_t, std::vector<Claim>> claims_;
    std::set<uint32_t> true_;
    std::optional<std::set<uint32_t>> zeros_;
};

TEST(Bounds, HoldForEveryLaunch) {
    uint64_t from = 0, to = test::is_long() ? 50 * kSeeds : test::is_sanitized() ? kSeeds / 8 : kSeeds;
    if (const char* seeds = std::getenv("TEGULA_BOUNDS_SEEDS")) {
        char* colon = nullptr;
        from = std::strtoull(seeds, &colon, 10);
        to = *colon ? std::strtoull(colon + 1, nullptr, 10) : from + 1;
    }
    int inside = 0, dropped = 0, zero = 0, bounds = 0;
    for (uint64_t seed = from; seed < to; ++seed) {
        Checker c(seed);
        c.run();
        ASSERT_FALSE(HasFailure());
        inside += c.inside, dropped += c.dropped, zero += c.zero, bounds += c.bounds;
    }
    if (to - from < kSeeds) return;
    EXPECT_GT(inside, 20000) << "hardly anything is proved";
    EXPECT_GT(dropped, 5000);
    EXPECT_GT(zero, 1000);
    EXPECT_GT(bounds, 40000);
}

/// The last program first, whatever their number is.
TEST(Bounds, ProgramsAreBelowTheirNumber) {
    const std::string text =
        "kernel @k(%y: tensor<f32>[?] out) {\n  %0 = num_programs {axis = 1} : i64\n  %1 = program_id {axis = 1} : i64\n  %2 = constant 1 : i64\n"
        "  %3 = sub %0, %2 : i64\n  %4 = sub %3, %1 : i64\n  %5 = constant 128 : i64\n  %6 = mul %4, %5 : i64\n  %7 = program_id {axis = 0} : i64\n"
        "  %8 = sub %3, %7 : i64\n  %9 = sub %4, %2 : i64\n  %10 = add %1, %2 : i64\n  %11 = sub %0, %10 : i64\n  ret\n}\n";
    TypeTable types;
    SourceMap sources;
    DiagSink diags;
    const auto fn = parse_ir(sources, sources.add("test.ir", text), types, diags);
    ASSERT_TRUE(fn);
    const PassOptions options;
    Bounds bounds(*fn, options);
    std::vector<ValueId> values;
    for (const InstId i : fn->block(fn->body).insts)
        if (fn->inst(i).results.count) values.push_back(fn->result(i));
    EXPECT_TRUE(bounds.at_least(values[6], 0));
    EXPECT_TRUE(bounds.divisible(values[6], 128));
    EXPECT_FALSE(bounds.at_least(values[6], 1));
    EXPECT_FALSE(bounds.at_least(values[8], 0)) << "the programs of another axis";
    EXPECT_FALSE(bounds.at_least(values[9], 0));
    EXPECT_TRUE(bounds.at_least(values[11], 0));
    EXPECT_TRUE(bounds.at_least(values[0], 1)) << "one of them runs";
}

}  // namespace
}  // namespace tegula::testing
