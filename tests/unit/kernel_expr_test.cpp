// Expressions of kernels: what simplification, facts and text make of random ones equals what C computes without them.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "lang/kernel/expr.h"
#include "lang/kernel/facts.h"
#include "tests/unit/host_compiler.h"

namespace tegula::kernel {
namespace {

struct Variable {
    const char* name;
    Type type;
    Facts facts;
};

constexpr int kPoints = 12;

const std::vector<Variable>& variables() {
    static const std::vector<Variable> all = {{"r", Type::i32, below(6)},
                                              {"t", Type::i32, below(128)},
                                              {"i", Type::i32, {}},
                                              {"u", Type::u32, {}},
                                              {"n", Type::i64, {}},
                                              {"q", Type::i64, {~uint64_t{7}, 0, int64_t{1} << 40}},
                                              {"w", Type::u64, {}}};
    return all;
}

int64_t sample(const Variable& v, int point) {
    std::mt19937_64 rng(static_cast<uint64_t>(point) * 977 + static_cast<uint64_t>(v.name[0]));
    const Facts all = facts_of(v.type);
    if (v.facts.least == INT64_MIN || v.facts.most > (int64_t{1} << 41)) {
        const int64_t edges[] = {0, 1, -1, 7, all.most, all.least, INT32_MAX, INT64_MIN};
        return wrapped(v.type, point < 8 ? edges[point] : static_cast<int64_t>(rng()));
    }
    const int64_t most = std::min(v.facts.most, all.most);
    const int64_t drawn = point == 0 ? v.facts.least : point == 1 ? most : v.facts.least + static_cast<int64_t>(rng() % static_cast<uint64_t>(most - v.facts.least + 1));
    return drawn & static_cast<int64_t>(v.facts.bits);
}

/// An expression, what C makes of it at each point, and its text with every parenthesis.
struct Tried {
    Ex ex;
    std::array<int64_t, kPoints> values{};
    std::string full;
};

class Generator {
public:
    Generator(Pool& pool, unsigned seed) : pool_(pool), rng_(seed) {}

    /// nullopt: C leaves it undefined at some point.
    std::optional<Tried> make(int depth) {
        if (depth == 0) return rng_() % 3 ? variable() : number();
        const auto a = make(static_cast<int>(rng_() % static_cast<unsigned>(depth)));
        if (!a) return std::nullopt;
        const unsigned kind = rng_() % 12;
        if (kind == 0) return converted_to(*a, static_cast<Type>(1 + rng_() % 4));
        if (kind == 1) return negated(*a);
        const auto b = make(static_cast<int>(rng_() % static_cast<unsigned>(depth)));
        if (!b) return std::nullopt;
        if (rng_() % 12 == 0) return chosen(*a, *b);
        return joined(static_cast<Op>(static_cast<unsigned>(Op::add) + rng_() % 18), *a, *b);
    }

private:
    Tried variable() {
        const Variable& v = variables()[rng_() % variables().size()];
        Tried out{pool_.name(v.type, v.name, v.facts), {}, v.name};
        for (int p = 0; p < kPoints; ++p) out.values[static_cast<size_t>(p)] = sample(v, p);
        return out;
    }
    Tried number() {
        const Type type = static_cast<Type>(1 + rng_() % 4);
        const int64_t some[] = {0, 1, 2, 3, 4, 6, 7, 8, 15, 31, 112, 4096, -1, -8, INT32_MAX, INT32_MIN};
        Tried out{pool_.constant(type, some[rng_() % std::size(some)]), {}, {}};
        out.values.fill(*out.ex.constant());
        out.full = "(" + out.ex.text() + ")";
        return out;
    }
    static Type promoted(Type t) { return t == Type::pred ? Type::i32 : t; }
    std::optional<Tried> joined(Op op, const Tried& a, const Tried& b) {
        static constexpr const char* kText[] = {"+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "<", "<=", ">", ">=", "==", "!=", "&&", "||"};
        if (op == Op::both || op == Op::either) {
            if (a.ex.type() != Type::pred || b.ex.type() != Type::pred) return std::nullopt;
        }
        const bool shift = op == Op::shl || op == Op::shr;
        const Type of = shift ? promoted(a.ex.type()) : std::max(promoted(a.ex.type()), promoted(b.ex.type()));
        Tried out{pool_.binary(op, a.ex, b.ex), {}, "(" + a.full + " " + kText[static_cast<size_t>(op) - static_cast<size_t>(Op::add)] + " " + b.full + ")"};
        for (size_t p = 0; p < kPoints; ++p) {
            if (op == Op::both || op == Op::either) {
                out.values[p] = op == Op::both ? a.values[p] && b.values[p] : a.values[p] || b.values[p];
                continue;
            }
            const int64_t x = wrapped(of, a.values[p]), y = shift ? b.values[p] : wrapped(of, b.values[p]);
            const auto v = computed(op, of, x, y);
            if (!v || (is_signed(of) && overflows(op, of, x, y))) return std::nullopt;
            out.values[p] = *v;
        }
        return out;
    }
    static bool overflows(Op op, Type of, int64_t x, int64_t y) {
        const Facts all = facts_of(of);
        const __int128 v = op == Op::add   ? __int128{x} + y
                           : op == Op::sub ? __int128{x} - y
                           : op == Op::mul ? __int128{x} * y
                           : op == Op::shl ? (x < 0 ? __int128{1} << 100 : __int128{x} << y)
                                           : 0;
        return v < all.least || v > all.most;
    }
    std::optional<Tried> converted_to(const Tried& a, Type type) {
        Tried out{cast(type, a.ex), {}, std::string("(") + c_type(type) + ")" + a.full};
        for (size_t p = 0; p < kPoints; ++p) out.values[p] = wrapped(type, a.values[p]);
        return out;
    }
    std::optional<Tried> negated(const Tried& a) {
        const bool condition = a.ex.type() == Type::pred;
        Tried out{condition ? negation(a.ex) : -a.ex, {}, std::string("(") + (condition ? "!" : "-") + a.full + ")"};
        for (size_t p = 0; p < kPoints; ++p) {
            if (!condition && is_signed(a.ex.type()) && a.values[p] == facts_of(a.ex.type()).least) return std::nullopt;
            out.values[p] = condition ? !a.values[p] : wrapped(a.ex.type(), -a.values[p]);
        }
        return out;
    }
    std::optional<Tried> chosen(const Tried& a, const Tried& b) {
        const auto c = make(1);
        if (!c || c->ex.type() != Type::pred) return std::nullopt;
        Tried out{pool_.select(c->ex, a.ex, b.ex), {}, "(" + c->full + " ? " + a.full + " : " + b.full + ")"};
        const Type of = a.ex.type() == b.ex.type() ? a.ex.type() : std::max(promoted(a.ex.type()), promoted(b.ex.type()));
        for (size_t p = 0; p < kPoints; ++p) out.values[p] = wrapped(of, c->values[p] ? a.values[p] : b.values[p]);
        return out;
    }

    Pool& pool_;
    std::mt19937 rng_;
};

bool holds(const Facts& f, int64_t v) { return v >= f.least && v <= f.most && !(static_cast<uint64_t>(v) & ~f.bits); }

TEST(KernelExpr, RandomExpressionsAreWhatCComputes) {
    Pool pool;
    std::vector<Tried> all;
    for (unsigned seed = 1; all.size() < 3000; ++seed)
        if (auto e = Generator(pool, seed).make(4)) all.push_back(std::move(*e));
    std::string source = "#include <cstdint>\n";
    size_t constants = 0;
    for (size_t k = 0; k < all.size(); ++k) {
        const Tried& e = all[k];
        for (const int64_t v : e.values)
            ASSERT_TRUE(holds(e.ex->facts, v)) << e.full << "\n" << e.ex.text() << ": " << v;
        constants += e.ex.constant().has_value();
    }
    EXPECT_GT(constants, 100u) << "some fold";
    EXPECT_LT(constants, all.size() / 2) << "and most do not";
    std::string parameters;
    for (const Variable& v : variables()) parameters += (parameters.empty() ? "" : ", ") + std::string(c_type(v.type)) + " " + v.name;
    source += "using Fn = int64_t (*)(" + parameters + ");\n";
    std::string table;
    for (size_t k = 0; k < all.size(); ++k) {
        source += "static int64_t e" + std::to_string(k) + "(" + parameters + ") { return (int64_t)(" + all[k].ex.text() + "); }\n";
        table += "e" + std::to_string(k) + ", ";
    }
    source += "extern \"C\" { extern const Fn table[]; const Fn table[] = {" + table + "}; }\n";
    HostLibrary library;
    const bool built = library.build("kernel_expr_test_text", source, "-O0 -fwrapv");
    if (!library.found()) GTEST_SKIP() << "no compiler";
    ASSERT_TRUE(built);
    using Fn = int64_t (*)(int, int, int, unsigned, long long, long long, unsigned long long);
    const Fn* functions = static_cast<const Fn*>(library.symbol("table"));
    ASSERT_NE(functions, nullptr);
    for (size_t k = 0; k < all.size(); ++k)
        for (int p = 0; p < kPoints; ++p) {
            const auto v = [&](size_t n) { return sample(variables()[n], p); };
            const int64_t got = functions[k](static_cast<int>(v(0)), static_cast<int>(v(1)), static_cast<int>(v(2)), static_cast<unsigned>(v(3)), v(4), v(5),
                                             static_cast<unsigned long long>(v(6)));
            ASSERT_EQ(got, all[k].values[static_cast<size_t>(p)]) << all[k].full << "\n" << all[k].ex.text() << "\nat point " << p;
        }
}

TEST(KernelExpr, TextHasNoMoreParenthesesThanItNeeds) {
    Pool pool;
    const Ex r = pool.counter("r", 8), t = pool.counter("t", 128), i = pool.name(Type::i32, "i");
    EXPECT_EQ((((r & 3) + ((t & 15) << 2)) * 16 + (((r & 4) << 1) + ((t & 112) >> 4))).text(), "((r & 3) + ((t & 15) << 2)) * 16 + (((r & 4) << 1) + (t >> 4))");
    const Ex five = pool.number(5);
    EXPECT_EQ((((five & 3) + ((t & 15) << 2)) * 16 + (((five & 4) << 1) + ((t & 112) >> 4))).text(), "(((t & 15) << 2) + 1) * 16 + ((t >> 4) + 8)");
    EXPECT_EQ((i - (i - 1)).text(), "i - (i - 1)");
    EXPECT_EQ((i + -5).text(), "i - 5");
    EXPECT_EQ(((t & 112) >> 2).text(), "t >> 2 & 28") << "see Prelude::opaque";
    EXPECT_EQ((cast(Type::i64, i & 24) >> 2).text(), "(long long)(i >> 2 & 6)");
    EXPECT_EQ(((t & 112) / 16).text(), "t >> 4");
    EXPECT_EQ((i * (i + 1) / 2 % 3).text(), "i * (i + 1) / 2 % 3");
    EXPECT_EQ(both(either(lt(i, 1), gt(i, 5)), negation(eq(i, 3))).text(), "(i < 1 || i > 5) && !(i == 3)");
    EXPECT_EQ(pool.select(lt(i, 0), -i, i).text(), "i < 0 ? -i : i");
    EXPECT_EQ((pool.select(lt(i, 0), -i, i) + 1).text(), "(i < 0 ? -i : i) + 1");
    EXPECT_EQ(cast(Type::u64, i * 4).text(), "(unsigned long long)(i * 4)");
    EXPECT_EQ(pool.index(Type::u32, pool.name(Type::other, "v12"), r * 2 + 1).text(), "v12[r * 2 + 1]");
    EXPECT_EQ(pool.call(Type::i32, "min", {i, pool.text(Type::i32, "a ? b : c", false)}).text(), "min(i, (a ? b : c))");
    EXPECT_EQ((pool.text(Type::i32, "a + b", false) * 2).text(), "(a + b) * 2");
    EXPECT_EQ(pool.constant(Type::i64, INT64_MIN).text(), "(-9223372036854775807ll - 1)");
    EXPECT_EQ((pool.constant(Type::u32, -1)).text(), "4294967295u");
}

TEST(KernelExpr, BitsAndBoundsDecide) {
    Pool pool;
    const Ex r = pool.counter("r", 6), t = pool.counter("t", 128), n = pool.name(Type::i64, "n");
    EXPECT_EQ(r & 7, r);
    EXPECT_EQ((t & 127) >> 7, pool.number(0));
    EXPECT_TRUE(lt(r, 6).is_true());
    EXPECT_FALSE(lt(r, 5).constant());
    EXPECT_TRUE(eq((t << 1) & 1, 0).is_true());
    EXPECT_TRUE(lt((t & 15) * 8 + 7, 128).is_true());
    EXPECT_EQ(t / 128, pool.number(0));
    EXPECT_EQ(t % 128, t);
    EXPECT_EQ(both(lt(r, 6), lt(n, 4)), lt(n, 4));
    EXPECT_TRUE(ge(cast(Type::u64, t), 0).is_true());
    EXPECT_EQ(n + 3 + 4, n + 7);
    EXPECT_FALSE(lt(n, n + 1).constant()) << "sums wrap";
    EXPECT_EQ(pool.counter("k", 1), pool.number(0));
    EXPECT_EQ(pool.number(7) / 0, pool.number(7) / 0) << "undefined: it stays";
    EXPECT_FALSE((pool.number(7) / 0).constant());
    EXPECT_EQ(pool.counter("g", 32, 4) & 29, pool.counter("g", 32, 4) & 28) << "steps of four";
    EXPECT_TRUE(pool.counter("g", 4, 4).is(0));
    EXPECT_EQ(r * 2, r * 2) << "one node";
}

}  // namespace
}  // namespace tegula::kernel
