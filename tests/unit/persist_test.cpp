// Persistent forms: a loop over programs around everything, and rings of the threads that read them; the model runs them with 1 to 7 CTAs.
#include "tests/unit/channel_kernels.h"

#include <regex>

namespace tegula::testing {
namespace {

TEST(Persistent, the_producer_goes_on_with_the_next_program) {
    Kernel k(matmul_text("a", "b"));
    k.persist();
    ASSERT_TRUE(k.fn->gpu->persistent && k.fn->gpu->specialised) << ir::print(*k.fn);
    EXPECT_EQ(k.all(Op::for_loop).size(), 4u) << "over programs and over K, on both sides";
    EXPECT_EQ(k.stages(0), 4);
    EXPECT_EQ(k.proof(), "");
    k.check(kSquare, kSquareExtents, {3, 2, 1});
    k.check({{16, 40}, {40, 16}, {16, 16}}, {16, 40, 16}, {1, 1, 1}, 20);
    k.check({{16, 0}, {0, 96}, {16, 96}}, {16, 0, 96}, {1, 6, 1}, 20);
}

TEST(Persistent, tiles_that_are_held_over_an_inner_loop) {
    Kernel k(kAttention);
    k.persist();
    ASSERT_EQ(k.all(Op::channel).size(), 3u) << k.why_not();
    EXPECT_EQ(k.stages(0), 1);
    EXPECT_EQ(k.proof(), "");
    k.check({{3, 33, 16}, {3, 33, 16}, {3, 33, 16}, {3, 33, 16}}, {3, 33, 33}, {3, 3, 1}, 30);
}

TEST(Persistent, copies_ahead_inside_of_a_program) {
    Kernel k(matmul_text("a", "b"), kAmpere);
    k.persist();
    ASSERT_TRUE(k.fn->gpu->persistent);
    ASSERT_EQ(k.all(Op::channel).size(), 2u) << k.why_not();
    EXPECT_EQ(k.proof(), "");
    k.check(kSquare, kSquareExtents, {3, 2, 1}, 30);
}

TEST(Persistent, not_when_copies_might_meet_stores_of_other_programs) {
    Kernel k(matmul_text("a", "b"));
    k.options.may_alias = true;
    k.persist();
    EXPECT_FALSE(k.fn->gpu->persistent);
    EXPECT_EQ(k.all(Op::channel).size(), 2u) << "within one program nothing is stored before";
    EXPECT_EQ(k.proof(), "");
}

TEST(ProvePersistent, the_producer_starts_with_another_program) {
    Kernel k(matmul_text("a", "b"));
    k.persist();
    const InstId loop = k.all(Op::for_loop)[0];
    const ir::ValueId outside[] = {k.fn->operands(k.fn->inst(loop))[2]};  // from 1
    k.fn->operands(k.fn->inst(loop))[0] = outside[0];
    EXPECT_NE(k.proof().find("is not proved to run in step"), std::string::npos) << k.proof();
    EXPECT_FALSE(k.caught(kSquare, kSquareExtents, {3, 2, 1}).empty());
}

/// y = x - max(x) along rows of up to 1024 elements; `mode` of x.
std::string rows_text(const std::string& mode = "in", const std::string& other = " else %3", const std::string& row = "%0") {
    return "kernel @rows(%x: tensor<f16>[?, ?] " + mode + ", %y: tensor<f32>[?, ?] out, %M: extent, %N: extent) {\n" +
           R"(  %0 = program_id {axis = 0} : i64
  %1 = constant 0 : i64
  %3 = constant -inf : tile<f16>[1024]
  %4 = load %x[)" +
           row + ", %1 +: 1024]" + other + R"( : tile<f16>[1024]
  %5 = cast %4 {round = rne, overflow = automatic} : tile<f32>[1024]
  %6 = reduce %5 {kind = max, order = tree, axis = 0} : f32
  %7 = broadcast %6 : tile<f32>[1024]
  %8 = sub %5, %7 : tile<f32>[1024]
  store %y[%0, %1 +: 1024] = %8
  ret
}
)";
}

/// The same with rows of up to `extent` elements.
std::string rows_of(int64_t extent) { return std::regex_replace(rows_text(), std::regex("1024"), std::to_string(extent)); }

/// Rows of up to 2048 bytes: 16 programs of a multiprocessor put 32 KB on their way, and so have two stages.
std::string rows_of_bytes(const std::string& other = " else %3") {
    std::string text = std::regex_replace(rows_text("in", other), std::regex("1024"), "2048");
    text = std::regex_replace(text, std::regex("constant -inf"), "constant -128");
    return std::regex_replace(text, std::regex("f16"), "i8");
}

TEST(OwnRings, the_next_rows_are_copied_by_their_readers) {
    for (const Arch* arch : {&kHopper, &kAmpere})
        for (const char* other : {"", " else %3"})
            for (const bool bytes : {false, true}) {
                Kernel k(bytes ? rows_of_bytes(other) : rows_text("in", other), *arch);
                k.persist();
                ASSERT_EQ(k.all(Op::channel).size(), 1u) << k.why_not();
                EXPECT_TRUE(k.all(Op::load).empty() && k.all(Op::channel_release).empty());
                const GpuChannel& ring = k.fn->gpu->channels[0].second;
                ASSERT_TRUE(ring.own.has_value());
                EXPECT_EQ(ring.own->registers(), bytes ? 16 : 8);
                const int stages = bytes ? 2 : 1;  // 32 programs of 2 KB put 64 KB on their way
                EXPECT_EQ(ring.stages, stages);
                EXPECT_EQ(static_cast<int64_t>(ring.fill), !*other ? 0 : bytes ? -128 : 0xfc00) << "-128 or -inf";
                EXPECT_EQ(k.all(Op::channel_put).size(), stages + 1u) << "for every stage before the loop, one in it";
                EXPECT_EQ(k.proof(), "");
                const int64_t extent = bytes ? 2048 : 1024;
                k.check({{13, extent - 16}, {13, extent - 16}}, {13, extent - 16}, {13, 1, 1}, 30);
                k.check({{1, extent}, {1, extent}}, {1, extent}, {1, 1, 1}, 10);
            }
}

TEST(OwnRings, what_stays_a_load) {
    const auto rings = [](const std::string& text, bool whole = true, const Arch& arch = kHopper, bool may_alias = false) {
        Kernel k(text, arch);
        k.options.may_alias = may_alias;
        k.persist(whole);
        EXPECT_TRUE(k.fn->gpu->persistent);
        EXPECT_EQ(k.proof(), "");
        return k.all(Op::channel).size();
    };
    EXPECT_EQ(rings(rows_text()), 1u);
    EXPECT_EQ(rings(rows_text(), false), 0u) << "rows that are no whole vectors";
    EXPECT_EQ(rings(rows_text(), true, *find_arch("sm_75")), 0u) << "no cp.async";
    EXPECT_EQ(rings(rows_text(), true, kHopper, true), 0u) << "stores of other programs";
    EXPECT_EQ(rings(rows_text("in", "", "%1")), 0u) << "the same row in all programs";
    std::string written = rows_text("inout");
    written.replace(written.find("  store"), 0, "  store %x[%0, %1 +: 1024] = %4\n");
    EXPECT_EQ(rings(written), 0u) << "a tensor that is written";
}

TEST(OwnRings, stages_follow_from_what_programs_leave_each_other) {
    const auto stages = [](const std::string& text) {
        Kernel k(text);
        k.persist();
        return k.all(Op::channel).empty() ? 0 : static_cast<int>(k.stages(0));
    };
    EXPECT_EQ(stages(rows_of_bytes()), 2);
    EXPECT_EQ(stages(rows_of(1024)), 1);
    EXPECT_EQ(stages(rows_of(16384)), 1);
    EXPECT_EQ(stages(rows_of(32768)), 1);
    EXPECT_EQ(stages(rows_of(65536)), 1);
    EXPECT_EQ(stages(rows_of(131072)), 0);
}

TEST(Persistent, wide_rows_only_unless_asked) {
    const auto persistent = [](const std::string& text) {
        Kernel k(text);
        for (GpuTensor& t : k.options.tensors) t.whole = true;
        grow_form(*k.fn);
        EXPECT_EQ(make_persistent(*k.fn, k.options), k.fn->gpu->persistent);
        return k.fn->gpu->persistent;
    };
    const std::string wide = rows_of(32768);
    EXPECT_TRUE(persistent(wide));
    EXPECT_FALSE(persistent(rows_of(16384)));
    EXPECT_FALSE(persistent(std::regex_replace(wide, std::regex("reduce %5 [^:]*"), "constant 1.0 "))) << "nothing that threads wait for";
}

TEST(ProveOwnRings, a_stage_is_missing) {
    Kernel k(rows_of_bytes());
    k.persist();
    const int64_t attrs[] = {1};
    k.fn->set_attrs(k.all(Op::channel)[0], attrs);
    EXPECT_NE(k.proof().find("fewer stages"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught({{13, 2048}, {13, 2048}}, {13, 2048}, {13, 1, 1}), std::set<std::string>{"stage_not_free"});
}

TEST(ProveOwnRings, the_tensor_may_have_been_written) {
    Kernel k(rows_text());
    k.persist();
    k.options.may_alias = true;
    EXPECT_NE(k.proof().find("may have been written before"), std::string::npos) << k.proof();
}

TEST(VerifyOwnRings, layouts_and_releases) {
    Kernel k(rows_text());
    k.persist();
    EXPECT_EQ(ir::verify(*k.fn), std::vector<std::string>());
    GpuChannel& ring = k.fn->gpu->channels[0].second;
    const TileLayout own = *ring.own;
    const int order[] = {0};
    ring.own = blocked_layout({2048}, 4, 8, order);
    EXPECT_FALSE(ir::verify(*k.fn).empty()) << "another tile's layout";
    ring.own = own;
    const ir::ValueId channel[] = {k.fn->result(k.all(Op::channel)[0])};
    const InstId get = k.all(Op::channel_get)[0];
    k.fn->insert_before(k.fn->block(k.fn->inst(get).parent).insts.back(), k.fn->make(Op::channel_release, channel, {}));
    EXPECT_FALSE(ir::verify(*k.fn).empty()) << "a release";
}

}  // namespace
}  // namespace tegula::testing
