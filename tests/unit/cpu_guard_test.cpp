// No access of native code leaves the storage of its tensors: kernels of random formats, shapes, places and layouts on tensors that begin or end
// where a page begins that may not be touched, and the interpreter's bits in all of their bytes. Seeds from the first on; TEGULA_GUARD_SEEDS=FROM:TO
// for others.
#include <cstdlib>

#include "jit/cpu/plan.h"
#include "lang/tensor_strides.h"
#include "lower/lower.h"
#include "tests/unit/bounds_values.h"
#include "tests/unit/interp_fixture.h"
#include "tests/unit/native_run.h"
#include "tests/unit/sample.h"

namespace tegula::testing {
namespace {

constexpr uint64_t kSeeds = test::is_sanitized() ? 25 : 100, kProofSeeds = test::is_sanitized() ? 10 : 40;

struct Random {
    std::mt19937_64 bits;
    int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }
    int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
    template <class T, size_t N>
    T of(const T (&all)[N]) {
        return all[below(N)];
    }
};

std::string dims(std::initializer_list<int64_t> all) {
    std::string out = "[";
    for (int64_t d : all) out += (out.size() > 1 ? ", " : "") + std::to_string(d);
    return out + "]";
}

std::string constant(const std::string& name, int64_t value) { return "  " + name + " = constant " + std::to_string(value) + " : i64\n"; }

/// Of a tensor core's registers, for 16 and 8 bits; tiles; rows in blocks, with padding; swizzled; tiles of odd height, which no vector fills.
constexpr const char* kDeclared[] = {
    "[2](i0 / 16, i1 / 64, ((i0 % 8) * 4) + ((i1 % 8) / 2), (((((i1 / 16) % 4) * 8) + ((i1 % 2) * 4)) + (((i0 / 8) % 2) * 2)) + ((i1 / 8) % 2))",
    "[2](i0 / 16, i1 / 64, ((i0 % 8) * 4) + ((i1 % 16) / 4), (((((i1 / 32) % 2) * 16) + (((i0 / 8) % 2) * 8)) + ((i1 % 4) * 2)) + ((i1 / 16) % 2))",
    "[2](i0 / 16, i1 / 64, i0 % 16, i1 % 64)",
    "[2](i1 / 32, i0, i1 % 32)",
    "[2](i0, i1 / 8, ((i1 % 2) * 4) + ((i1 / 2) % 4))",
    "[2](i0 / 8, i1 / 64, i0 % 8, ((((i1 % 64) / 8) ^ (i0 % 8)) * 8) + (i1 % 8))",
    "[2](i0 / 3, i1 / 8, i0 % 3, i1 % 8)"};

/// A tensor parameter, static or dynamic, of a layout.
std::string parameter(Random& r, const std::string& name, const std::string& f, const Shape& shape, const std::string& use) {
    const bool known = r.below(2);
    const auto extent = [&](size_t d) { return known ? std::to_string(shape[d]) : "?"; };
    return "%" + name + ": tensor<" + f + ">[" + extent(0) + ", " + extent(1) + "]" +
           (r.below(4)   ? ""
            : r.below(2) ? " @ \"col\""
                         : " @ \"" + std::string(r.of(kDeclared)) + "\"") +
           " " + use;
}

constexpr const char* kFormats[] = {"bool", "i2", "u3", "i4", "u5", "f6e3m2", "i7", "i8", "f8e4m3", "i12", "bf16", "f16", "f32", "i24", "i33", "f64"};

/// Parts of a matrix moved to parts of another, beyond all edges.
std::string moves(Random& r, std::vector<Shape>& shapes) {
    const std::string f = r.of(kFormats);
    shapes = {{r.between(1, 9), r.between(1, 150)}, {r.between(1, 9), r.between(1, 150)}};
    const int64_t rows = r.between(1, 5), columns = r.of({1, 3, 16, 17, 33, 64, 100, 130});
    const std::string tile = "tile<" + f + ">" + dims({rows, columns});
    const auto place = [&](const char* row, const char* column) {
        std::string out = "[" + std::string(row) + " +: " + std::to_string(rows) + ", " + column + " +: " + std::to_string(columns);
        const int64_t step = r.of({1, 1, 1, 1, 2, 3, -1, -2});
        return out + (step == 1 ? "]" : " step " + std::to_string(step) + "]");
    };
    std::string text = "kernel @k(" + parameter(r, "x", f, shapes[0], "in") + ", " + parameter(r, "y", f, shapes[1], "out") +
                       ") {\n  %0 = program_id {axis = 0} : i64\n" + constant("%1", r.between(-3, 3)) + constant("%2", r.between(-20, 120)) +
                       constant("%3", r.between(-20, 120)) + constant("%4", rows) + "  %5 = mul %0, %4 : i64\n  %6 = add %5, %1 : i64\n";
    text += "  %7 = load %x" + place("%6", "%2") + " : " + tile + "\n";
    return text + "  store %y" + place(r.below(2) ? "%5" : "%6", "%3") + " = %7\n  ret\n}\n";
}

/// Rows chosen by indices, some of them none.
std::string gathers(Random& r, std::vector<Shape>& shapes) {
    const std::string f = r.of(kFormats);
    shapes = {{r.between(1, 9), r.between(1, 90)}, {r.between(1, 9), r.between(1, 90)}};
    const int64_t n = r.of({1, 7, 16, 40, 64});
    const std::string size = dims({n}), i64s = "tile<i64>" + size;
    const bool along = r.below(2);
    const std::string from = along ? "[%0, gather %5]" : "[gather %5, %2]";
    return "kernel @k(" + parameter(r, "x", f, shapes[0], "in") + ", " + parameter(r, "y", f, shapes[1], "out") +
           ") {\n  %0 = program_id {axis = 0} : i64\n" + constant("%2", r.between(-1, 20)) + "  %3 = iota {axis = 0} : " + i64s +
           "\n  %4 = constant " + std::to_string(r.between(-3, 3)) + " : " + i64s + "\n  %7 = mul %3, %4 : " + i64s + "\n" +
           // Neighbours, or anything between -1 and the extent.
           (r.below(2) ? "  %5 = add %7, %3 : " + i64s
                       : "  %8 = constant " + std::to_string(shapes[0][along] + 2) + " : " + i64s + "\n  %9 = mul %7, %3 : " + i64s +
                             "\n  %10 = rem %9, %8 : " + i64s + "\n  %11 = constant 1 : " + i64s + "\n  %5 = sub %10, %11 : " + i64s) +
           "\n  %6 = load %x" + from + " : tile<" + f + ">" + size + "\n  store %y[%0, %2 +: " + std::to_string(n) + "] = %6\n  ret\n}\n";
}

/// Rows at any start and stride, of neighbours or not, through pointers; what would lie outside of the storage is masked, as a limit or otherwise.
std::string pointers(Random& r, std::vector<Shape>& shapes) {
    const std::string f = r.of({"i8", "bf16", "f16", "f32", "f64", "bool", "i12"});
    shapes = {{r.between(1, 400)}, {r.between(1, 900)}};
    const std::string size = dims({r.between(1, 3), r.of({1, 7, 16, 17, 33, 64, 100, 130})}), number = " : tile<i64>" + size + "\n",
                      mask = " : tile<bool>" + size + "\n", place = " : tile<ptr<" + f + ">>" + size + "\n";
    const auto all = [&](const std::string& name, int64_t value) { return "  " + name + " = constant " + std::to_string(value) + number; };
    const auto masked = [&](const std::string& name, const std::string& o, int64_t n) {
        return all(name + "n", n) + "  " + name + "l = ge " + o + ", %zero" + mask + "  " + name + "h = lt " + o + ", " + name + "n" + mask + "  " +
               name + " = bit_and " + name + "l, " + name + "h" + mask;
    };
    std::string text = "kernel @k(%x: ptr<" + f + ">, %y: ptr<" + f + ">) {\n  %g = program_id {axis = 0} : i64\n  %gb = broadcast %g" + number +
                       "  %i = iota {axis = 0}" + number + "  %j = iota {axis = 1}" + number + all("%zero", 0) + all("%start", r.between(-40, 80)) +
                       all("%pitch", r.of({0, 1, 40, 130, -7})) + all("%by", r.of({1, 1, 1, 1, 2, -1, 0})) + all("%to", r.between(-20, 60)) +
                       all("%rows", 3) + all("%row", r.of({130, 131, 200})) + all("%last", r.between(0, 130));
    text += "  %ip = mul %i, %pitch" + number + "  %jp = mul %j, %by" + number + "  %s0 = add %start, %ip" + number + "  %s = add %s0, %jp" + number;
    text += "  %r0 = mul %gb, %rows" + number + "  %r1 = add %r0, %i" + number + "  %r2 = mul %r1, %row" + number + "  %t0 = add %r2, %to" + number +
            "  %t = add %t0, %j" + number + masked("%sm", "%s", shapes[0][0]) + masked("%tm", "%t", shapes[1][0]);
    text += "  %few = le %j, %last" + mask + "  %even = ne %jp, %ip" + mask + "  %on = bit_and %sm, " + (r.below(2) ? "%few" : "%even") + mask;
    text += "  %xb = broadcast %x" + place + "  %p = ptr_add %xb, %s" + place + "  %yb = broadcast %y" + place + "  %q = ptr_add %yb, %t" + place;
    return text + "  %v = ptr_load %p, %on {flags = 2} : tile<" + f + ">" + size + "\n  ptr_store %q, %v, %tm {flags = 2}\n  ret\n}\n";
}

/// Products of narrow and wide operands over stretches of k that reach out of the tensors.
std::string products(Random& r, std::vector<Shape>& shapes) {
    struct Chain {
        const char *a, *b, *c;
    };
    static constexpr Chain kChains[] = {{"f32", "f32", "f32"}, {"bf16", "bf16", "f32"}, {"f16", "i4", "f32"},  {"i8", "i8", "i32"},
                                        {"u8", "i8", "i32"},   {"i16", "u4", "i32"},    {"f32", "u3", "f32"},  {"f32", "f6e3m2", "f32"},
                                        {"bf16", "i7", "f32"}, {"f32", "u1", "f32"},    {"f64", "f32", "f64"}, {"f16", "f8e4m3", "f32"},
                                        {"f16", "i12", "f32"}, {"bf16", "u5", "f32"},   {"f32", "i9", "f32"}};
    const Chain t = r.of(kChains);
    const int64_t m = r.of({1, 2, 3, 4, 8, 17, 33}), n = r.of({1, 5, 16, 33, 64, 100}), k = r.of({1, 7, 16, 33, 64, 100, 130}),
                  step = r.of({4, 16, 32, 48, 64, 130, 200});
    const bool turned = r.below(2);
    const int64_t start = r.of({0, 0, -3, 5});
    const auto tile = [](const char* f, const std::string& d) { return " : tile<" + std::string(f) + ">" + d + "\n"; };
    shapes = {{m, k}, turned ? Shape{n, k} : Shape{k, n}, {m, n}};
    const auto part = [](const std::string& x, int64_t rows, const std::string& y, int64_t columns) {
        return "[" + x + " +: " + std::to_string(rows) + ", " + y + " +: " + std::to_string(columns) + "]";
    };
    // The tiles may be larger than the tensors, too.
    const int64_t tm = m + r.below(3), tn = n + r.of({0, 0, 3, 20});
    const std::string c = dims({tm, tn});
    std::string text = "kernel @k(" + parameter(r, "a", t.a, shapes[0], "in") + ", " + parameter(r, "b", t.b, shapes[1], "in") + ", " +
                       parameter(r, "c", t.c, shapes[2], "inout") + ") {\n" + constant("%0", 0) + constant("%1", k) + constant("%2", step) +
                       constant("%10", start) + "  %3 = load %c" + part("%0", tm, "%0", tn) + tile(t.c, c) +
                       "  %4 = for_loop %10, %1, %2, %3 : tile<" + t.c + ">" + c + " (%5: i64, %6: tile<" + t.c + ">" + c + ") {\n    %7 = load %a" +
                       part("%0", tm, "%5", step) + tile(t.a, dims({tm, step}));
    if (turned)
        text += "    %11 = load %b" + part("%0", tn, "%5", step) + tile(t.b, dims({tn, step})) + "    %8 = permute %11 {axis = [1, 0]}" +
                tile(t.b, dims({step, tn}));
    else
        text += "    %8 = load %b" + part("%5", step, "%0", tn) + tile(t.b, dims({step, tn}));
    return text + "    %9 = dot %7, %8, %6 {precision = ieee}" + tile(t.c, c) + "    yield %9\n  }\n  store %c" + part("%0", tm, "%0", tn) +
           " = %4\n  ret\n}\n";
}

/// Where tensors lie in their guarded memory.
enum class Lies { first, last, odd };

struct Run {
    std::vector<std::unique_ptr<Guarded>> memory;
    std::vector<Argument> args;

    Run(World& w, const ir::Function& fn, const std::vector<Shape>& shapes, const std::vector<std::vector<int64_t>>& gaps, Lies lies, uint64_t seed) {
        for (size_t i = 0; i < shapes.size(); ++i) {
            const Type& type = fn.type(fn.params[i].value);
            const Format& f = fn.types().format(type.elem);
            Argument a;
            a.kind = type.pointer ? Argument::pointer : Argument::tensor;
            a.t.elem = type.elem;
            a.t.layout = type.layout;
            a.t.extents = shapes[i];
            const Layout& layout = w.types.layout(type.layout);
            if (type.pointer) {
                a.t.bytes = (static_cast<uint64_t>(shapes[i][0]) * f.bits + 7) / 8;
            } else if (gaps[i].empty() || f.bits % 8 != 0) {
                a.t.bytes = static_cast<uint64_t>(layout.storage_bytes(extents_of(a.t), f.bits));
            } else {
                a.t.has_strides = true;
                int64_t last = 0;
                for (size_t d = 0; d < shapes[i].rank; ++d) a.t.strides[d] = gaps[i][d], last += gaps[i][d] * (shapes[i][d] - 1);
                a.t.bytes = (static_cast<uint64_t>(last + 1) * f.bits + 7) / 8;
            }
            memory.push_back(std::make_unique<Guarded>(a.t.bytes + 64));
            uint8_t *from = memory.back()->begin(), *to = memory.back()->end();
            std::mt19937_64 random(seed + i);
            for (uint8_t* b = from; b < to; ++b) *b = static_cast<uint8_t>(random());
            a.t.data = lies == Lies::first ? from : lies == Lies::last ? to - a.t.bytes : from + f.container_bytes();
            args.push_back(a);
        }
    }
};

void check(uint64_t seed) {
    Random r{std::mt19937_64(seed)};
    World w;
    std::vector<Shape> shapes;
    const int64_t kind = r.below(5);
    const std::string text = kind == 0 ? gathers(r, shapes) : kind == 1 ? moves(r, shapes) : kind == 2 ? pointers(r, shapes) : products(r, shapes);
    const uint64_t programs = kind < 3 ? 4 : 1;
    const auto fn = w.parse(text);
    // Some tensors are views whose rows lie further apart, or whose elements do.
    std::vector<std::vector<int64_t>> gaps(shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
        if (kind == 2 || r.below(4)) continue;
        const int64_t between = r.of({1, 1, 2}), pitch = shapes[i][1] * between + r.between(0, 9);
        gaps[i] = {pitch, between};
        if (r.below(3) == 0) gaps[i] = {between, shapes[i][0] * between + r.between(0, 9)};
    }
    const bool streams = r.below(2);
    static const bool has_v4 = cpu::Compiler().target().features.find("+avx512bw,") != std::string::npos;
    const char* cpu = r.of({"", "", has_v4 ? "x86-64-v4" : "x86-64-v3", "x86-64-v3", "x86-64"});
    for (const Lies lies : {Lies::first, Lies::last, Lies::odd}) {
        SCOPED_TRACE("seed " + std::to_string(seed) + (streams ? ", streamed" : "") + " for \"" + cpu + "\", place " +
                     std::to_string(static_cast<int>(lies)) + "\n" + text);
        Run expected(w, *fn, shapes, gaps, lies, seed), got(w, *fn, shapes, gaps, lies, seed);
        ASSERT_EQ(interp::Program::prepare(*fn)->run(expected.args, {{programs, 1, 1}}, {}).status, RunResult::ok);
        cpu::CompileOptions options = cpu::variant_options(*fn, written_params(*fn), got.args);
        if (streams) cpu::mark_streamed(*fn, cpu::streamable_params(*fn), got.args, 0, options);
        options.cpu = cpu;
        ASSERT_NO_FATAL_FAILURE(run_native(*fn, options, got.args, {programs, 1, 1}));
        for (size_t i = 0; i < shapes.size(); ++i)
            ASSERT_TRUE(std::equal(got.memory[i]->begin(), got.memory[i]->end(), expected.memory[i]->begin())) << "parameter " << i;
    }
}

/// The kernel with what the passes proved of its accesses, against the kernel as it was written, on launches that the facts allow.
void check_proofs(uint64_t seed) {
    const IndexProgram program(seed, true);
    World w;
    const auto written = w.parse(program.text), passed = w.parse(program.text);
    PassOptions options;
    static_cast<LaunchFacts&>(options) = program.facts;
    run_passes(*passed, options);
    Draw r(seed);
    for (const bool last : {false, true}) {
        Launch launch = draw_launch(r, *written, program.facts, true);
        const auto& grid = launch.grid;
        if (grid[0] * grid[1] * grid[2] < 1 || grid[0] * grid[1] * grid[2] > 64) continue;
        bool ends = true;  // soon
        for (int64_t p = 0; p < grid[0] * grid[1] * grid[2]; ++p) {
            launch.program = {p % grid[0], p / grid[0] % grid[1], p / grid[0] / grid[1]};
            ends = ends && Evaluator(*written, launch, seed).run([](ir::InstId) {});
        }
        if (!ends) continue;
        std::vector<std::unique_ptr<Guarded>> memory[2];
        std::vector<Argument> args[2];
        for (size_t side = 0; side < 2; ++side)
            for (const ir::Param& p : written->params) {
                Argument a;
                if (p.kind == ir::Param::scalar || p.kind == ir::Param::extent) {
                    a.code = static_cast<uint64_t>(launch.numbers[p.name]);
                } else {
                    const Type& type = written->type(p.value);
                    a.kind = p.kind == ir::Param::pointer ? Argument::pointer : Argument::tensor;
                    a.t.elem = type.elem;
                    for (size_t d = 0; a.kind == Argument::tensor && d < type.shape.rank; ++d)
                        a.t.extents.push(type.shape[d] == kDynamic ? launch.extents[p.name][d] : type.shape[d]);
                    if (a.kind == Argument::pointer) a.t.extents.push(launch.numbers["M"]);
                    a.t.bytes = static_cast<uint64_t>(a.t.extents.elements()) * 8;
                    memory[side].push_back(std::make_unique<Guarded>(a.t.bytes));
                    uint8_t *from = memory[side].back()->begin(), *to = memory[side].back()->end();
                    std::mt19937_64 random(seed + memory[side].size());
                    for (uint8_t* b = from; b < to; ++b) *b = static_cast<uint8_t>(random());
                    a.t.data = last ? to - a.t.bytes : from;
                }
                args[side].push_back(a);
            }
        std::string numbers;
        for (const auto& [name, value] : launch.numbers) numbers += name + " = " + std::to_string(value) + " ";
        SCOPED_TRACE("seed " + std::to_string(seed) + ", " + numbers + "\n" + program.text);
        const std::array<uint64_t, 3> programs = {static_cast<uint64_t>(grid[0]), static_cast<uint64_t>(grid[1]), static_cast<uint64_t>(grid[2])};
        ASSERT_EQ(interp::Program::prepare(*written)->run(args[0], programs, {}).status, RunResult::ok);
        ASSERT_NO_FATAL_FAILURE(run_native(*passed, cpu::variant_options(*passed, written_params(*passed), args[1]), args[1], programs));
        for (size_t i = 0; i < memory[0].size(); ++i)
            ASSERT_TRUE(std::equal(memory[0][i]->begin(), memory[0][i]->end(), memory[1][i]->begin())) << "memory " << i;
    }
}

/// Seeds from the first on, or those of the environment.
void each_seed(uint64_t count, void (*check)(uint64_t seed)) {
    uint64_t from = 0, to = count;
    if (const char* seeds = std::getenv("TEGULA_GUARD_SEEDS")) {
        char* colon = nullptr;
        from = std::strtoull(seeds, &colon, 10);
        to = *colon ? std::strtoull(colon + 1, nullptr, 10) : from + 1;
    }
    for (uint64_t seed = from; seed < to; ++seed) {
        ASSERT_NO_FATAL_FAILURE(check(seed));
    }
}

TEST(CpuGuard, NothingOutsideOfTensorsIsTouched) { each_seed(kSeeds, check); }

TEST(CpuGuard, WhatIsProvedOfAccessesHolds) { each_seed(test::is_long() ? 3000 : kProofSeeds, check_proofs); }

}  // namespace
}  // namespace tegula::testing
