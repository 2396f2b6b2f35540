// stdlib/layouts.tile: every declaration is read from the file and compared with the order the PTX manual (mma fragments), CuTe
// (Swizzle) or BitBLAS (interleavings, Ladder's permutations) publishes, typed in here as formulas from register to coordinate.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "lang/layout.h"
#include "parser/parse.h"

namespace tegula {
namespace {

using Extents = std::vector<int64_t>;

class StdLayouts : public ::testing::Test {
protected:
    void SetUp() override {
        std::ifstream in(std::string(TEGULA_SOURCE_DIR) + "/stdlib/layouts.tile");
        std::stringstream text;
        text << in.rdbuf();
        module_ = parse_module(sources_, sources_.add("layouts.tile", text.str()), arena_, diags_);
        ASSERT_FALSE(diags_.has_errors());
    }

    LayoutExpr translate(const ast::Expr& e, const std::map<std::string_view, LayoutExpr>& names) {
        if (e.kind == ast::ExprKind::int_lit) return LayoutExpr::make_constant(static_cast<int64_t>(ast::as<ast::IntLit>(&e).value));
        if (e.kind == ast::ExprKind::name) return names.at(ast::as<ast::NameExpr>(&e).name);
        EXPECT_EQ(e.kind, ast::ExprKind::binary);
        const auto& b = ast::as<ast::BinaryExpr>(&e);
        static const std::map<ast::BinaryOp, LayoutExpr::Op> kOps = {
            {ast::BinaryOp::add, LayoutExpr::add}, {ast::BinaryOp::mul, LayoutExpr::mul},         {ast::BinaryOp::div, LayoutExpr::div},
            {ast::BinaryOp::rem, LayoutExpr::rem}, {ast::BinaryOp::bit_xor, LayoutExpr::bit_xor}, {ast::BinaryOp::shl, LayoutExpr::shl}};
        return LayoutExpr::make(kOps.at(b.op), translate(*b.lhs, names), translate(*b.rhs, names));
    }

    Layout get(std::string_view name, std::vector<int64_t> generics = {}) {
        for (const ast::Item* item : module_->items) {
            if (item->kind != ast::ItemKind::layout || item->name.text != name) continue;
            const auto& l = ast::as<ast::LayoutItem>(item);
            EXPECT_FALSE(item->docs.empty()) << name;
            std::map<std::string_view, LayoutExpr> names;
            EXPECT_EQ(l.generics.size(), generics.size());
            for (size_t g = 0; g < generics.size(); ++g) names[l.generics[g].name.text] = LayoutExpr::make_constant(generics[g]);
            for (size_t d = 0; d < l.dims.size(); ++d) {
                names[l.dims[d].name.text] = LayoutExpr::make_index(static_cast<int>(d));
                names[ast::as<ast::NameExpr>(l.dims[d].extent).name] = LayoutExpr::make_extent(static_cast<int>(d));
            }
            std::vector<LayoutExpr> members;
            for (const ast::Expr* e : ast::as<ast::TupleExpr>(l.value).items) members.push_back(translate(*e, names));
            return Layout::from_exprs(std::string(name), static_cast<int>(l.dims.size()), std::move(members));
        }
        ADD_FAILURE() << "no layout " << name;
        return {};
    }

    /// One tile: storage position lane * registers + r holds the element at (row(lane, r), col(lane, r)). Larger extents repeat it.
    void expect_fragment(std::string_view name, const Extents& tile, int64_t registers, const std::function<int64_t(int64_t, int64_t)>& row,
                         const std::function<int64_t(int64_t, int64_t)>& col) {
        SCOPED_TRACE(name);
        const Layout l = get(name);
        const auto table = l.inverse_table(tile);
        ASSERT_TRUE(table);
        ASSERT_EQ(static_cast<int64_t>(table->size()), 32 * registers);
        for (int64_t lane = 0; lane < 32; ++lane) {
            for (int64_t r = 0; r < registers; ++r)
                EXPECT_EQ((*table)[static_cast<size_t>(lane * registers + r)], row(lane, r) * tile[1] + col(lane, r)) << lane << " " << r;
        }
        const Extents large{tile[0] * 3, tile[1] * 2};
        EXPECT_EQ(l.physical_extents(large), (Extents{3, 2, 32, registers}));
        for (const Extents& e : {large, Extents{17, 37}, Extents{1 << 20, 1 << 20}}) EXPECT_EQ(l.check(e).result, Injectivity::proved);
    }

    SourceMap sources_;
    Arena arena_;
    DiagSink diags_;
    const ast::Module* module_ = nullptr;
};

TEST_F(StdLayouts, MmaFragments) {
    using I = int64_t;
    expect_fragment(
        "mma_a16", {16, 16}, 8, [](I l, I r) { return l / 4 + (r == 2 || r == 3 || r == 6 || r == 7 ? 8 : 0); },
        [](I l, I r) { return l % 4 * 2 + (r & 1) + (r >= 4 ? 8 : 0); });
    expect_fragment("mma_b16", {16, 8}, 4, [](I l, I r) { return l % 4 * 2 + (r & 1) + (r >= 2 ? 8 : 0); }, [](I l, I) { return l / 4; });
    expect_fragment(
        "mma_a8", {16, 32}, 16, [](I l, I r) { return l / 4 + ((r >= 4 && r < 8) || r >= 12 ? 8 : 0); },
        [](I l, I r) { return l % 4 * 4 + (r & 3) + (r >= 8 ? 16 : 0); });
    expect_fragment("mma_b8", {32, 8}, 8, [](I l, I r) { return l % 4 * 4 + (r & 3) + (r >= 4 ? 16 : 0); }, [](I l, I) { return l / 4; });
    expect_fragment("mma_acc", {16, 8}, 4, [](I l, I r) { return l / 4 + (r >= 2 ? 8 : 0); }, [](I l, I r) { return l % 4 * 2 + (r & 1); });
}

TEST_F(StdLayouts, LadderKind3AndFragments) {
    using I = int64_t;
    const auto n16 = [](I l, I r) { return l / 4 + 8 * (r / 4); };
    const auto k16 = [](I l, I r) { return 2 * (l % 4) + r % 2 + 8 * (r % 4 / 2); };
    const auto n8 = [](I l, I r) { return l / 4 + 8 * (r / 8); };
    const auto k8 = [](I l, I r) { return 4 * (l % 4) + r % 4 + 16 * (r % 8 / 4); };
    expect_fragment("ladder_b3", {16, 16}, 8, n16, k16);
    expect_fragment("ladder_b3_8", {16, 32}, 16, n8, k8);
    const I order16[] = {0, 2, 4, 6, 1, 3, 5, 7}, order8[] = {0, 4, 1, 5, 2, 6, 3, 7};
    expect_fragment(
        "fragment", {16, 64}, 32, [&](I l, I f) { return n16(l, order16[f % 8]); }, [&](I l, I f) { return f / 8 * 16 + k16(l, order16[f % 8]); });
    const auto r8 = [&](I f) { return f / 8 % 2 * 8 + order8[f % 8]; };
    expect_fragment("fragment_8", {16, 64}, 32, [&](I l, I f) { return n8(l, r8(f)); }, [&](I l, I f) { return f / 16 * 32 + k8(l, r8(f)); });
}

TEST_F(StdLayouts, LadderKind2) {
    for (const bool b : {false, true}) {
        const auto table = *get(b ? "ladder_b2" : "ladder_a2").inverse_table(Extents{16, 16});
        for (int64_t i = 0; i < 16; ++i) {
            for (int64_t j = 0; j < 16; ++j) {
                const int64_t s = 2 * i + j / 8;
                const int64_t source = b ? (8 * (i / 8) + s % 8) * 16 + 8 * (s % 16 / 8) + j % 8 : s % 16 * 16 + 8 * (s / 16) + j % 8;
                EXPECT_EQ(table[static_cast<size_t>(i * 16 + j)], source);
            }
        }
    }
}

TEST_F(StdLayouts, Interleaves) {
    const auto repeat = [](std::vector<int64_t> order, int64_t times) {
        const size_t n = order.size();
        for (size_t f = n; f < n * static_cast<size_t>(times); ++f) order.push_back(order[f - n] + static_cast<int64_t>(n));
        return order;
    };
    const std::vector<int64_t> half = {0, 2, 4, 6, 1, 3, 5, 7};
    const std::map<std::string, std::vector<int64_t>> orders = {
        {"interleave_4_to_16", half},
        {"interleave_2_to_16", repeat(half, 2)},
        {"interleave_1_to_16", repeat(half, 4)},
        {"interleave_4_to_8", {0, 4, 1, 5, 2, 6, 3, 7}},
        {"interleave_2_to_8", {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}},
        {"interleave_1_to_8", repeat({0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15}, 2)},
        {"interleave_2_to_4", {0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15}},
    };
    for (const auto& [name, order] : orders) {
        const auto n = static_cast<int64_t>(order.size());
        const auto table = *get(name).inverse_table(Extents{3, 2 * n});
        ASSERT_EQ(static_cast<int64_t>(table.size()), 6 * n) << name;
        for (int64_t f = 0; f < 6 * n; ++f) EXPECT_EQ(table[static_cast<size_t>(f)], f / n * n + order[static_cast<size_t>(f % n)]) << name;
    }
}

TEST_F(StdLayouts, GeneralOrders) {
    const Extents extents{12, 17};
    const Layout tiled = get("tiled", {4, 8}), blocked = get("blocked", {8}), padded = get("padded", {8});
    EXPECT_EQ(tiled.physical_extents(extents), (Extents{3, 3, 4, 8}));
    EXPECT_EQ(tiled.offset(Extents{5, 9}, extents), ((1 * 3 + 1) * 4 + 1) * 8 + 1);
    EXPECT_EQ(blocked.offset(Extents{5, 9}, extents), (1 * 12 + 5) * 8 + 1);
    EXPECT_EQ(padded.offset(Extents{5, 9}, extents), 5 * 24 + 9);
    const Extents square{16, 64};
    const Layout swizzle = get("swizzle", {3, 3, 3});
    for (int64_t x = 0; x < 1024; ++x) EXPECT_EQ(swizzle.offset(Extents{x / 64, x % 64}, square), x ^ ((x >> 6 & 7) << 3));
    for (const Layout& l : {tiled, blocked, padded, swizzle}) EXPECT_EQ(l.check(extents).result, Injectivity::proved);
}

}  // namespace
}  // namespace tegula
