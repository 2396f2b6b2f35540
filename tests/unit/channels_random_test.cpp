// Channels of random programs compute the same; what the proof accepts after a random change, the model finds no fault with.
#include "tests/unit/channel_kernels.h"

namespace tegula::testing {
namespace {

/// Kernels with products in random control flow: counted loops, `while`s, branches, carried scalars, scalars read from memory.
class RandomKernel {
public:
    explicit RandomKernel(uint32_t seed) : random_(seed) {}
    std::string text() {
        scalars_ = {line("program_id {axis = 0} : i64"), line("constant 16 : i64"), line("constant 0 : i64")};
        sixteen_ = scalars_[1];
        zero_ = scalars_[2];
        small_ = line("constant 3 : i64");
        one_ = line("constant 1 : i64");
        const std::string first = line("constant 0 : tile<f32>[16, 16]"), row = line("mul " + scalars_[0] + ", " + sixteen_ + " : i64");
        const std::string acc = statements(first, 6, 0);
        out_ += indent_ + "store %c[" + row + " +: 16, " + zero_ + " +: 16] = " + acc + "\n";
        return "kernel @random(%a: tensor<f16>[?, ?] in, %b: tensor<f16>[?, ?] in, %n: tensor<f16>[?] in, %c: tensor<f32>[?, ?] out, %M: extent, %K: "
               "extent, "
               "%N: extent) {\n" +
               out_ + "  ret\n}\n";
    }

private:
    uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
    std::string fresh() { return "%" + std::to_string(next_++); }
    std::string line(const std::string& op) {
        const std::string v = fresh();
        out_ += indent_ + v + " = " + op + "\n";
        return v;
    }
    std::string any() { return scalars_[below(static_cast<uint32_t>(scalars_.size()))]; }
    std::string tile(const char* tensor) {
        const std::string t = line("load %" + std::string(tensor) + "[" + any() + " +: 16, " + any() + " +: 16] : tile<f16>[16, 16]");
        return below(3) ? t : line("permute " + t + " {axis = [1, 0]} : tile<f16>[16, 16]");
    }
    /// Some statements; gives the accumulator's new name.
    std::string statements(std::string acc, uint32_t count, int depth) {
        const size_t scope = scalars_.size(), tiles = held_.size();
        for (uint32_t i = 0; i < count; ++i) acc = statement(acc, depth);
        scalars_.resize(scope);
        held_.resize(tiles);
        return acc;
    }
    std::string statement(const std::string& acc, int depth) {
        switch (below(depth < 3 ? 9 : 4)) {
            case 0:
                scalars_.push_back(line(std::string(below(2) ? "add " : "mul ") + any() + ", " + any() + " : i64"));
                return acc;
            case 1: {
                const std::string at = line("rem " + any() + ", " + sixteen_ + " : i64");
                scalars_.push_back(line("cast " + line("load %n[" + at + "] : f16") + " {round = rtz, overflow = sat} : i64"));
                return acc;
            }
            case 2:
                held_.push_back(tile("a"));
                return acc;
            case 4:
            case 5:
                return counted(acc, depth);
            case 6:
                return branch(acc, depth);
            case 7:
                return conditional(acc, depth);
            default: {
                const std::string a = !held_.empty() && below(2) ? held_[below(static_cast<uint32_t>(held_.size()))] : tile("a");
                const std::string b = tile("b");
                return line("dot " + a + ", " + b + ", " + acc + " {precision = ieee} : tile<f32>[16, 16]");
            }
        }
    }
    std::string trips() { return line("mul " + line("rem " + any() + ", " + small_ + " : i64") + ", " + sixteen_ + " : i64"); }
    std::string counted(const std::string& acc, int depth) {
        const std::string hi = trips(), init = any(), result = fresh(), other = fresh(), i = fresh(), carried = fresh(), tile = fresh();
        out_ += indent_ + result + ", " + other + " = for_loop " + zero_ + ", " + hi + ", " + sixteen_ + ", " + acc + ", " + init +
                " : tile<f32>[16, 16], i64 (" + i + ": i64, " + tile + ": tile<f32>[16, 16], " + carried + ": i64) {\n";
        body({i, carried}, tile, depth, [&](const std::string& end) { return "yield " + end + ", " + any(); });
        out_ += indent_ + "}\n";
        scalars_.push_back(other);
        return result;
    }
    std::string conditional(const std::string& acc, int depth) {
        const std::string end = line("rem " + any() + ", " + small_ + " : i64");
        const std::string result = fresh(), count = fresh(), i = fresh(), tile = fresh(), j = fresh(), passed = fresh();
        out_ += indent_ + result + ", " + count + " = while_loop " + acc + ", " + zero_ + " : tile<f32>[16, 16], i64 (" + tile +
                ": tile<f32>[16, 16], " + i + ": i64) {\n";
        body({i}, tile, depth + 1,
             [&](const std::string& last) { return "condition " + line("lt " + i + ", " + end + " : bool") + ", " + last + ", " + i; });
        out_ += indent_ + "} (" + passed + ": tile<f32>[16, 16], " + j + ": i64) {\n";
        body({j}, passed, depth, [&](const std::string& last) { return "yield " + last + ", " + line("add " + j + ", " + one_ + " : i64"); });
        out_ += indent_ + "}\n";
        return result;
    }
    std::string branch(const std::string& acc, int depth) {
        const std::string test = line("lt " + any() + ", " + any() + " : bool"), result = fresh(), other = fresh();
        out_ += indent_ + result + ", " + other + " = if_else " + test + " : tile<f32>[16, 16], i64 {\n";
        for (int b = 0; b < 2; ++b) {
            body({}, acc, depth, [&](const std::string& end) { return "yield " + end + ", " + any(); });
            out_ += indent_ + (b ? "}\n" : "} {\n");
        }
        scalars_.push_back(other);
        return result;
    }
    template <class End>
    void body(const std::vector<std::string>& scalars, const std::string& acc, int depth, const End& end) {
        const size_t scope = scalars_.size();
        indent_ += "  ";
        scalars_.insert(scalars_.end(), scalars.begin(), scalars.end());
        const std::string last = statements(acc, 1 + below(3), depth + 1);
        const std::string text = end(last);
        out_ += indent_ + text + "\n";
        indent_.resize(indent_.size() - 2);
        scalars_.resize(scope);
    }

    std::mt19937 random_;
    std::string out_, indent_ = "  ", zero_, one_, small_, sixteen_;
    std::vector<std::string> scalars_, held_;
    int next_ = 0;
};

const std::vector<Shape> kRandomShapes = {{70, 70}, {70, 70}, {16}, {48, 16}};
const std::vector<int64_t> kRandomExtents = {48, 70, 16};

TEST(Channels, random_programs_compute_the_same) {
    int split = 0, ahead = 0;
    for (uint32_t seed = 1; seed <= 150; ++seed) {
        const std::string text = RandomKernel(seed).text();
        for (const Arch* arch : {&kHopper, &kAmpere}) {
            Kernel k(text, *arch);
            k.split();
            if (!k.changed) continue;
            ++(arch == &kHopper ? split : ahead);
            ASSERT_EQ(k.proof(), "") << "seed " << seed << "\n" << ir::print(*k.fn);
            ASSERT_NO_FATAL_FAILURE(k.check(kRandomShapes, kRandomExtents, {3, 1, 1}, 6)) << "seed " << seed;
        }
    }
    EXPECT_GT(split, 50);
    EXPECT_GT(ahead, 10);
}

/// One random change of what has to do with channels. Gives false when it could not be made.
bool mutate(Kernel& k, std::mt19937& random) {
    const auto pick = [&](const std::vector<InstId>& from) { return from[random() % from.size()]; };
    const std::vector<InstId> puts = k.all(Op::channel_put), releases = k.all(Op::channel_release);
    switch (random() % 5) {
        case 0:
            k.erase(pick(puts));
            return true;
        case 1:
            k.erase(pick(releases));
            return true;
        case 2: {
            const InstId r = pick(releases);
            const auto& list = k.fn->block(k.fn->inst(r).parent).insts;
            const InstId where = list[random() % list.size()];
            if (where == r) return false;
            k.move(r, where);
            return true;
        }
        case 3: {
            const InstId a = pick(puts), b = pick(puts);
            std::swap(k.fn->operands(k.fn->inst(a)).back(), k.fn->operands(k.fn->inst(b)).back());
            return !(k.fn->operands(k.fn->inst(a)).back() == k.fn->operands(k.fn->inst(b)).back());
        }
        default: {
            // Another constant, anywhere: the producer's trips, a guard, or something harmless.
            const InstId c = pick(k.all(Op::constant));
            const Type& type = k.fn->type(k.fn->result(c));
            if (type.shape.rank != 0) return false;
            k.fn->attr_pool[k.fn->inst(c).attrs.begin] += 16;
            return true;
        }
    }
}

TEST(ProveChannels, whatever_it_accepts_the_model_finds_no_fault_with) {
    std::mt19937 random(5);
    int refused = 0, accepted = 0, caught = 0;
    for (uint32_t seed = 1; seed <= 150; ++seed) {
        const std::string text = RandomKernel(seed).text();
        for (const Arch* arch : {&kHopper, &kAmpere}) {
            Kernel k(text, *arch);
            k.split();
            if (!k.changed || !mutate(k, random)) continue;
            if (!ir::verify(*k.fn).empty()) continue;
            const std::string proof = k.proof();
            ++(proof.empty() ? accepted : refused);
            bool bad = false;
            for (uint64_t order = 0; order < 6; ++order) {
                const ChannelRun got = k.run(*k.fn, kRandomShapes, kRandomExtents, {3, 1, 1}, order);
                for (const Diagnostic& d : got.result.diagnostics) {
                    bad = bad || (d.id != Diag::step_budget_spent && d.id != Diag::memory_budget_spent);
                    ASSERT_TRUE(!proof.empty() || d.id == Diag::step_budget_spent) << "seed " << seed << ": " << d.message << "\n"
                                                                                   << ir::print(*k.fn);
                }
            }
            caught += bad;
        }
    }
    EXPECT_GT(refused, 40);
    EXPECT_GT(caught, 30);
    EXPECT_GT(accepted, 3);
}

}  // namespace
}  // namespace tegula::testing
