// Clusters: which channels several programs share, what forbids it, and what the proof refuses.
#include "tests/unit/channel_kernels.h"

namespace tegula::testing {
namespace {

std::string clustered(std::string text, const std::string& size) {
    text.replace(text.find(") {"), 3, ") @ cluster(" + size + ") {");
    return text;
}

TEST(Clusters, programs_share_what_does_not_depend_on_their_axis) {
    const struct {
        const char *wanted, *a, *b;
        std::array<int, 3> size;
        unsigned shared_a, shared_b;
    } rows[] = {{"2, 1", "a", "b", {2, 1, 1}, 0, 1}, {"1, 2", "a", "T", {1, 2, 1}, 2, 0}, {"2, 2", "T", "b", {2, 2, 1}, 2, 1},
                {"2", "a", "b", {2, 1, 1}, 0, 1},    {"3, 1", "a", "b", {1, 1, 1}, 0, 0}, {"1, 1, 2", "a", "b", {1, 1, 2}, 4, 4}};
    for (const auto& row : rows) {
        Kernel k(clustered(matmul_text(row.a, row.b), row.wanted));
        k.split();
        EXPECT_EQ(k.fn->gpu->cluster, row.size) << row.wanted;
        ASSERT_EQ(k.fn->gpu->channels.size(), 2u);
        EXPECT_EQ(k.fn->gpu->channels[0].second.multicast, row.shared_a) << row.wanted;
        EXPECT_EQ(k.fn->gpu->channels[1].second.multicast, row.shared_b) << row.wanted;
        EXPECT_EQ(k.proof(), "") << row.wanted;
        std::vector<Shape> shapes = kSquare;
        if (*row.a == 'T') std::swap(shapes[0][0], shapes[0][1]);
        if (*row.b == 'T') std::swap(shapes[1][0], shapes[1][1]);
        k.check(shapes, kSquareExtents, {3, 2, 1}, 5);
    }
}

TEST(Clusters, what_forbids_them) {
    Kernel grid(clustered(matmul_text("a", "b"), "2, 1"));
    grid.options.whole_clusters = false;
    EXPECT_EQ(grid.split().fn->gpu->cluster_size(), 1);
    EXPECT_EQ(grid.proof(), "");
    Kernel persistent(clustered(matmul_text("a", "b"), "2, 1"));
    EXPECT_EQ(persistent.persist().fn->gpu->cluster_size(), 1);
    EXPECT_TRUE(persistent.fn->gpu->persistent && persistent.changed);

    Kernel ampere(clustered(matmul_text("a", "b"), "2, 1"), kAmpere);
    EXPECT_EQ(ampere.split().fn->gpu->cluster_size(), 1);
    // The number of trips depends on the axis, through a minimum.
    std::string text = clustered(matmul_text("a", "b"), "2, 1");
    text.replace(text.find("  %8 = for_loop %6, %K"), 22, "  %40 = min %K, %2 : i64\n  %8 = for_loop %6, %40");
    Kernel trips(text);
    EXPECT_EQ(trips.split().fn->gpu->cluster_size(), 1);
    EXPECT_EQ(trips.proof(), "");
    // It comes from memory, which a program may write in the end: then two programs may read it at different times.
    text = clustered(matmul_text("a", "b"), "2, 1");
    text.replace(text.find("  %8 = for_loop %6, %K"), 22, "  %40 = load %e[%6] : i64\n  %8 = for_loop %6, %40");
    text.insert(text.find(", %M: extent"), ", %e: tensor<i64>[?] in");
    for (const bool alias : {false, true}) {
        Kernel read(text);
        read.options.may_alias = alias;
        read.split();
        EXPECT_EQ(read.fn->gpu->channels.size(), 2u);
        EXPECT_EQ(read.fn->gpu->cluster_size(), alias ? 1 : 2);
        EXPECT_EQ(read.proof(), "");
        read.options.may_alias = true;
        EXPECT_EQ(read.proof().empty(), alias);
    }
}

TEST(Clusters, a_tile_that_cannot_be_cut_is_private) {
    std::string text = clustered(matmul_text("a", "b"), "4, 2");
    Kernel k(text);
    k.split();
    // 16 rows are two parts of 8, not four.
    EXPECT_EQ(k.fn->gpu->cluster, (std::array<int, 3>{1, 2, 1}));
    EXPECT_EQ(k.fn->gpu->channels[0].second.multicast, 2u);
    EXPECT_EQ(k.fn->gpu->channels[1].second.multicast, 0u);
    EXPECT_EQ(k.proof(), "");
}

TEST(ProveClusters, tiles_that_differ_are_not_shared) {
    Kernel k(clustered(matmul_text("a", "b"), "2, 1"));
    k.split();
    k.fn->gpu->channels[0].second.multicast = 1;
    EXPECT_NE(k.proof().find("may bring the programs that share the channel different tiles"), std::string::npos) << k.proof();
}

TEST(ProveClusters, trips_that_differ_are_not_shared) {
    Kernel k(clustered(matmul_text("a", "b"), "2, 1"));
    k.split();
    for (const InstId loop : k.all(Op::for_loop)) {
        const auto& list = k.fn->block(k.fn->inst(loop).parent).insts;
        const auto id = std::find_if(list.begin(), list.end(), [&](InstId i) { return k.fn->inst(i).op == Op::program_id; });
        k.fn->operands(k.fn->inst(loop))[1] = k.fn->result(*id);
    }
    EXPECT_NE(k.proof().find("may bring the programs that share the channel different tiles"), std::string::npos) << k.proof();
}

TEST(ProveClusters, forms_that_cannot_be) {
    const auto broken = [](void (*change)(Kernel&)) {
        Kernel k(clustered(matmul_text("a", "b"), "2, 1"));
        k.split();
        change(k);
        return k.proof();
    };
    EXPECT_EQ(broken([](Kernel&) {}), "");
    EXPECT_NE(broken([](Kernel& k) { k.fn->gpu->cluster = {1, 1, 1}; }).find("shared along an axis without a cluster"), std::string::npos);
    EXPECT_NE(broken([](Kernel& k) { k.fn->gpu->persistent = true; }).find("a cluster cannot be, because it is persistent"), std::string::npos);
    EXPECT_NE(broken([](Kernel& k) { k.options.whole_clusters = false; }).find("of a grid that has no whole ones"), std::string::npos);
    EXPECT_NE(broken([](Kernel& k) { k.fn->gpu->cluster = {4, 1, 1}; }).find("cannot be copied in parts"), std::string::npos);
    EXPECT_NE(broken([](Kernel& k) { k.fn->gpu->channels[1].second.tensor_map = -1; }).find("cannot be copied in parts"), std::string::npos);
    EXPECT_NE(broken([](Kernel& k) { k.fn->gpu->grid_axes = 0; }).find("the grid has no such axis"), std::string::npos);
}

}  // namespace
}  // namespace tegula::testing
