// Kernels of the CPU JIT equal the interpreter bit for bit where storage and order matter: random programs of tiles that are permuted, carried,
// swapped and overwritten, tensors that overlap, strides of every sign, elements outside of the storage, and pointers.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include "jit/cpu/arguments.h"
#include "jit/cpu/cpu.h"
#include "tests/unit/interp_fixture.h"

namespace tegula::testing {
namespace {

class CpuKernel : public ::testing::Test {
protected:
    World w;
    cpu::Backend backend;

    /// Runs both machines on copies of `memory`, where the arguments' data point into (as offsets), and compares all of it and what was reported.
    void compare(const std::string& text, std::vector<Argument> args, const std::vector<uint8_t>& memory, std::array<uint64_t, 3> grid = {1, 1, 1},
                 unsigned threads = 1) {
        if (text != text_) {
            programs_[0].reset();
            programs_[1].reset();
            fn_ = w.parse(text_ = text);
            programs_[0] = interp::Program::prepare(*fn_);
            programs_[1] = backend.prepare(*fn_);
        }
        std::vector<uint8_t> results[2] = {memory, memory};
        std::vector<std::string> reports[2];
        RunOptions options;
        options.threads = threads;
        for (int machine = 0; machine < 2; ++machine) {
            std::vector<Argument> own = args;
            for (Argument& a : own)
                if (a.kind != Argument::scalar) a.t.data = results[machine].data() + reinterpret_cast<uintptr_t>(a.t.data);
            const RunResult r = programs_[machine]->run(own, grid, options);
            for (const Diagnostic& d : r.diagnostics) reports[machine].push_back(d.message);
            reports[machine].push_back(std::to_string(r.status));
        }
        EXPECT_EQ(reports[1], reports[0]) << text;
        for (size_t i = 0; i < memory.size(); ++i) ASSERT_EQ(int{results[1][i]}, int{results[0][i]}) << "byte " << i << "\n" << text;
    }
    std::string text_;
    std::unique_ptr<ir::Function> fn_;
    std::unique_ptr<Program> programs_[2];  ///< interpreter, cpu; of `text_`

    static Argument at(uintptr_t offset, uint64_t bytes, FormatId elem, const Shape& extents) {
        Argument a;
        a.kind = Argument::tensor;
        a.t.elem = elem;
        a.t.data = reinterpret_cast<void*>(offset);
        a.t.bytes = bytes;
        a.t.extents = extents;
        return a;
    }
    static std::vector<uint8_t> noise(size_t bytes, uint64_t seed) {
        std::mt19937_64 rng(seed);
        std::vector<uint8_t> out(bytes);
        for (uint8_t& b : out) b = static_cast<uint8_t>(rng());
        return out;
    }
};

/// Random programs over [S, S] tiles of i32 and two tensors %x, %y that may be one memory.
class Programs {
public:
    Programs(uint64_t seed, int64_t size) : rng_(seed), s_(size), tile_("tile<i32>[" + std::to_string(size) + ", " + std::to_string(size) + "]") {}

    std::string text() {
        out_ = "kernel @k(%x: tensor<i32>[?, ?] inout, %y: tensor<i32>[?, ?] inout, %n: i64) {\n %z = constant 0 : i64\n %one = constant 1 : i64\n";
        std::vector<std::string> pool;
        load(pool);
        load(pool);
        body(pool, 14, 0);
        for (size_t i = pool.size() < 3 ? 0 : pool.size() - 3; i < pool.size(); ++i) store(pool[i]);
        return out_ + " ret\n}\n";
    }

private:
    uint64_t pick(uint64_t n) { return rng_() % n; }
    std::string fresh() { return "%v" + std::to_string(next_++); }
    const std::string& any(const std::vector<std::string>& pool) {
        return pool[pool.size() - 1 - std::min<uint64_t>(pick(4) + pick(4), pool.size() - 1)];
    }
    void line(const std::string& text) { out_ += " " + text + "\n"; }
    std::string place() {
        const std::string a = fresh(), b = fresh();
        line(a + " = constant " + std::to_string(static_cast<int64_t>(pick(7)) - 3) + " : i64");
        line(b + " = constant " + std::to_string(static_cast<int64_t>(pick(7)) - 3) + " : i64");
        const std::string e = " +: " + std::to_string(s_);
        return std::string(pick(2) ? "%x" : "%y") + "[" + a + e + ", " + b + e + (pick(4) ? "" : " step -1") + "]";
    }
    void load(std::vector<std::string>& pool) {
        const std::string at = place();
        pool.push_back(fresh());
        line(pool.back() + " = load " + at + " : " + tile_);
    }
    void store(const std::string& v) {
        const std::string at = place();
        line("store " + at + " = " + v);
    }
    void move(std::vector<std::string>& pool) {
        const std::string a = any(pool), v = fresh(), s = std::to_string(s_), all = std::to_string(s_ * s_);
        const std::string flat = "tile<i32>[" + all + "]";
        switch (pick(7)) {
            case 0:
                line(v + " = permute " + a + " {axis = [1, 0]} : " + tile_);
                break;
            case 1:
                line(v + " = slice " + a + " {start_step = [" + std::to_string(s_ - 1) + ", -1, 0, 1]} : " + tile_);
                break;
            case 2: {
                const std::string f = fresh(), r = fresh();
                line(f + " = reshape " + a + " : " + flat);
                line(r + " = slice " + f + " {start_step = [" + std::to_string(s_ * s_ - 1) + ", -1]} : " + flat);
                line(v + " = reshape " + r + " : " + tile_);
                break;
            }
            case 3: {
                const std::string r = fresh();
                line(r + " = reduce " + a + " {kind = sum, order = tree, axis = " + std::to_string(pick(2)) + "} : tile<i32>[" + s + "]");
                line(v + " = broadcast " + r + " : " + tile_);
                break;
            }
            case 4: {
                const std::string i = fresh();
                line(i + " = iota {axis = " + std::to_string(pick(2)) + "} : " + tile_);
                line(v + " = gather " + a + ", " + i + " {axis = " + std::to_string(pick(2)) + "} : " + tile_);
                break;
            }
            case 5: {
                const std::string b = any(pool);
                line(v + " = dot " + a + ", " + b + ", " + any(pool) + " {precision = ieee} : " + tile_);
                break;
            }
            default: {
                const std::string row = fresh();
                line(row + " = extract " + a + "[%one, %z +: " + s + "] : tile<i32>[" + s + "]");
                line(v + " = deposit " + any(pool) + "[%z, %one +: " + s + "] = " + row + " : " + tile_);
            }
        }
        pool.push_back(v);
    }
    void join(std::vector<std::string>& pool) {
        static const char* const ops[] = {"add", "sub", "mul", "bit_xor", "min", "max"};
        const std::string v = fresh();
        line(v + " = " + ops[pick(6)] + " " + any(pool) + ", " + any(pool) + " : " + tile_);
        pool.push_back(v);
    }
    void loop(std::vector<std::string>& pool, int depth) {
        const size_t n = 1 + pick(3);
        std::string results, inits, types, args;
        std::vector<std::string> inner = pool, made;
        const std::string i = fresh();
        args = i + ": i64";
        for (size_t k = 0; k < n; ++k) {
            made.push_back(fresh());
            results += (k ? ", " : "") + made.back();
            inits += ", " + any(pool);
            types += (k ? ", " : "") + tile_;
            inner.push_back(fresh());
            args += ", " + inner.back() + ": " + tile_;
        }
        line(results + " = for_loop %z, %n, %one" + inits + " : " + types + " (" + args + ") {");
        const std::vector<std::string> carried(inner.end() - static_cast<std::ptrdiff_t>(n), inner.end());
        body(inner, 5, depth + 1);
        std::string yields;
        for (size_t k = 0; k < n; ++k) yields += (k ? ", " : "") + (pick(4) ? any(inner) : carried[pick(n)]);
        line("yield " + yields);
        line("}");
        pool.insert(pool.end(), made.begin(), made.end());
    }
    void branch(std::vector<std::string>& pool, int depth) {
        const std::string c = fresh(), v = fresh(), u = fresh();
        line(c + " = " + (pick(2) ? "lt" : "gt") + " %n, %one : bool");
        line(v + ", " + u + " = if_else " + c + " : " + tile_ + ", " + tile_ + " {");
        for (int side = 0; side < 2; ++side) {
            std::vector<std::string> inner = pool;
            body(inner, 3, depth + 1);
            const std::string first = any(inner), second = any(inner);
            line("yield " + first + ", " + second);
            line(side ? "}" : "} {");
        }
        pool.push_back(v);
        pool.push_back(u);
    }
    void body(std::vector<std::string>& pool, int count, int depth) {
        for (int k = 0; k < count; ++k) switch (pick(8)) {
                case 0:
                    load(pool);
                    break;
                case 1:
                    store(any(pool));
                    break;
                case 2:
                    depth < 2 ? loop(pool, depth) : join(pool);
                    break;
                case 3:
                    depth < 2 ? branch(pool, depth) : move(pool);
                    break;
                case 4:
                case 5:
                    move(pool);
                    break;
                default:
                    join(pool);
            }
    }

    std::mt19937_64 rng_;
    int64_t s_;
    std::string tile_, out_;
    int next_ = 0;
};

TEST_F(CpuKernel, RandomProgramsOverOverlappingTensors) {
    for (uint64_t seed = 0; seed < 60; ++seed) {
        const int64_t size = seed % 3 == 0 ? 5 : seed % 3 == 1 ? 16 : 19;
        const std::string text = Programs(seed, size).text();
        const int64_t rows = size + 2, columns = size + 1;
        const auto bytes = static_cast<uint64_t>(rows * columns * 4);
        const auto memory = noise(3 * bytes, seed);
        // Apart, the same memory, and shifted by a few elements.
        const uintptr_t second = seed % 4 == 0 ? 0 : seed % 4 == 1 ? 12 : bytes;
        const Argument x = at(0, bytes, id_of(Fmt::i32), {rows, columns}), y = at(second, bytes, id_of(Fmt::i32), {rows, columns});
        for (int64_t n : {0, 1, 3}) compare(text, {x, y, scalar(static_cast<uint64_t>(n))}, memory);
        if (HasFatalFailure()) return;
    }
}

TEST_F(CpuKernel, StridesOfEverySignAndSize) {
    const std::string text =
        "kernel @k(%x: tensor<i16>[?, ?] in, %y: tensor<i16>[?, ?] out) {\n %z = constant -1 : i64\n %o = constant 0 : i64\n"
        " %e = constant 7 : tile<i16>[6, 21]\n %v = load %x[%z +: 6, %o +: 21] else %e : tile<i16>[6, 21]\n store %y[%o +: 6, %o +: 21] = %v\n "
        "ret\n}\n";
    const auto memory = noise(4096, 5);
    const int64_t strides[][2] = {{20, 1}, {1, 4}, {-20, 1}, {20, -1}, {0, 1}, {1, 0}, {0, 0}, {37, 3}, {-3, -7}};
    for (size_t i = 0; i < std::size(strides); ++i)
        for (size_t j : {size_t{0}, i * 2 % std::size(strides)}) {
            const auto &from = strides[i], &to = strides[j];
            Argument x = at(1000, 1000, id_of(Fmt::i16), {4, 20}), y = at(2600, 1000, id_of(Fmt::i16), {5, 19});
            // Views that stay inside, and such that leave their storage on either side.
            for (int which = 0; which < 2; ++which) {
                Argument& a = which ? y : x;
                a.t.has_strides = true;
                a.t.strides = {which ? to[0] : from[0], which ? to[1] : from[1]};
            }
            compare(text, {x, y}, memory);
            x.t.bytes = 40;
            compare(text, {x, y}, memory);
            y.t.bytes = 30;
            compare(text, {x, y}, memory);
            y.t.strides = {INT64_MAX / 2, INT64_MIN / 3};
            compare(text, {x, y}, memory);
        }
}

/// An element that the storage holds a part of only is outside of it, for loads and stores.
TEST_F(CpuKernel, StorageThatEndsWithinTheLastElement) {
    for (const auto& [elem, bits] : {std::pair("i16", 16u), std::pair("u13", 13u), std::pair("f64", 64u)}) {
        const std::string tensor = std::string("tensor<") + elem + ">[?]", tile = std::string("tile<") + elem + ">[21]";
        const std::string text = "kernel @k(%x: " + tensor + " in, %y: " + tensor +
                                 " out) {\n %z = constant 0 : i64\n %v = load %x[%z +: 21] : " + tile + "\n store %y[%z +: 21] = %v\n ret\n}\n";
        const auto fn = w.parse(text);
        const FormatId id = fn->type(fn->params[0].value).elem;
        const uint64_t whole = (21 * bits + 7) / 8, parts[] = {(20 * bits + 7) / 8, whole - 1};
        for (const uint64_t part : parts) {
            compare(text, {at(0, part, id, {21}), at(200, whole, id, {21})}, noise(400, 4));
            compare(text, {at(0, whole, id, {21}), at(200, part, id, {21})}, noise(400, 4));
        }
    }
}

TEST_F(CpuKernel, OneSharedByteIsAnOverlap) {
    const auto fn = w.parse("kernel @k(%x: tensor<u8>[?] in, %y: tensor<u8>[?] out) {\n ret\n}\n");
    uint8_t memory[30] = {};
    const auto tensor = [&](size_t from) { return at(reinterpret_cast<uintptr_t>(memory + from), 10, id_of(Fmt::u8), {10}); };
    for (size_t from = 0; from <= 20; ++from) {
        const std::vector<Argument> args = {tensor(10), tensor(from)};
        const bool shared = from > 0 && from < 20;
        EXPECT_EQ(cpu::variant_options(*fn, {false, true}, args).may_alias, shared) << from;
        EXPECT_EQ(cpu::variant_options(*fn, {true, false}, args).may_alias, shared) << from;
        EXPECT_FALSE(cpu::variant_options(*fn, {false, false}, args).may_alias) << "nothing is written; " << from;
    }
}

TEST_F(CpuKernel, LastOfSeveralWritersStays) {
    const std::string text =
        "kernel @k(%x: tensor<i64>[?] in, %y: tensor<u8>[?] out) {\n %z = constant 0 : i64\n %i = load %x[%z +: 70] : tile<i64>[70]\n"
        " %v = iota {axis = 0} : tile<u8>[70]\n store %y[gather %i] = %v\n ret\n}\n";
    std::vector<uint8_t> memory = noise(2000, 9);
    std::mt19937_64 rng(3);
    for (size_t i = 0; i < 70; ++i) {
        const int64_t index = static_cast<int64_t>(rng() % 14) - 2;
        std::memcpy(memory.data() + i * 8, &index, 8);
    }
    compare(text, {at(0, 560, id_of(Fmt::i64), {70}), at(600, 10, id_of(Fmt::u8), {10})}, memory);
}

TEST_F(CpuKernel, PackedElementsKeepTheirNeighbours) {
    for (const char* elem : {"i3", "u1", "bool", "i12", "u24", "i33", "f6e3m2"})
        for (const char* layout : {"", " @ \"col\""})
            for (int64_t step : {1, 2, -1}) {
                const std::string t = std::string("tile<") + elem + ">[5, 18]";
                const std::string tensor = std::string("tensor<") + elem + ">[?, ?]" + layout;
                const std::string text = "kernel @k(%x: " + tensor + " in, %y: " + tensor +
                                         " out) {\n %p = program_id {axis = 0} : i64\n %z = constant " + (step < 0 ? "16" : "1") +
                                         " : i64\n %v = load %x[%p +: 5, %z +: 18 step " + std::to_string(step) + "] : " + t +
                                         "\n store %y[%p +: 5, %z +: 18 step " + std::to_string(step) + "] = %v\n ret\n}\n";
                const uint64_t bytes = 20 * 20 * 8;
                const std::string spec = "kernel @k(%x: " + tensor + " in) {\n ret\n}\n";
                const auto fn = w.parse(spec);
                Argument x = at(0, bytes, fn->type(fn->params[0].value).elem, {7, 17}), y = at(bytes, bytes, x.t.elem, {7, 17});
                x.t.layout = y.t.layout = fn->type(fn->params[0].value).layout;
                compare(text, {x, y}, noise(2 * bytes, 1), {3, 1, 1});
                compare(text, {x, y}, noise(2 * bytes, 1), {3, 1, 1}, 3);
            }
}

TEST_F(CpuKernel, PointersThatReachAndThoseThatDoNot) {
    const std::string text =
        "kernel @k(%x: ptr<i16>, %y: tensor<i16>[?] out, %n: i64) {\n %i = iota {axis = 0} : tile<i64>[40]\n %s = broadcast %n : tile<i64>[40]\n"
        " %j = mul %i, %s : tile<i64>[40]\n %xb = broadcast %x : tile<ptr<i16>>[40]\n %p = ptr_add %xb, %j : tile<ptr<i16>>[40]\n"
        " %e = constant 7 : tile<i16>[40]\n %c = constant 33 : tile<i64>[40]\n %m = lt %i, %c : tile<bool>[40]\n"
        " %v = ptr_load %p, %m, %e {flags = 3} : tile<i16>[40]\n %t = tensor_ptr %y : ptr<i16>\n %tb = broadcast %t : tile<ptr<i16>>[40]\n"
        " %q = ptr_add %tb, %j : tile<ptr<i16>>[40]\n %w = select %m, %q, %p : tile<ptr<i16>>[40]\n ptr_store %w, %v, %m {flags = 2}\n"
        " %o = ptr_atomic %q, %v, %m {flags = 2, kind = add, order = relaxed, scope = gpu} : tile<i16>[40]\n"
        " %u = ptr_load %w {flags = 0} : tile<i16>[40]\n ptr_store %q, %u {flags = 0}\n ret\n}\n";
    for (int64_t n : {0, 1, 2, -1, 7}) {
        Argument x = at(0, 200, id_of(Fmt::i16), {100}), y = at(400, 200, id_of(Fmt::i16), {100});
        x.kind = Argument::pointer;
        compare(text, {x, y, scalar(static_cast<uint64_t>(n))}, noise(1000, 2));
    }
}

TEST_F(CpuKernel, TensorsOfMoreThanTwoToThe31Elements) {
    const uint64_t n = (uint64_t{1} << 31) + 4096;
    void* memory = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) GTEST_SKIP() << "no address space";
    auto* bytes = static_cast<uint8_t*>(memory);
    for (uint64_t i = n - 100; i < n; ++i) bytes[i] = static_cast<uint8_t>(i);
    const auto fn = w.parse(
        "kernel @k(%x: tensor<u8>[?, ?] inout, %i: i64) {\n %o = constant 0 : i64\n %v = load %x[%i, %o +: 33 step 2] : tile<u8>[33]\n"
        " %w = add %v, %v : tile<u8>[33]\n store %x[%i, %o +: 33 step 2] = %w\n ret\n}\n");
    Argument x;
    x.kind = Argument::tensor;
    x.t.elem = id_of(Fmt::u8);
    x.t.data = memory;
    x.t.bytes = n;
    x.t.extents = {static_cast<int64_t>(n / 64), 64};
    const std::array<uint64_t, 3> grid = {1, 1, 1};
    EXPECT_EQ(backend.prepare(*fn)->run({{x, scalar(n / 64 - 1)}}, grid, {}).status, RunResult::ok);
    for (uint64_t i = 0; i < 64; ++i) EXPECT_EQ(bytes[n - 64 + i], static_cast<uint8_t>((n - 64 + i) * (i % 2 ? 1 : 2))) << i;
    munmap(memory, n);
}

}  // namespace
}  // namespace tegula::testing
