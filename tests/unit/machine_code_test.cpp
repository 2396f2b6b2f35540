// The hot loops of products with narrow weights, counted in the machine code that NVRTC makes: no GPU is needed, and no disassembler, since the
// little that is asked stands in fixed bits of an instruction. Which bits was read off nvdisasm 13.0 for sm_90a.
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tegula/tegula.hpp"

namespace {

/// One of 16 bytes.
struct Instruction {
    enum Opcode {
        kStoreLocal = 0x387,
        kMma = 0x23c,
        kBranch = 0x947,
        kExit = 0x94d,
        kLoad = 0x981,
        kLoadLocal = 0x983,
        kLoadShared = 0x984,
        kBarrier = 0xb1d,
        kWarpGroupMma = 0xdf0
    };
    uint64_t low = 0, high = 0;
    int opcode() const { return low & 0xfff; }
    bool multiplies() const { return opcode() == kMma || opcode() == kWarpGroupMma; }
    bool is_predicated() const { return (low >> 12 & 15) != 7 || (opcode() == kBranch && (high >> 23 & 15) != 7); }
    /// Of a branch, in instructions from the next one.
    int64_t distance() const {
        const int64_t upper = static_cast<int64_t>(high << 46 | low >> 34 << 16) >> 16;  // 48 bits
        return (upper * 256 + static_cast<int64_t>(low >> 16 & 255)) * 4 / 16;
    }
    /// 0 to 3: a byte or 16 bits, unsigned or signed; 4: 32 bits; 5: 64; 6: 128.
    int size() const { return high >> 9 & 7; }
};

/// The instructions of the one kernel in `cubin`; none where it is no such file.
std::vector<Instruction> code_of(std::string_view cubin) {
    Elf64_Ehdr file;
    if (cubin.size() < sizeof file) return {};
    std::memcpy(&file, cubin.data(), sizeof file);
    const auto section = [&](size_t n) {
        Elf64_Shdr s;
        std::memcpy(&s, cubin.data() + file.e_shoff + n * sizeof s, sizeof s);
        return s;
    };
    const Elf64_Shdr names = section(file.e_shstrndx);
    for (size_t n = 0; n < file.e_shnum; ++n) {
        const Elf64_Shdr s = section(n);
        if (!std::string_view(cubin.data() + names.sh_offset + s.sh_name).starts_with(".text.")) continue;
        std::vector<Instruction> code(s.sh_size / sizeof(Instruction));
        std::memcpy(code.data(), cubin.data() + s.sh_offset, code.size() * sizeof(Instruction));
        return code;
    }
    return {};
}

/// One trip of the loop from `first` to its branch back at `last`, by the way that multiplies most and on which words are loaded whole: loads at the
/// end of K have predicates and stand in a block of their own. Empty: no way leads to that branch.
std::vector<Instruction> trip(const std::vector<Instruction>& code, size_t first, size_t last) {
    // Branches within a trip lead forwards, so that one pass finds the way: most products, then most whole loads, then fewest instructions.
    constexpr int64_t kNever = LLONG_MAX / 2;
    std::vector<int64_t> cost(last - first + 1, kNever);
    std::vector<size_t> from(cost.size());
    cost[0] = 0;
    for (size_t at = first; at < last; ++at) {
        const Instruction& i = code[at];
        if (cost[at - first] == kNever || (i.opcode() == Instruction::kExit && !i.is_predicated())) continue;
        const int64_t next = cost[at - first] + 1 - (i.multiplies() ? 1 << 20 : i.opcode() == Instruction::kLoad && !i.is_predicated() ? 1 << 10 : 0);
        const auto reach = [&](size_t to) {
            if (to > at && to <= last && next < cost[to - first]) cost[to - first] = next, from[to - first] = at;
        };
        const bool branches = i.opcode() == Instruction::kBranch;
        if (branches) reach(at + 1 + static_cast<size_t>(i.distance()));
        if (!branches || i.is_predicated()) reach(at + 1);
    }
    if (cost.back() == kNever) return {};
    std::vector<Instruction> path = {code[last]};
    for (size_t at = last; at > first;) path.push_back(code[at = from[at - first]]);
    return path;
}

int64_t products_of(const std::vector<Instruction>& code) {
    return std::count_if(code.begin(), code.end(), [](const Instruction& i) { return i.multiplies(); });
}

/// One trip of the loop that multiplies most, of several the shortest.
std::vector<Instruction> hot_path(const std::vector<Instruction>& code) {
    std::vector<Instruction> best;
    for (size_t at = 0; at < code.size(); ++at) {
        if (code[at].opcode() != Instruction::kBranch || code[at].distance() >= 0) continue;
        const std::vector<Instruction> path = trip(code, at + 1 + static_cast<size_t>(code[at].distance()), at);
        const int64_t products = products_of(path), most = products_of(best);
        if (products > most || (products == most && path.size() < best.size())) best = path;
    }
    return best;
}

/// The number before `what` in `text`.
std::optional<double> number_before(const std::string& text, std::string_view what) {
    const size_t end = text.find(what);
    if (end == text.npos) return {};
    const size_t start = text.find_last_of(' ', end - 1) + 1;
    double value = 0;
    if (std::from_chars(text.data() + start, text.data() + end, value).ec != std::errc()) return {};
    return value;
}

TEST(MachineCode, InstructionsForEachNarrowWeight) {
    setenv("TEGULA_CACHE_DIR", "off", 1);
    auto module = tegula::Engine::create({}).value().load_file(TEGULA_SOURCE_DIR "/examples/wn_a16.tile");
    ASSERT_TRUE(module) << module.diagnostics().text();
    const auto expect_few = [&](const std::string& type, const char* name, int m, double most) {
        SCOPED_TRACE(type + " " + name);
        auto kernel = module.value().compile(name, {{"W", type}, {"FRAGMENTS", 1}, {"M", m}, {"N", 16384}, {"K", 16384}});
        ASSERT_TRUE(kernel) << kernel.diagnostics().text();
        auto cubin = kernel.value().artifact("cubin@sm_90a");
        if (!cubin && cubin.status() == TEGULA_E_UNAVAILABLE) GTEST_SKIP() << cubin.diagnostics().text();
        ASSERT_TRUE(cubin) << cubin.diagnostics().text();
        const auto solved = number_before(kernel.value().artifact("explain@sm_90a").value(), " operations each");
        ASSERT_TRUE(solved);
        const std::vector<Instruction> path = hot_path(code_of(cubin.value()));
        const auto count = [&](auto holds) { return std::count_if(path.begin(), path.end(), holds); };
        const int64_t products = products_of(path);
        ASSERT_GT(products, 0);
        // Weights are the first factor: 16 x 16 of a warp, and so eight of each lane, for each mma.m16n8k16 as for each wgmma.
        const double each = static_cast<double>(path.size()) / static_cast<double>(products * 8);
        EXPECT_LE(each, *solved + most);
        EXPECT_GE(each, *solved) << "this is not the loop that decodes";
        EXPECT_EQ(count([](const Instruction& i) { return i.opcode() == Instruction::kLoad && i.size() < 4; }), 0) << "loads of less than a word";
        EXPECT_EQ(count([](const Instruction& i) { return i.opcode() == Instruction::kStoreLocal || i.opcode() == Instruction::kLoadLocal; }), 0);
        EXPECT_EQ(count([](const Instruction& i) { return i.opcode() == Instruction::kBarrier; }), 0);
        std::printf("%-12s M = %d: %.2f instructions, %.2f of them decode\n", type.c_str(), m, each, *solved);
    };
    for (const char* type : {"i1", "i2", "i3", "i4", "i5", "i6", "i7", "i8", "f4e2m1", "f6e3m2", "f8e4m3", "nf4", "fixed<4, 4>"})
        expect_few(type, "wn_a16_few", 1, 2);
    for (const char* type : {"i1", "i3", "i4", "i7", "u8", "f4e2m1"}) expect_few(type, "wn_a16", 4096, 2);
    expect_few("nf4", "wn_a16", 4096, 2.5);  // ptxas moves constants of the table to registers again and again
}

}  // namespace
