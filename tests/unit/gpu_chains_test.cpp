// Random chains of products through the GPU passes: operands that are results of products, reductions, broadcasts and permutes, or carried by loops,
// in every kind of format and any shape. Whatever instruction is chosen, placement must give it its operands where it reads them, on every
// architecture, with passes on and off (run_gpu_passes checks that and throws), and the barriers must be proved.
#include <gtest/gtest.h>

#include <random>

#include "lang/ir_text.h"
#include "lower/gpu/gpu.h"
#include "lower/rewrite.h"
#include "tests/unit/sample.h"

using namespace tegula;

namespace {

struct Formats {
    const char *operand, *sum, *precision;
};
constexpr Formats kFormats[] = {{"f16", "f32", "ieee"}, {"f16", "f16", "ieee"},    {"bf16", "f32", "ieee"},
                                {"f32", "f32", "ieee"}, {"f32", "f32", "tf32"},    {"f64", "f64", "ieee"},
                                {"i8", "i32", "ieee"},  {"f8e4m3", "f32", "ieee"}, {"f8e5m2", "f16", "ieee"}};

/// A kernel as text: values of one batch shape, made from each other step by step, the last ones stored.
class Chain {
public:
    explicit Chain(uint64_t seed) : random_(seed), f_(kFormats[pick(std::size(kFormats))]) {
        for (uint64_t b = pick(3) == 0 ? 1 + pick(2) : 0; b > 0; --b) batch_.push_back(1 + static_cast<int64_t>(pick(3)));
        constexpr int64_t kExtents[] = {1, 2, 3, 8, 16, 24, 32, 61, 64, 64, 96, 128, 128, 130};
        for (int64_t& e : extents_) e = kExtents[pick(std::size(kExtents))];
    }
    std::string text() {
        line("%z = constant 0 : i64");
        line("%one = constant 1 : i64");
        load();
        if (pick(2)) load();
        for (uint64_t n = 3 + pick(6); n > 0; --n) step(pick(8));
        product();
        for (size_t i = values_.size() - std::min<size_t>(values_.size(), 3); i < values_.size(); ++i) store(values_[i]);
        std::string dims = "[?";
        for (size_t d = 1; d < batch_.size() + 2; ++d) dims += ", ?";
        dims += "]";
        const std::string sum = f_.sum, operand = f_.operand;
        return "kernel @f(%x: tensor<" + operand + ">" + dims + " in, %y: tensor<" + operand + ">" + dims + " out, %s: tensor<" + sum + ">" + dims +
               " out, %n: extent) {\n" + body_ + "  ret\n}\n";
    }

private:
    struct Value {
        std::string name, elem;
        int64_t rows, columns;
    };
    uint64_t pick(uint64_t n) { return random_() % n; }
    int64_t extent() { return extents_[pick(std::size(extents_))]; }
    std::string fresh() { return "%v" + std::to_string(next_++); }
    void line(const std::string& text) { body_ += "  " + text + "\n"; }
    std::string shape(std::vector<int64_t> last) const {
        std::vector<int64_t> all = batch_;
        all.insert(all.end(), last.begin(), last.end());
        std::string out = "[";
        for (size_t d = 0; d < all.size(); ++d) out += (d ? ", " : "") + std::to_string(all[d]);
        return out + "]";
    }
    std::string tile(const std::string& elem, std::vector<int64_t> last) const { return "tile<" + elem + ">" + shape(last); }
    std::string type(const Value& v) const { return tile(v.elem, {v.rows, v.columns}); }
    std::string part(const Value& v) const {
        std::string out = "[";
        for (int64_t b : batch_) out += "%z +: " + std::to_string(b) + ", ";
        return out + "%z +: " + std::to_string(v.rows) + ", %z +: " + std::to_string(v.columns) + "]";
    }
    const Value& any() { return values_[pick(values_.size())]; }
    const Value& add(const Value& v) { return values_.emplace_back(v); }

    void load() {
        const Value v{fresh(), f_.operand, extent(), extent()};
        line(v.name + " = load %x" + part(v) + " : " + type(v));
        add(v);
    }
    void store(const Value& v) { line("store " + std::string(v.elem == f_.operand ? "%y" : "%s") + part(v) + " = " + v.name); }
    Value as(const Value& v, const std::string& elem) {
        if (v.elem == elem) return v;
        const Value to{fresh(), elem, v.rows, v.columns};
        line(to.name + " = cast " + v.name + " {round = rne, overflow = automatic} : " + type(to));
        return to;
    }
    Value turned(const Value& v) {
        const Value to{fresh(), v.elem, v.columns, v.rows};
        std::string axes;
        for (size_t d = 0; d < batch_.size(); ++d) axes += std::to_string(d) + ", ";
        const size_t r = batch_.size();
        line(to.name + " = permute " + v.name + " {axis = [" + axes + std::to_string(r + 1) + ", " + std::to_string(r) + "]} : " + type(to));
        return to;
    }
    Value product_of(const Value& a, const Value& b) {
        std::string acc;
        std::vector<Value> fitting;
        for (const Value& v : values_)
            if (v.elem == f_.sum && v.rows == a.rows && v.columns == b.columns) fitting.push_back(v);
        const Value to{fresh(), f_.sum, a.rows, b.columns};
        if (!fitting.empty() && pick(2)) {
            acc = fitting[pick(fitting.size())].name;
        } else {
            acc = fresh();
            line(acc + " = constant 0 : " + type(to));
        }
        line(to.name + " = dot " + a.name + ", " + b.name + ", " + acc + " {precision = " + f_.precision + "} : " + type(to));
        return to;
    }
    void product() {
        const Value a = as(any(), f_.operand);
        std::vector<Value> fitting;
        for (const Value& v : values_)
            if (v.rows == a.columns) fitting.push_back(v);
        const Value b = !fitting.empty() && pick(2) ? as(fitting[pick(fitting.size())], f_.operand) : turned(a);
        add(product_of(a, b));
    }
    /// Rows or columns joined, and spread again.
    void reduced() {
        const Value v = any();
        const bool rows = pick(2);
        const int64_t left = rows ? v.rows : v.columns;
        const std::string sum = fresh(), again = fresh();
        const Value to{fresh(), v.elem, v.rows, v.columns};
        line(sum + " = reduce " + v.name + " {kind = " + (pick(2) ? "max" : "sum") + ", order = " + (pick(4) ? "0" : "1") +
             ", axis = " + std::to_string(batch_.size() + rows) + "} : " + tile(v.elem, {left}));
        line(again + " = reshape " + sum + " : " + (rows ? tile(v.elem, {left, 1}) : tile(v.elem, {1, left})));
        line(to.name + " = broadcast " + again + " : " + type(to));
        add(to);
    }
    void joined() {
        const Value a = any();
        std::vector<Value> fitting;
        for (const Value& v : values_)
            if (v.rows == a.rows && v.columns == a.columns) fitting.push_back(v);
        const Value b = as(fitting[pick(fitting.size())], a.elem), to{fresh(), a.elem, a.rows, a.columns};
        line(to.name + " = add " + a.name + ", " + b.name + " : " + type(to));
        add(to);
    }
    /// A sum carried by a loop, and a value that is an operand in every trip.
    void loop() {
        const Value v = any();
        const Value a = as(v, f_.operand);
        const Value sum{fresh(), f_.sum, a.rows, a.rows}, carried{fresh(), f_.operand, a.rows, a.columns};
        const std::string zero = fresh(), s = fresh(), c = fresh();
        line(zero + " = constant 0 : " + type(sum));
        line(sum.name + ", " + carried.name + " = for_loop %z, %n, %one, " + zero + ", " + a.name + " : " + type(sum) + ", " + type(carried) + " (" +
             fresh() + ": i64, " + s + ": " + type(sum) + ", " + c + ": " + type(carried) + ") {");
        const Value inside{c, f_.operand, a.rows, a.columns};
        const Value other = pick(2) ? turned(inside) : turned(a);
        const std::string more = fresh(), next = fresh();
        line(more + " = dot " + inside.name + ", " + other.name + ", " + s + " {precision = " + f_.precision + "} : " + type(sum));
        line(next + " = add " + inside.name + ", " + a.name + " : " + type(carried));
        line("yield " + more + ", " + next);
        line("}");
        add(sum);
        add(carried);
    }
    void step(uint64_t kind) {
        if (kind < 4) return product();
        if (kind == 4) return reduced();
        if (kind == 5) return joined();
        if (kind == 6) return loop();
        add(turned(any()));
    }

    std::mt19937_64 random_;
    Formats f_;
    std::vector<int64_t> batch_;
    int64_t extents_[3] = {};
    std::vector<Value> values_;
    std::string body_;
    int next_ = 0;
};

/// The passes over one kernel; what is wrong, or nothing.
void expect_placed(const std::string& text, const Arch& arch, const std::string& off, uint64_t seed) {
    TypeTable types;
    SourceMap sources;
    DiagSink diags;
    const auto fn = ir::parse_ir(sources, sources.add("chain.ir", text), types, diags);
    ASSERT_TRUE(fn != nullptr) << "seed " << seed << ": " << (diags.all().empty() ? "" : render_text(diags.all()[0], sources, false)) << "\n" << text;
    ASSERT_EQ(ir::verify(*fn), std::vector<std::string>()) << "seed " << seed << "\n" << text;
    GpuOptions options;
    options.arch = &arch;
    options.tensors.resize(fn->params.size());
    for (GpuTensor& t : options.tensors) t.aligned = seed % 3 != 0;
    if (!off.empty()) options.disabled = {off};
    try {
        run_gpu_passes(*fn, options);
    } catch (const std::exception& e) {
        FAIL() << "seed " << seed << ", " << arch.name << (off.empty() ? "" : ", without " + off) << ": " << e.what() << "\n" << text;
    }
    EXPECT_EQ(prove(*fn, options), std::vector<std::string>()) << "seed " << seed << "\n" << text;
}

TEST(GpuChains, EveryProductGetsItsOperands) {
    constexpr const char* kOff[] = {"", "", "all", "place", "channels", "wgmma", "convert_cleanup", "defer"};
    size_t products = 0;
    for (uint64_t seed = 0; seed < 250 && !HasFatalFailure(); ++seed) {
        if (!test::is_sampled(seed)) continue;
        const std::string text = Chain(seed).text();
        for (size_t at = 0; (at = text.find(" = dot ", at)) != std::string::npos; ++at) ++products;
        const std::string off = kOff[seed % std::size(kOff)];
        for (const Arch& arch : all_archs()) expect_placed(text, arch, off, seed);
        expect_placed(text, *find_arch("sm_90a"), "all", seed);
    }
    EXPECT_GT(products, test::is_long() ? 1000u : 800u / test::sample_stride());
}

TEST(GpuChains, TheGridDoesNotChangeWhilePlacing) {
    // Three products in a chain: the first ones feed operand A of the next through converts that placement itself puts in between.
    const std::string text =
        "kernel @f(%x: tensor<f64>[2, 61] in, %y: tensor<f64>[2, 2] out) {\n  %z = constant 0 : i64\n  %0 = load %x[:, %z +: 64] : tile<f64>[2, 64]\n"
        "  %1 = permute %0 {axis = [1, 0]} : tile<f64>[64, 2]\n  %2 = constant 0 : tile<f64>[2, 2]\n"
        "  %3 = dot %0, %1, %2 {precision = ieee} : tile<f64>[2, 2]\n  %4 = permute %3 {axis = [1, 0]} : tile<f64>[2, 2]\n"
        "  %5 = dot %3, %4, %3 {precision = ieee} : tile<f64>[2, 2]\n  %6 = dot %0, %1, %5 {precision = ieee} : tile<f64>[2, 2]\n"
        "  store %y[:, :] = %6\n  ret\n}\n";
    for (const Arch& arch : all_archs()) {
        expect_placed(text, arch, "", 1);
        expect_placed(text, arch, "all", 1);
    }
}

TEST(GpuChains, ABatchOfOneIsNoBatch) {
    const std::string text =
        "kernel @f(%x: tensor<bf16>[1, 64, 15] in, %y: tensor<f32>[1, 64, 64] out) {\n  %z = constant 0 : i64\n"
        "  %0 = load %x[:, :, %z +: 16] : tile<bf16>[1, 64, 16]\n  %1 = permute %0 {axis = [0, 2, 1]} : tile<bf16>[1, 16, 64]\n"
        "  %2 = constant 0 : tile<f32>[1, 64, 64]\n  %3 = dot %0, %1, %2 {precision = ieee} : tile<f32>[1, 64, 64]\n"
        "  store %y[:, :, :] = %3\n  ret\n}\n";
    for (const Arch& arch : all_archs()) expect_placed(text, arch, "", 1);
    TypeTable types;
    SourceMap sources;
    DiagSink diags;
    const auto fn = ir::parse_ir(sources, sources.add("batch.ir", text), types, diags);
    ASSERT_TRUE(fn != nullptr);
    GpuOptions options;
    options.arch = find_arch("sm_90a");
    choose_instructions(*fn, options);
    EXPECT_EQ(ir::verify(*fn), std::vector<std::string>());
    size_t groups = 0;
    fn->walk([&](ir::InstId id) {
        const bool wgmma = fn->inst(id).op == ir::Op::dot && product_row(*fn, id).kind == MmaRow::wgmma;
        groups += wgmma && fn->type(fn->result(fn->inst(id))).shape.rank == 2;
    });
    EXPECT_EQ(groups, 1u);
}

}  // namespace
