// What kernels print and assert, as words in device memory: read in the order of the programs, and no further than they make sense.
#include "tests/unit/launch_fixture.h"

namespace tegula::cuda {
namespace {

TEST_F(LaunchTest, reports_come_in_program_order) {
    parse(
        "kernel @k(%x: tensor<f32>[?] in, %p: ptr<f32>, %i: i64, %a: f16) {\n"
        "  %c = constant 1 : tile<i8>[2, 3]\n  %b = constant true : tile<bool>[2, 3]\n"
        "  print \"i = {} and {}\", %i, %a\n  print \"tile {{}}\", %c\n  print \"at {}\", %p\n  assert \"all\", %b\n  ret\n}\n");
    const auto& insts = fn_->block(fn_->body).insts;
    std::vector<uint64_t> words(200);
    words[1] = words.size();
    size_t at = 2;
    const auto record = [&](size_t inst, uint64_t program, std::vector<uint64_t> payload) {
        words[at] = insts[inst + 2].v | (payload.size() + 2) << 32;
        words[at + 1] = program;
        std::copy(payload.begin(), payload.end(), words.begin() + static_cast<long>(at) + 2);
        at += payload.size() + 2;
        words[0] = at;
    };
    record(3, 7, {4});
    record(0, 7, {static_cast<uint64_t>(-3), 0x3e00});
    record(0, 2, {11, 0x7e00});
    record(1, 2, {1, 2, 0xff, 4, 5, 6});
    record(3, 5, {2});
    record(2, 9, {1000 + 12});
    record(2, 9, {0});
    const PrintedRange range{1000, 64, 1};
    std::vector<std::string> printed;
    RunOptions options;
    options.print = [&](std::string_view text) { printed.emplace_back(text); };
    RunResult result;
    const std::array<uint64_t, 3> grid = {3, 4, 1};
    read_report(*fn_, words, grid, {&range, 1}, options, result);
    EXPECT_EQ(printed, (std::vector<std::string>{"i = 11 and nan", "tile {}} [[1, 2, -1], [4, 5, 6]]", "i = -3 and 1.5",
                                                 "at ptr(argument 1, element 3)", "at ptr(none)"}));
    ASSERT_EQ(result.diagnostics.size(), 1u) << "once per instruction";
    EXPECT_EQ(result.status, RunResult::failed);
    EXPECT_EQ(result.diagnostics[0].message, "assertion failed: all");
    EXPECT_EQ(result.diagnostics[0].notes, (std::vector<DiagNote>{"in program (2, 1, 0)", "at element (0, 2) of the tile"}));
}

TEST_F(LaunchTest, damaged_reports_end_the_reading) {
    parse("kernel @k(%i: i64) {\n  print \"{}\", %i\n  ret\n}\n");
    int printed = 0;
    RunOptions options;
    options.print = [&](std::string_view) { ++printed; };
    const auto read = [&](std::vector<uint64_t> words) {
        RunResult result;
        printed = 0;
        read_report(*fn_, words, kOne, {}, options, result);
        for (const Diagnostic& d : result.diagnostics) EXPECT_STREQ(diag_row(d.id).code, "T0917");
        return result.diagnostics.size();
    };
    const uint64_t print = fn_->block(fn_->body).insts[0].v, three = uint64_t{3} << 32;
    EXPECT_EQ(read({}), 0u);
    EXPECT_EQ(read({5}), 0u);
    EXPECT_EQ(read({5, 5, print | three, 0, 42}), 0u);
    EXPECT_EQ(printed, 1);
    EXPECT_EQ(read({UINT64_MAX, 5, print | three, 0, 42}), 1u) << "a note that something was dropped";
    EXPECT_EQ(printed, 1);
    for (const uint64_t head : {print, print | uint64_t{1} << 32, print | uint64_t{4} << 32, UINT64_MAX, uint64_t{9999} | three}) {
        EXPECT_EQ(read({5, 5, head, 0, 42}), 0u);
        EXPECT_EQ(printed, 0);
    }
    EXPECT_EQ(read({4, 4, print | uint64_t{2} << 32, 0}), 0u) << "too short for its instruction";
    EXPECT_EQ(printed, 0);
}

TEST_F(LaunchTest, a_prepared_launch_collects_what_it_printed) {
    parse("kernel @k(%i: i64) {\n  print \"{}\", %i\n  ret\n}\n");
    BoundLaunch launch;
    ASSERT_EQ(bind(launch, variant({{KernelParam::report, 0, 0}}, {{}}), {scalar(1)}), "");
    const uint64_t inst = fn_->block(fn_->body).insts[0].v;
    uint64_t next = 40;
    kernel_ = [&](const FakeLaunch& l) {
        auto* report = value<uint64_t*>(l, 0);
        const uint64_t at = report[0];
        report[0] += 3;
        report[at] = inst | uint64_t{3} << 32;
        report[at + 1] = 0;
        report[at + 2] = next++;
    };
    std::vector<std::string> printed;
    RunOptions options;
    options.print = [&](std::string_view text) { printed.emplace_back(text); };
    EXPECT_EQ(launch.launch(nullptr), 0);
    EXPECT_EQ(launch.launch(nullptr), 0);
    EXPECT_EQ(launch.collect(nullptr, options).status, RunResult::ok);
    EXPECT_EQ(launch.launch(nullptr), 0);
    EXPECT_EQ(launch.collect(nullptr, options).status, RunResult::ok);
    EXPECT_EQ(launch.collect(nullptr, options).status, RunResult::ok);
    EXPECT_EQ(printed, (std::vector<std::string>{"40", "41", "42"}));
}

}  // namespace
}  // namespace tegula::cuda
