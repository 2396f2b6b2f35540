// The order in which loop nests of the CPU go over their tiles (jit/cpu/nest_order.h), and that native code keeps the interpreter's bits in it: all
// widths, processors with wide, narrow and hardly any vectors, memory that ends where the tensors do, strides of the host, elements that share
// memory.
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "jit/cpu/nest_order.h"
#include "lang/tensor_strides.h"
#include "tests/unit/interp_fixture.h"
#include "tests/unit/native_run.h"

namespace tegula::testing {
namespace {

struct Nests : ::testing::Test {
    World w;

    /// The plan of the kernel's last store, for vectors of 16 lanes.
    cpu::NestOrder plan(const std::string& text, cpu::CompileOptions options = {}) {
        const auto fn = w.parse(text);
        options.tensors.resize(fn->params.size());
        ir::InstId store;
        for (ir::InstId id : fn->block(fn->body).insts)
            if (fn->inst(id).op == ir::Op::store) store = id;
        return cpu::plan_nest(*fn, cpu::make_plan(*fn, options), options, store, 16);
    }

    /// y = x + x for whole tensors of rank 2, or turned first.
    static std::string copy(const std::string& x, const std::string& y, bool turned = false, const std::string& f = "f32", int64_t m = 64,
                            int64_t n = 32) {
        const auto dims = [](int64_t a, int64_t b) { return "[" + std::to_string(a) + ", " + std::to_string(b) + "]"; };
        const auto part = [](int64_t a, int64_t b) { return "[%0 +: " + std::to_string(a) + ", %0 +: " + std::to_string(b) + "]"; };
        const std::string from = turned ? dims(n, m) : dims(m, n), tile = "tile<" + f + ">";
        std::string out = "kernel @k(%x: tensor<" + f + ">" + from + x + " in, %y: tensor<" + f + ">" + dims(m, n) + y + " inout) {\n";
        out += "  %0 = constant 0 : i64\n  %1 = load %x" + (turned ? part(n, m) : part(m, n)) + " : " + tile + from + "\n";
        if (turned) out += "  %2 = permute %1 {axis = [1, 0]} : " + tile + dims(m, n) + "\n";
        return out + "  store %y" + part(m, n) + " = " + (turned ? "%2" : "%1") + "\n  ret\n}\n";
    }
};

using Dims = std::vector<uint8_t>;

TEST_F(Nests, RunAlongMemory) {
    EXPECT_EQ(plan(copy("", "")).dims, (Dims{0, 1}));
    EXPECT_EQ(plan(copy(" @ \"col\"", " @ \"col\"")).dims, (Dims{1, 0}));
    EXPECT_FALSE(plan(copy(" @ \"col\"", " @ \"col\"")).blocks);
    EXPECT_EQ(plan(copy(" @ \"strides(1, 100)\"", " @ \"strides(1, 80)\"")).dims, (Dims{1, 0}));
    EXPECT_EQ(plan(copy("", "", false, "f32", 64, 1)).dims, (Dims{0}));
    EXPECT_EQ(plan(copy(" @ \"col\"", "", true)).dims, (Dims{0, 1})) << "both transpositions cancel";
    EXPECT_FALSE(plan(copy(" @ \"col\"", "", true)).blocks);
    EXPECT_NE(plan(copy(" @ \"col\"", " @ \"col\"")).text.find("dimension 0, as memory of `x`, `y`"), std::string::npos);
}

TEST_F(Nests, TurnSquaresWhereMemoryDisagrees) {
    for (const auto& [f, side, step] : std::vector<std::tuple<std::string, int64_t, int64_t>>{
             {"i4", 128, 8}, {"i8", 64, 4}, {"i12", 40, 8}, {"f16", 32, 2}, {"i24", 20, 4}, {"f32", 16, 1}, {"f64", 8, 1}}) {
        const cpu::NestOrder order = plan(copy("", "", true, f));
        if (f != "i4" && f != "i12" && f != "i24") {  // packed elements are written from scratch memory, and the plan is that store's
            EXPECT_EQ(order.dims, (Dims{0, 1})) << f;
            ASSERT_EQ(order.turned.size(), 1u) << f;
            EXPECT_EQ(order.side, side) << f;
            EXPECT_EQ(order.step, step) << f;
        }
        const cpu::NestOrder columns = plan(copy("", " @ \"col\"", false, f));
        EXPECT_EQ(columns.dims, (Dims{1, 0})) << f;
        EXPECT_TRUE(columns.blocks) << f;
    }
    EXPECT_NE(plan(copy("", "", true)).text.find("squares of 16 rows x 16, which are turned"), std::string::npos);
    const cpu::NestOrder odd = plan(copy("", "", true, "i64", 64, 2));
    EXPECT_TRUE(odd.turned.empty()) << "two rows are no square";
}

TEST_F(Nests, StridesOfTheHost) {
    cpu::CompileOptions options;
    options.tensors.resize(2);
    for (cpu::TensorTrait& t : options.tensors) t.strided = true, t.unit = 0;
    EXPECT_EQ(plan(copy("", ""), options).dims, (Dims{1, 0}));
    options.tensors[1].unit = -1;
    EXPECT_EQ(plan(copy("", ""), options).dims, (Dims{0, 1})) << "elements may share memory";
    options.tensors[1].strided = false;
    EXPECT_EQ(plan(copy("", ""), options).turned.size(), 1u);
    options.bounds = true;
    EXPECT_EQ(plan(copy("", ""), options).dims, (Dims{0, 1})) << "what is reported comes in the program's order";
}

TEST_F(Nests, FewElementsArePutTogether) {
    const auto few = [&](int64_t m, int64_t n, const std::string& y = "", bool turned = false) {
        std::string text = copy("", y, turned, "f32", m, n);
        const size_t store = text.find("store %y[");
        text.replace(text.find("+: " + std::to_string(n) + "] =", store) - 3, 4 + std::to_string(n).size() + 2, ":");  // whole rows
        return plan(text);
    };
    for (const bool turned : {false, true}) {
        const cpu::NestOrder order = few(64, 3, "", turned);
        EXPECT_EQ(order.dims, (Dims{0}));
        EXPECT_EQ(order.few, 1);
        EXPECT_NE(order.text.find("the 3 elements along dimension 1 are put together in registers"), std::string::npos);
    }
    EXPECT_EQ(few(64, 5).few, -1) << "a gather does as well";
    EXPECT_EQ(few(8, 2).few, -1) << "no whole vector";
    EXPECT_EQ(few(64, 3, " @ \"col\"").few, -1);
    EXPECT_EQ(few(64, 3, " @ \"strides(4, 1)\"").few, -1) << "what lies between is not the store's";
    EXPECT_EQ(plan(copy("", "", false, "f32", 64, 3)).few, -1) << "a part that may begin anywhere";
}

TEST_F(Nests, BitsAreTheInterpreters) {
    std::mt19937_64 random(1);
    for (const char* cpu : {"", "x86-64-v3", "x86-64"})
        for (const char* f : {"u1", "i4", "i8", "i12", "f16", "i24", "f32", "i33", "f64"})
            for (const auto& [m, n] : {std::pair{33, 37}, {64, 19}, {40, 3}})
                for (const int kind : {0, 1, 2}) {
                    SCOPED_TRACE(std::string(cpu) + " " + f + " " + std::to_string(m) + " x " + std::to_string(n) + ", " + std::to_string(kind));
                    const auto fn =
                        w.parse(kind == 0 ? copy("", "", true, f, m, n) : copy(kind == 1 ? " @ \"col\"" : "", " @ \"col\"", false, f, m, n));
                    std::vector<Argument> args(2);
                    std::deque<Guarded> memory;
                    for (size_t i = 0; i < 2; ++i) {
                        const Type& type = fn->type(fn->params[i].value);
                        Argument& a = args[i];
                        a.kind = Argument::tensor, a.t.elem = type.elem, a.t.extents = type.shape, a.t.layout = type.layout;
                        a.t.bytes =
                            static_cast<uint64_t>(fn->types().layout(type.layout).storage_bytes(extents_of(a.t), fn->types().format(type.elem).bits));
                        memory.emplace_back(a.t.bytes);
                        for (uint8_t& b : memory.back()) b = static_cast<uint8_t>(random());
                        a.t.data = memory.back().end() - a.t.bytes;
                    }
                    const std::vector<uint8_t> before(memory[1].begin(), memory[1].end());
                    ASSERT_EQ(interp::Program::prepare(*fn)->run(args, std::array<uint64_t, 3>{1, 1, 1}, {}).status, RunResult::ok);
                    const std::vector<uint8_t> expected(memory[1].begin(), memory[1].end());
                    std::copy(before.begin(), before.end(), memory[1].begin());
                    cpu::CompileOptions options = cpu::variant_options(*fn, written_params(*fn), args);
                    options.cpu = cpu;
                    ASSERT_NO_FATAL_FAILURE(run_native(*fn, options, args));
                    EXPECT_EQ(std::vector<uint8_t>(memory[1].begin(), memory[1].end()), expected);
                }
}

/// Rows and columns of the output lie over each other: of several values for one element the last one in the order of rows stays.
TEST_F(Nests, ElementsThatShareMemory) {
    const auto fn = w.parse(copy(" @ \"col\"", "", false, "i32", 20, 24));
    std::vector<int32_t> x(20 * 24), y[2];
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int32_t>(i);
    for (int native = 0; native < 2; ++native) {
        y[native].assign(20 * 24, -1);
        std::vector<Argument> args(2);
        for (size_t i = 0; i < 2; ++i) {
            const Type& type = fn->type(fn->params[i].value);
            args[i].kind = Argument::tensor, args[i].t.elem = type.elem, args[i].t.extents = type.shape, args[i].t.layout = type.layout;
            args[i].t.bytes = x.size() * 4;
        }
        args[0].t.data = x.data();
        args[1].t.data = y[native].data();
        args[1].t.strides[0] = 1;
        args[1].t.strides[1] = 2;
        args[1].t.has_strides = true;
        const cpu::CompileOptions options = cpu::variant_options(*fn, written_params(*fn), args);
        EXPECT_EQ(options.tensors[1].unit, -1);
        if (native)
            ASSERT_NO_FATAL_FAILURE(run_native(*fn, options, args));
        else
            ASSERT_EQ(interp::Program::prepare(*fn)->run(args, std::array<uint64_t, 3>{1, 1, 1}, {}).status, RunResult::ok);
    }
    EXPECT_EQ(y[1], y[0]);
}

}  // namespace
}  // namespace tegula::testing
