// The model of tensor cores against vectors that were computed in exact rationals from the measured rules, by a program that shares no code with it
// (tensor_core_vectors.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "lang/tensor_core.h"

namespace tegula {
namespace {

const Format& format_of(Fmt f) {
    static const std::vector<Format> all = builtin_formats();
    return all[static_cast<size_t>(f)];
}

std::vector<CoreOperand> operands(Fmt f, const std::string& hex) {
    const size_t digits = format_of(f).bits / 4;
    std::vector<CoreOperand> out;
    for (size_t i = 0; i < hex.size(); i += digits) out.push_back(core_operand(format_of(f), std::stoull(hex.substr(i, digits), nullptr, 16)));
    return out;
}

TEST(TensorCore, equals_exact_rationals) {
    std::ifstream file(TEGULA_SOURCE_DIR "/tests/unit/tensor_core_vectors.txt");
    std::set<std::string> forms;
    std::string line;
    int count = 0;
    while (std::getline(file, line)) {
        if (line.starts_with("#")) continue;
        std::istringstream words(line);
        std::string name, a, b, c, expected;
        words >> name >> a >> b >> c >> expected;
        const auto rows = mma_rows();
        const auto row = std::find_if(rows.begin(), rows.end(), [&](const MmaRow& r) { return r.name == name; });
        ASSERT_NE(row, rows.end()) << name;
        const uint64_t got = core_step(*row, operands(row->a, a), operands(row->b, b), std::stoull(c, nullptr, 16));
        const uint64_t want = std::stoull(expected, nullptr, 16);
        const Format& result = format_of(row->acc);
        const bool both_nan = decode_exact(result, got).cls == Exact::nan && decode_exact(result, want).cls == Exact::nan;
        EXPECT_TRUE(got == want || both_nan) << line << "\ngives " << std::hex << got;
        forms.insert(name);
        ++count;
    }
    EXPECT_EQ(forms.size(), 7u);
    EXPECT_GT(count, 200);
}

}  // namespace
}  // namespace tegula
