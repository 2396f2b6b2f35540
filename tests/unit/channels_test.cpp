// Channels: which loads become rings of tiles, the split into producer and consumer, copies issued ahead, and the proof of both.
#include "tests/unit/channel_kernels.h"

#include <regex>

namespace tegula::testing {
namespace {

TEST(Channels, matmul_is_split_into_a_producer_and_a_consumer) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    ASSERT_TRUE(k.changed);
    EXPECT_TRUE(k.fn->gpu->specialised);
    EXPECT_EQ(k.all(Op::channel).size(), 2u);
    EXPECT_EQ(k.all(Op::channel_put).size(), 2u);
    EXPECT_EQ(k.all(Op::channel_get).size(), 2u);
    EXPECT_EQ(k.all(Op::channel_release).size(), 2u);
    EXPECT_TRUE(k.all(Op::load).empty());
    EXPECT_EQ(k.stages(0), 4);
    ASSERT_EQ(k.fn->gpu->channels.size(), 2u);
    EXPECT_EQ(k.fn->gpu->channels[0].second.tensor_map, 0);
    EXPECT_EQ(k.fn->gpu->channels[1].second.tensor_map, 1);
    EXPECT_EQ(k.fn->gpu->channels[1].second.layout, shared_layout({16, 16}, 1, 2));
    // The producer carries no tile: its loop has no results.
    const auto blocks = k.fn->blocks(k.fn->inst(k.all(Op::specialise)[0]));
    for (InstId i : k.fn->block(blocks[0]).insts) EXPECT_EQ(k.fn->inst(i).op == Op::for_loop ? k.fn->inst(i).results.count : 0, 0u);
    EXPECT_EQ(k.proof(), "");
    k.check(kSquare, kSquareExtents, {3, 2, 1});
}

/// Both operands as they are and transposed, on `arch`.
void check_every_order_of_storage(const Arch& arch, uint64_t seeds) {
    for (const bool ta : {false, true})
        for (const bool tb : {false, true}) {
            Kernel k(matmul_text(ta ? "T" : "n", tb ? "T" : "n"), arch);
            k.split();
            ASSERT_EQ(k.all(Op::channel).size(), 2u);
            EXPECT_EQ(k.proof(), "");
            std::vector<Shape> shapes = kSquare;
            if (ta) std::swap(shapes[0][0], shapes[0][1]);
            if (tb) std::swap(shapes[1][0], shapes[1][1]);
            k.check(shapes, kSquareExtents, {3, 2, 1}, seeds);
        }
}

TEST(Channels, every_order_of_storage) { check_every_order_of_storage(kHopper, 50); }

TEST(Channels, a_loop_without_trips) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    k.check({{16, 0}, {0, 16}, {16, 16}}, {16, 0, 16});
}

TEST(Channels, the_hint_of_the_loop_sets_the_stages) {
    std::string text = matmul_text("a", "b");
    Kernel k(text);
    ir::Hint hint{"pipeline", {3}};
    for (InstId i : k.all(Op::for_loop)) {
        k.fn->loop_hints = {{}, {hint}};
        const int64_t attrs[] = {1};
        k.fn->set_attrs(i, attrs);
    }
    k.split();
    EXPECT_EQ(k.stages(0), 3);
    EXPECT_EQ(k.stages(1), 3);
    k.check(kSquare, kSquareExtents, {3, 2, 1}, 10);
}

TEST(Channels, attention_holds_the_queries_over_the_loop) {
    Kernel k(kAttention);
    k.split();
    ASSERT_EQ(k.all(Op::channel).size(), 3u) << k.why_not();
    EXPECT_EQ(k.stages(0), 1);
    EXPECT_EQ(k.stages(1), 4);
    EXPECT_EQ(k.stages(2), 4);
    EXPECT_EQ(k.proof(), "") << ir::print(*k.fn);
    k.check({{2, 40, 16}, {2, 50, 16}, {2, 50, 16}, {2, 40, 16}}, {2, 40, 50}, {3, 2, 1});
    k.check({{2, 40, 16}, {2, 0, 16}, {2, 0, 16}, {2, 40, 16}}, {2, 40, 0}, {3, 2, 1}, 5);
}

/// A persistent kernel: tiles in a while loop, the inner loop in a branch, its end read from memory.
const char* const kNested = R"(
kernel @nested(%a: tensor<f16>[?, ?] in, %b: tensor<f16>[?, ?] in, %ends: tensor<f16>[?] in, %c: tensor<f32>[?, ?] out, %M: extent, %K: extent, %N: extent) {
  %0 = program_id {axis = 0} : i64
  %1 = constant 16 : i64
  %2 = num_programs {axis = 0} : i64
  %3 = constant 0 : i64
  %4 = constant 0 : tile<f32>[16, 16]
  %5 = mul %0, %1 : i64
  %6 = mul %2, %1 : i64
  %7 = while_loop %5 : i64 (%8: i64) {
    %9 = lt %8, %M : bool
    condition %9, %8
  } (%10: i64) {
    %11 = div %10, %1 : i64
    %12 = load %ends[%11] : f16
    %13 = cast %12 {round = rtz, overflow = sat} : i64
    %14 = mul %13, %1 : i64
    %15 = constant 1 : i64
    %16 = gt %13, %15 : bool
    %17 = if_else %16 : tile<f32>[16, 16] {
      %18 = for_loop %3, %14, %1, %4 : tile<f32>[16, 16] (%19: i64, %20: tile<f32>[16, 16]) {
        %21 = load %a[%10 +: 16, %19 +: 16] : tile<f16>[16, 16]
        %22 = load %b[%19 +: 16, %3 +: 16] : tile<f16>[16, 16]
        %23 = dot %21, %22, %20 {precision = ieee} : tile<f32>[16, 16]
        yield %23
      }
      yield %18
    } {
      yield %4
    }
    store %c[%10 +: 16, %3 +: 16] = %17
    %24 = add %10, %6 : i64
    yield %24
  }
  ret
}
)";

TEST(Channels, loops_in_branches_in_loops) {
    Kernel k(kNested);
    k.split();
    ASSERT_EQ(k.all(Op::channel).size(), 2u) << k.why_not();
    EXPECT_EQ(k.proof(), "") << ir::print(*k.fn);
    k.check({{150, 48}, {48, 16}, {10}, {150, 16}}, {150, 48, 16}, {3, 1, 1});
    // The read-ahead of `ends` and of the operands is wrong once the output may be the same memory.
    Kernel aliased(kNested);
    aliased.options.may_alias = true;
    EXPECT_FALSE(make_channels(*aliased.fn, aliased.options));
    EXPECT_NE(aliased.why_not().find("a write before it may reach the same memory"), std::string::npos) << aliased.why_not();
    k.options.may_alias = true;
    EXPECT_NE(k.proof(), "");
}

TEST(Channels, what_the_producer_cannot_compute_stays_a_load) {
    // The next block depends on a value of the product: only the threads that compute have it.
    std::string text = matmul_text("a", "b");
    const size_t at = text.find("    %12 = load");
    text.insert(at,
                "    %30 = reduce %10 {kind = max, order = tree, axis = -1} : f32\n"
                "    %31 = cast %30 {round = rtz, overflow = sat} : i64\n    %32 = rem %31, %1 : i64\n");
    text.replace(text.find("%b[%9"), 5, "%b[%32");
    Kernel k(text);
    k.split();
    EXPECT_EQ(k.all(Op::channel).size(), 1u);
    EXPECT_EQ(k.all(Op::load).size(), 1u);
    EXPECT_NE(k.why_not().find("depends on a tile"), std::string::npos) << k.why_not();
    EXPECT_EQ(k.proof(), "");
}

TEST(Channels, loads_that_do_not_qualify) {
    const auto reason = [](Kernel& k) {
        EXPECT_FALSE(make_channels(*k.fn, k.options));
        return k.why_not();
    };
    Kernel off(matmul_text("a", "b"));
    off.options.disabled = {"channels"};
    EXPECT_NE(reason(off).find("is off"), std::string::npos);
    Kernel fma(matmul_text("a", "b"));
    for (InstId i : fma.all(Op::dot)) fma.fn->gpu->of_inst[i.v].row = 0;
    EXPECT_NE(reason(fma).find("without tensor cores"), std::string::npos);
    Kernel strided(matmul_text("a", "b"));
    strided.options.tensors.assign(6, {true, true});
    EXPECT_NE(reason(strided).find("strides"), std::string::npos);
    std::string other = matmul_text("a", "b");
    other.replace(other.find("%a[%2 +: 16, %9 +: 16]"), 22, "%a[%2 +: 16, %9 +: 16 step 2]");
    Kernel steps(other);
    make_channels(*steps.fn, steps.options);
    EXPECT_NE(steps.why_not().find("gathers or strides"), std::string::npos) << steps.why_not();
}

// A bulk copy that begins elsewhere is an illegal instruction.
TEST(Channels, bulk_copies_begin_on_whole_16_bytes) {
    const auto of_step = [](const std::string& step) {
        std::string text = matmul_text("a", "b");
        const size_t at = text.find("    %11 = load");
        text.insert(at, "    %30 = constant " + step + " : i64\n    %31 = add %9, %30 : i64\n");
        text.replace(text.find("%a[%2 +: 16, %9 +: 16]"), 22, "%a[%2 +: 16, %31 +: 16]");
        return text;
    };
    for (const char* step : {"8", "-24", "0"}) {
        Kernel k(of_step(step));
        k.split();
        EXPECT_EQ(k.all(Op::channel).size(), 2u) << step << "\n" << k.why_not();
    }
    for (const char* step : {"1", "4", "-7"}) {
        Kernel k(of_step(step));
        k.split();
        EXPECT_EQ(k.all(Op::channel).size(), 1u) << step;
        EXPECT_NE(k.why_not().find("whole 16 bytes"), std::string::npos) << k.why_not();
    }
    // Rows of other tensors may begin anywhere.
    std::string rows = matmul_text("a", "b");
    rows.insert(rows.find("    %11 = load"), "    %30 = constant 3 : i64\n    %31 = add %9, %30 : i64\n");
    rows.replace(rows.find("%b[%9"), 5, "%b[%31");
    Kernel k(rows);
    k.split();
    EXPECT_EQ(k.all(Op::channel).size(), 2u) << k.why_not();
}

TEST(Channels, shared_memory_bounds_the_stages) {
    std::string text = matmul_text("a", "b");
    for (size_t at = text.find("[16, 16]"); at != std::string::npos; at = text.find("[16, 16]", at)) text.replace(at, 8, "[192, 192]");
    for (size_t at = text.find("+: 16"); at != std::string::npos; at = text.find("+: 16", at)) text.replace(at, 5, "+: 192");
    Kernel k(text);
    k.split();
    // Two tiles of 72 KiB; 195 KiB are free for channels.
    EXPECT_EQ(k.stages(0), 1);
    EXPECT_EQ(k.stages(1), 1);
}

TEST(Channels, tiles_that_no_bulk_copy_fits_are_copied_by_the_threads) {
    // [rows, columns] of f16: a row of 264 columns fits no box; 258 rows of 32 bytes are two boxes, the second one at 129 * 32 bytes.
    const auto split = [](int rows, int columns) {
        std::string text = matmul_text("n", "T");
        const std::string r = std::to_string(rows), c = std::to_string(columns);
        text = std::regex_replace(text, std::regex(R"(\[%2 \+: 16, %9 \+: 16\] : tile<f16>\[16, 16\])"),
                                  "[%2 +: " + r + ", %9 +: " + c + "] : tile<f16>[" + r + ", " + c + "]");
        text = std::regex_replace(text, std::regex(R"(\[%4 \+: 16, %9 \+: 16\] : tile<f16>\[16, 16\])"),
                                  "[%4 +: 16, %9 +: " + c + "] : tile<f16>[16, " + c + "]");
        text = std::regex_replace(text, std::regex(R"(\{axis = \[1, 0\]\} : tile<f16>\[16, 16\])"), "{axis = [1, 0]} : tile<f16>[" + c + ", 16]");
        text = std::regex_replace(text, std::regex(R"(tile<f32>\[16, 16\])"), "tile<f32>[" + r + ", 16]");
        text = std::regex_replace(text, std::regex(R"(store %c\[%2 \+: 16)"), "store %c[%2 +: " + r);
        Kernel k(text);
        k.split();
        EXPECT_EQ(k.proof(), "");
        return std::make_pair(k.fn->gpu->specialised, k.all(Op::channel).size());
    };
    EXPECT_EQ(split(16, 64), std::make_pair(true, size_t{2}));
    EXPECT_EQ(split(16, 264), std::make_pair(false, size_t{2}));
    EXPECT_EQ(split(12, 48), std::make_pair(true, size_t{2}));
    EXPECT_EQ(split(258, 16), std::make_pair(true, size_t{1}));
}

TEST(Channels, a_tile_that_is_decoded_first) {
    std::string text = R"(
kernel @decode(%a: tensor<f16>[?, ?] in, %w: tensor<i8>[?, ?] in, %c: tensor<f32>[?, ?] out, %M: extent, %K: extent, %N: extent) {
  %0 = program_id {axis = 0} : i64
  %1 = constant 64 : i64
  %2 = mul %0, %1 : i64
  %3 = constant 0 : tile<f32>[64, 64]
  %4 = constant 0 : i64
  %5 = for_loop %4, %K, %1, %3 : tile<f32>[64, 64] (%6: i64, %7: tile<f32>[64, 64]) {
    %8 = load %a[%2 +: 64, %6 +: 64] : tile<f16>[64, 64]
    %9 = load %w[%4 +: 64, %6 +: 64] : tile<i8>[64, 64]
    %10 = cast %9 {round = rne, overflow = automatic} : tile<f16>[64, 64]
    %11 = permute %10 {axis = [1, 0]} : tile<f16>[64, 64]
    %12 = dot %8, %11, %7 {precision = ieee} : tile<f32>[64, 64]
    yield %12
  }
  store %c[%2 +: 64, %4 +: 64] = %5
  ret
}
)";
    Kernel k(text);
    k.split();
    ASSERT_EQ(k.all(Op::channel).size(), 2u) << k.why_not();
    EXPECT_EQ(k.proof(), "");
    // The bytes are free again as soon as they are decoded.
    const ir::BlockId body = k.fn->inst(k.all(Op::cast)[0]).parent;
    const auto& list = k.fn->block(body).insts;
    const auto cast = std::find(list.begin(), list.end(), k.all(Op::cast)[0]);
    EXPECT_EQ(k.fn->inst(*(cast + 1)).op, Op::channel_release);
    k.check({{64, 130}, {64, 130}, {64, 64}}, {64, 130, 64}, {1, 1, 1}, 50);
}

// ---- what is refused ----

TEST(ProveChannels, a_release_is_missing) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    k.erase(k.all(Op::channel_release)[0]);
    EXPECT_NE(k.proof().find("does not release what it takes"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught({{16, 200}, {200, 16}, {16, 16}}, {16, 200, 16}), std::set<std::string>{"channel_deadlock"});
    EXPECT_EQ(k.caught({{16, 16}, {16, 16}, {16, 16}}, {16, 16, 16}), std::set<std::string>{"channel_not_empty"});
}

TEST(ProveChannels, a_stage_is_used_after_its_release) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    k.move(k.all(Op::channel_release)[0], k.all(Op::dot)[0]);
    EXPECT_NE(k.proof().find("uses a stage after its release"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught(kSquare, kSquareExtents), std::set<std::string>{"stage_use_after_release"});
}

TEST(ProveChannels, a_view_is_used_after_the_release) {
    Kernel k(matmul_text("T", "b"));
    k.split();
    const InstId get = k.all(Op::channel_get)[0];
    for (InstId r : k.all(Op::channel_release))
        if (k.fn->operands(k.fn->inst(r))[0] == k.fn->operands(k.fn->inst(get))[0]) k.move(r, k.all(Op::dot)[0]);
    EXPECT_NE(k.proof().find("uses a stage after its release"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught({{70, 33}, {70, 20}, {33, 20}}, kSquareExtents), std::set<std::string>{"stage_use_after_release"});
}

TEST(ProveChannels, a_release_comes_first) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    k.move(k.all(Op::channel_release)[0]);
    EXPECT_NE(k.proof().find("releases a stage that was not taken"), std::string::npos) << k.proof();
    EXPECT_TRUE(k.caught(kSquare, kSquareExtents).contains("stage_not_taken"));
}

TEST(ProveChannels, copies_stand_in_another_order) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    k.move(k.all(Op::channel_put)[1]);
    const auto puts = k.all(Op::channel_put);
    EXPECT_NE(k.proof().find("does not meet its channel"), std::string::npos) << k.proof();
}

TEST(ProveChannels, copies_go_to_the_wrong_channel) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    const auto puts = k.all(Op::channel_put);
    const ir::ValueId first = k.fn->operands(k.fn->inst(puts[0])).back(), second = k.fn->operands(k.fn->inst(puts[1])).back();
    k.fn->operands(k.fn->inst(puts[0])).back() = second;
    k.fn->operands(k.fn->inst(puts[1])).back() = first;
    EXPECT_NE(k.proof().find("does not meet its channel"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught(kSquare, kSquareExtents), std::set<std::string>{"differs"});
}

TEST(ProveChannels, a_copy_is_missing) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    k.erase(k.all(Op::channel_put)[1]);
    EXPECT_NE(k.proof().find("do not meet equally often"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught(kSquare, kSquareExtents), std::set<std::string>{"channel_deadlock"});
}

TEST(ProveChannels, the_producer_runs_another_number_of_trips) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    const InstId loop = k.all(Op::for_loop)[0];
    k.fn->operands(k.fn->inst(loop))[1] = k.fn->params[3].value;  // M, not K
    EXPECT_NE(k.proof().find("is not proved to run in step"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught({{40, 16}, {16, 16}, {40, 16}}, {40, 16, 16}).size(), 1u);
    EXPECT_EQ(k.caught({{16, 40}, {40, 16}, {16, 16}}, {16, 40, 16}), std::set<std::string>{"channel_deadlock"});
}

TEST(ProveChannels, a_stage_leaves_its_block) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    // The loop carries the stage instead of the product.
    const InstId yield = k.fn->block(k.fn->inst(k.all(Op::dot)[0]).parent).insts.back();
    const InstId get = k.all(Op::channel_get)[0];
    k.fn->operands(k.fn->inst(yield))[0] = k.fn->result(get);
    EXPECT_NE(k.proof().find("carries a stage out of its block"), std::string::npos) << k.proof();
}

// ---- copies issued ahead in one thread group ----

TEST(ChannelsAhead, matmul_without_bulk_copies) {
    for (const bool hopper : {false, true}) {
        Kernel k(matmul_text("a", "b"), hopper ? kHopper : kAmpere);
        if (hopper) k.options.tensors.assign(6, {false, false});  // not aligned
        k.split();
        ASSERT_TRUE(k.changed) << k.why_not();
        EXPECT_FALSE(k.fn->gpu->specialised);
        EXPECT_TRUE(k.all(Op::specialise).empty());
        ASSERT_EQ(k.all(Op::channel).size(), 2u);
        EXPECT_EQ(k.fn->gpu->channels[0].second.tensor_map, -1);
        // Three trips ahead: as many copies before the loop, and one more in it, for each operand.
        EXPECT_EQ(k.all(Op::channel_put).size(), 8u);
        EXPECT_EQ(k.all(Op::if_else).size(), 4u);
        // Tiles are taken first, side by side.
        const auto& body = k.fn->block(k.fn->inst(k.all(Op::dot)[0]).parent).insts;
        EXPECT_EQ(k.fn->inst(body[0]).op, Op::channel_get);
        EXPECT_EQ(k.fn->inst(body[1]).op, Op::channel_get);
        EXPECT_EQ(k.proof(), "") << ir::print(*k.fn);
        for (const int64_t depth : {0, 1, 16, 17, 40, 49, 70, 200}) k.check({{33, depth}, {depth, 20}, {33, 20}}, {33, depth, 20}, {3, 2, 1}, 50);
    }
}

TEST(ChannelsAhead, every_order_of_storage) { check_every_order_of_storage(kAmpere, 10); }

TEST(ChannelsAhead, attention_keeps_the_queries_a_load) {
    Kernel k(kAttention, kAmpere);
    k.split();
    EXPECT_EQ(k.all(Op::channel).size(), 2u);
    EXPECT_EQ(k.all(Op::load).size(), 1u);
    EXPECT_NE(k.why_not().find("stands in no loop"), std::string::npos) << k.why_not();
    EXPECT_EQ(k.proof(), "") << ir::print(*k.fn);
    k.check({{2, 40, 16}, {2, 50, 16}, {2, 50, 16}, {2, 40, 16}}, {2, 40, 50}, {3, 2, 1});
}

TEST(ChannelsAhead, loops_in_branches_in_loops) {
    Kernel k(kNested, kAmpere);
    k.split();
    ASSERT_EQ(k.all(Op::channel).size(), 2u) << k.why_not();
    EXPECT_EQ(k.proof(), "") << ir::print(*k.fn);
    k.check({{150, 48}, {48, 16}, {10}, {150, 16}}, {150, 48, 16}, {3, 1, 1});
}

TEST(ChannelsAhead, the_hint_specialise_off_is_heard) {
    Kernel k(matmul_text("a", "b"));
    k.fn->hints = {{"specialise", {2}}};
    k.split();
    EXPECT_FALSE(k.fn->gpu->specialised);
    EXPECT_EQ(k.all(Op::channel).size(), 2u);
}

TEST(ChannelsAhead, loops_whose_next_trip_is_not_known_keep_their_loads) {
    // The loop starts at an extent minus something: maybe below zero.
    std::string text = matmul_text("a", "b");
    text.insert(text.find("  %8 = for_loop"), "  %40 = sub %M, %2 : i64\n");
    text.replace(text.find("for_loop %6"), 11, "for_loop %40");
    Kernel k(text, kAmpere);
    k.split();
    EXPECT_FALSE(k.changed);
    EXPECT_NE(k.why_not().find("may start below zero"), std::string::npos) << k.why_not();
}

TEST(ChannelsAhead, loops_that_start_where_a_window_does) {
    // max(m - 24, 0) / 8 * 8: never below zero.
    std::string text = matmul_text("a", "b");
    text.insert(text.find("  %8 = for_loop"),
                "  %40 = constant 24 : i64\n  %41 = sub %2, %40 : i64\n  %42 = max %41, %6 : i64\n"
                "  %43 = constant 8 : i64\n  %44 = div %42, %43 : i64\n  %45 = mul %44, %43 : i64\n");
    text.replace(text.find("for_loop %6"), 11, "for_loop %45");
    Kernel k(text, kAmpere);
    k.split();
    ASSERT_EQ(k.all(Op::channel).size(), 2u) << k.why_not();
    EXPECT_EQ(k.proof(), "") << ir::print(*k.fn);
    k.check(kSquare, kSquareExtents, {3, 2, 1});
}

TEST(ProveChannelsAhead, a_release_is_missing) {
    Kernel k(matmul_text("a", "b"), kAmpere);
    k.split();
    k.erase(k.all(Op::channel_release)[0]);
    EXPECT_NE(k.proof(), "");
    EXPECT_EQ(k.caught({{16, 200}, {200, 16}, {16, 16}}, {16, 200, 16}), std::set<std::string>{"stage_not_free"});
}

TEST(ProveChannelsAhead, a_copy_before_the_loop_is_missing) {
    for (const size_t which : {0u, 1u, 2u}) {
        Kernel k(matmul_text("a", "b"), kAmpere);
        k.split();
        k.erase(k.all(Op::if_else)[which]);
        EXPECT_NE(k.proof(), "");
        const auto rows = k.caught({{16, 200}, {200, 16}, {16, 16}}, {16, 200, 16});
        EXPECT_EQ(rows.size(), 1u);
    }
}

TEST(ProveChannelsAhead, one_copy_too_many) {
    // The guard in the loop lets one more trip's copy start than there are trips.
    Kernel k(matmul_text("a", "b"), kAmpere);
    k.split();
    const InstId guard = k.all(Op::if_else)[3];
    const ir::Inst* test = k.fn->def(k.fn->operands(k.fn->inst(guard))[0]);
    const ir::Inst* ahead = k.fn->def(k.fn->operands(*test)[0]);
    k.fn->attr_pool[ahead->attrs.begin] = 32;
    EXPECT_NE(k.proof().find("while trips are left"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught({{16, 200}, {200, 16}, {16, 16}}, {16, 200, 16}), std::set<std::string>{"channel_not_empty"});
}

TEST(ProveChannelsAhead, a_copy_before_the_loop_has_another_guard) {
    Kernel k(matmul_text("a", "b"), kAmpere);
    k.split();
    const ir::Inst* test = k.fn->def(k.fn->operands(k.fn->inst(k.all(Op::if_else)[1]))[0]);
    const ir::Inst* trips = k.fn->def(k.fn->operands(*test)[0]);
    k.fn->attr_pool[trips->attrs.begin] += 1;
    EXPECT_NE(k.proof().find("for every first trip"), std::string::npos) << k.proof();
}

TEST(ProveChannelsAhead, a_stage_is_missing) {
    Kernel k(matmul_text("a", "b"), kAmpere);
    k.split();
    for (InstId c : k.all(Op::channel)) {
        const int64_t attrs[] = {3};
        k.fn->set_attrs(c, attrs);
    }
    EXPECT_NE(k.proof().find("fewer stages"), std::string::npos) << k.proof();
    EXPECT_EQ(k.caught({{16, 200}, {200, 16}, {16, 16}}, {16, 200, 16}), std::set<std::string>{"stage_not_free"});
}

TEST(ProveChannelsAhead, the_tensor_may_have_been_written) {
    Kernel k(kNested, kAmpere);
    k.split();
    EXPECT_EQ(k.proof(), "");
    k.options.may_alias = true;
    EXPECT_NE(k.proof().find("may have been written before"), std::string::npos) << k.proof();
}

TEST(Channels, a_tile_moved_to_registers_outlives_its_stage) {
    Kernel k(matmul_text("a", "b"));
    k.split();
    const InstId get = k.all(Op::channel_get)[0], dot = k.all(Op::dot)[0];
    const ir::ValueId operands[] = {k.fn->result(get)};
    const TypeId types[] = {k.fn->type_of(operands[0])};
    const InstId convert = k.fn->make(Op::convert, operands, types, {}, k.fn->inst(get).span);
    k.fn->insert_before(dot, convert);
    k.fn->operands(k.fn->inst(dot))[0] = k.fn->result(convert);
    for (InstId r : k.all(Op::channel_release))
        if (k.fn->operands(k.fn->inst(r))[0] == k.fn->operands(k.fn->inst(get))[0]) k.move(r, dot);
    grow_form(*k.fn);
    EXPECT_EQ(k.proof(), "");
    k.check(kSquare, kSquareExtents, {3, 2, 1}, 10);
}

}  // namespace
}  // namespace tegula::testing
