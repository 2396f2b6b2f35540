// What the interpreter's tests share: IR text in, tiles and tensors in and out, and number formats written down a second time so that
// expectations do not come from the code under test.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "jit/interp/interp.h"
#include "lang/ir_text.h"

namespace tegula::testing {

/// Names of the ops in every function that a test has prepared.
inline std::set<std::string>& rows_seen() {
    static std::set<std::string> seen;
    return seen;
}

class World {
public:
    TypeTable types;
    SourceMap sources;

    std::unique_ptr<ir::Function> parse(const std::string& text) {
        DiagSink diags;
        const uint32_t file = sources.add("test", text);
        auto fn = ir::parse_ir(sources, file, types, diags);
        for (const Diagnostic& d : diags.all()) ADD_FAILURE() << render_text(d, sources, false);
        if (!fn) throw std::runtime_error("IR text does not parse:\n" + text);
        for (uint32_t b = 0; b < fn->block_count(); ++b)
            for (ir::InstId i : fn->block(ir::BlockId{b}).insts) rows_seen().insert(ir::op_row(fn->inst(i).op).name);
        return fn;
    }

    /// Runs the body of a function; parameters %a, %b, .. are the tiles, results the operands of its `ret`.
    std::vector<TileData> eval(const std::string& body, const std::vector<TileData>& args, RunOptions options = {}, RunResult* result = nullptr) {
        std::string text = "function @f(";
        for (size_t i = 0; i < args.size(); ++i)
            text += std::string(i ? ", %" : "%") + static_cast<char>('a' + i) + ": " + types.name(types.tile(args[i].elem, args[i].shape));
        const auto fn = parse(text + ") {\n" + body + "\n}\n");
        std::vector<TileData> results;
        const RunResult r = interp::Program::prepare(*fn)->evaluate(args, results, options);
        if (result)
            *result = r;
        else
            EXPECT_EQ(r.status, RunResult::ok) << (r.diagnostics.empty() ? "" : r.diagnostics[0].message);
        return results;
    }

    RunResult run(const std::string& text, const std::vector<Argument>& args, std::array<uint64_t, 3> grid = {1, 1, 1}, RunOptions options = {}) {
        const auto fn = parse(text);
        return interp::Program::prepare(*fn)->run(args, grid, options);
    }

    FormatId format(const std::string& name) { return *types.builtin(name); }
    std::string tile(const std::string& elem, const Shape& shape) { return types.name(types.tile(format(elem), shape)); }

    TileData make(FormatId elem, const Shape& shape, const std::vector<uint64_t>& codes) {
        TileData t;
        t.elem = elem;
        t.shape = shape;
        const unsigned width = types.format(elem).container_bytes();
        t.bytes.resize(codes.size() * width);
        for (size_t i = 0; i < codes.size(); ++i) std::memcpy(t.bytes.data() + i * width, &codes[i], width);
        return t;
    }
    TileData ints(const std::string& elem, const Shape& shape, const std::vector<int64_t>& values) {
        return make(format(elem), shape, std::vector<uint64_t>(values.begin(), values.end()));
    }
    TileData f32s(const Shape& shape, const std::vector<float>& values) {
        std::vector<uint64_t> codes;
        for (float v : values) codes.push_back(std::bit_cast<uint32_t>(v));
        return make(id_of(Fmt::f32), shape, codes);
    }
};

inline uint64_t code_at(const TileData& t, size_t i, unsigned width) {
    uint64_t code = 0;
    std::memcpy(&code, t.bytes.data() + i * width, width);
    return code;
}
template <class T>
std::vector<T> values(const TileData& t) {
    std::vector<T> out(t.bytes.size() / sizeof(T));
    std::memcpy(out.data(), t.bytes.data(), t.bytes.size());
    return out;
}

template <class T>
Argument tensor(std::vector<T>& data, Fmt elem, const Shape& extents) {
    Argument a;
    a.kind = Argument::tensor;
    a.t.elem = id_of(elem);
    a.t.data = data.data();
    a.t.bytes = data.size() * sizeof(T);
    a.t.extents = extents;
    return a;
}
template <class T>
Argument pointer(std::vector<T>& data, Fmt elem) {
    Argument a = tensor(data, elem, {static_cast<int64_t>(data.size())});
    a.kind = Argument::pointer;
    return a;
}
inline Argument scalar(uint64_t code) {
    Argument a;
    a.code = code;
    return a;
}

/// The program of tests that runs a row of the operation table; `gpu`: channels_test.
enum class RunBy { elements, tiles, programs, gpu };
inline RunBy run_by(const ir::OpRow& row) {
    const std::map<std::string, RunBy> exceptions = {{"cast", RunBy::elements},   {"bitcast", RunBy::elements},     {"select", RunBy::elements},
                                                     {"if_else", RunBy::tiles},   {"program_id", RunBy::programs},  {"num_programs", RunBy::programs},
                                                     {"dim", RunBy::programs},    {"tensor_ptr", RunBy::programs},  {"ptr_add", RunBy::programs},
                                                     {"ptr_at", RunBy::programs}, {"ptr_address", RunBy::programs}, {"instruction", RunBy::gpu},
                                                     {"ptx", RunBy::gpu},         {"ptx_tile", RunBy::gpu},         {"convert", RunBy::gpu},
                                                     {"cta_id", RunBy::gpu},      {"num_ctas", RunBy::gpu},         {"channel", RunBy::gpu},
                                                     {"channel_put", RunBy::gpu}, {"channel_get", RunBy::gpu},      {"channel_release", RunBy::gpu},
                                                     {"specialise", RunBy::gpu}};
    if (const auto found = exceptions.find(row.name); found != exceptions.end()) return found->second;
    return row.traits & ir::ELEMWISE ? RunBy::elements : row.traits & ir::PURE ? RunBy::tiles : RunBy::programs;
}

/// At the end of a whole program of tests: every row that it shall run has been prepared by some test.
class RowsRun : public ::testing::Environment {
public:
    explicit RowsRun(RunBy by) : by_(by) {}
    void TearDown() override {
        if (GTEST_FLAG_GET(filter) != "*") return;
        for (uint8_t op = 0; op < static_cast<uint8_t>(ir::Op::count_); ++op) {
            const ir::OpRow& row = ir::op_row(static_cast<ir::Op>(op));
            EXPECT_TRUE(run_by(row) != by_ || rows_seen().count(row.name)) << row.name << " is run by no test";
        }
    }

private:
    RunBy by_;
};

__extension__ using Real = __float128;
__extension__ using Wide = __int128;

/// A small IEEE-like float: decoding by the formula, encoding as the nearest of all codes, ties to even.
class SmallFloat {
public:
    SmallFloat(int exp_bits, int man_bits, bool has_inf) : e_(exp_bits), m_(man_bits), inf_(has_inf) {
        for (uint64_t c = 0; c < (uint64_t{1} << (e_ + m_)); ++c)
            if (std::isfinite(decode(c))) positive_.push_back(decode(c));
    }
    unsigned bits() const { return static_cast<unsigned>(1 + e_ + m_); }
    double least_normal() const { return std::ldexp(1.0, 2 - (1 << (e_ - 1))); }
    double decode(uint64_t code) const {
        const int bias = (1 << (e_ - 1)) - 1, top = (1 << e_) - 1;
        const int e = static_cast<int>(code >> m_) & top;
        const auto m = static_cast<double>(code & ((uint64_t{1} << m_) - 1));
        const double sign = code >> (e_ + m_) & 1 ? -1 : 1, one = std::ldexp(1.0, m_);
        if (inf_ && e == top) return m == 0 ? sign * INFINITY : NAN;
        if (!inf_ && e == top && m == one - 1) return NAN;
        return sign * (e == 0 ? std::ldexp(m / one, 1 - bias) : std::ldexp(1 + m / one, e - bias));
    }
    uint64_t nan() const { return inf_ ? (((uint64_t{1} << e_) - 1) << m_ | uint64_t{1} << (m_ - 1)) : (uint64_t{1} << (e_ + m_)) - 1; }
    /// `mode`: rtz, ru or rd; anything else is to nearest.
    uint64_t encode(Real v, bool negative_zero = false, const std::string& mode = "") const {
        if (v != v) return nan();
        const bool negative = v < 0 || (v == 0 && negative_zero);
        const Real magnitude = v < 0 ? -v : v;
        const uint64_t sign = negative ? uint64_t{1} << (e_ + m_) : 0;
        const size_t last = positive_.size() - 1;
        const bool directed = mode == "rtz" || mode == "ru" || mode == "rd", grows = mode == (v < 0 ? "rd" : "ru");
        if (directed && magnitude > positive_[last]) return sign | (inf_ && (grows || magnitude > 1e300) ? last + 1 : last);
        const Real limit = positive_[last] + (Real(positive_[last]) - positive_[last - 1]) / 2;
        if (magnitude >= limit) return sign | (inf_ ? last + 1 : last);
        size_t i = static_cast<size_t>(std::upper_bound(positive_.begin(), positive_.end(), magnitude, [](Real a, double b) { return a < b; }) -
                                       positive_.begin()) -
                   1;
        if (i < last) {
            const Real below = magnitude - positive_[i], above = positive_[i + 1] - magnitude;
            if (directed ? grows && below > 0 : above < below || (above == below && i % 2 == 1)) ++i;
        }
        return sign | i;
    }

private:
    int e_, m_;
    bool inf_;
    std::vector<double> positive_;
};

}  // namespace tegula::testing
