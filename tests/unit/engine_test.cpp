// What the engine says to wrong programs, host statements and launches: one row per diagnostic, with the smallest program that earns it and
// nothing besides. Loading, instances and IR text are driven as the C ABI and the passes' tests drive them.
#include "jit/engine/engine.h"

#include <gtest/gtest.h>

#include "jit/engine/host.h"
#include "lang/ir_text.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

std::string codes(const std::vector<Diagnostic>& diags) {
    std::string text;
    for (const Diagnostic& d : diags) text += (text.empty() ? "" : " ") + std::string(diag_row(d.id).code);
    return text;
}

/// The codes that loading `text` and running its tests gives, in order.
std::string run(const std::string& text, EngineOptions options = {}) {
    const auto engine = Engine::create(std::move(options));
    DiagSink diags;
    const ModulePtr module = engine->load("t.tile", text, "", diags);
    if (!module) return codes(diags.all());
    std::string out;
    LaunchOptions launch;
    launch.checked = true;
    launch.threads = 1;
    run_tests(*engine, *module, "", launch, [&](TestResult& r) { out += (out.empty() ? "" : " ") + codes(r.diagnostics); });
    return out;
}

std::string test_block(const std::string& body) {
    return "kernel k<B: int = 4>(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [1] { y[0 +: B] = x[0 +: B]; }\ntest \"t\" { " + body + " }\n";
}

struct Row {
    const char* codes;
    const char* text;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.codes << " " << row.text; }

// ---- host statements ----

class HostStatement : public testing::TestWithParam<Row> {};
TEST_P(HostStatement, Says) { EXPECT_EQ(run(test_block(GetParam().text)), GetParam().codes) << GetParam().text; }
INSTANTIATE_TEST_SUITE_P(
    All, HostStatement,
    testing::Values(Row{"", "let x = ones<f32>[3]; k(x, empty<f32>[3]);"}, Row{"T1020", "var x = 1; x += 1;"},
                    Row{"T1020", "var x = ones<f32>[3]; x[0] = 2.0;"}, Row{"T0228", "nowhere = 3;"}, Row{"T1022", "let (a, b) = (1, 2, 3);"},
                    Row{"T1022", "let (a, b) = 5;"}, Row{"T1023", "if 3 { }"}, Row{"T1023", "let x = arange<f32>[0] + 1.0;"},
                    Row{"T1023", "print(sum(rand<f32>[2, 0]));"}, Row{"T1023", "for i in 0 .. 1.5 { }"}, Row{"T1023", "for i in 7 { }"},
                    Row{"T1024", "for i in 0 .. 5 step 0 { }"}, Row{"T1024", "for i in 0 .. 100000000 { }"},
                    Row{"T1026", "let x = empty<f32>[3]; assert_equal(x, x);"}, Row{"T0501", "let x = zeros<f32>[3] @ strides(0);"},
                    Row{"T1027", "let x = empty<f64>[1000000, 1000000];"}, Row{"T1028", "assert_equal(ones<f32>[3], zeros<f32>[3]);"},
                    Row{"T1028", "assert_close(1.0, 1.1, atol = 0.05);"},
                    Row{"T1028", "assert_equal(tile_of<i64>([9007199254740993]), tile_of<i64>([9007199254740992]));"},
                    Row{"T1029", "assert_equal(ones<f32>[3], ones<f32>[4]);"}, Row{"T1031", "assert_fails(k(ones<f32>[3], empty<f32>[3]));"},
                    Row{"T1031", "assert_fails(k(ones<f32>[3], empty<f32>[4]), \"no such text\");"}, Row{"T1032", "let x = randint<i8>[3](5, 5);"},
                    Row{"T1032", "let x = randn<f32>(seed = 1);"}, Row{"T1033", "let x = load_npy(\"x.npy\");"},
                    Row{"T1033", "let x = load_safetensors(\"x.safetensors\", \"w\");"}, Row{"T0911", "assert(all(ones<f32>[3] == 2.0));"},
                    Row{"T1023", "assert(1);"}, Row{"T1023", "assert(ones<f32>[3]);"}, Row{"T1026", "print((1, empty<f32>[3]));"},
                    Row{"T0317", "print(\"{} {}\", 1);"}, Row{"T0317", "print(\"{{}\", 1);"}));

/// Leaves letters on the stack where the next calls put their buffers.
[[gnu::noinline]] void litter() {
    volatile char used[8192];
    for (volatile char& c : used) c = 'e';
}

TEST(engine, text_of_numbers_is_their_digits_alone) {
    TypeTable types;
    TileData tile{id_of(Fmt::f32), Shape{}, {}};
    tile.shape.push(2);
    for (float v : {6.5f, -1.25f}) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(&v);
        tile.bytes.insert(tile.bytes.end(), bytes, bytes + sizeof v);
    }
    litter();
    EXPECT_NE(tile_text(types, tile).find("[ 6.5   -1.25]"), std::string::npos) << tile_text(types, tile);
}

TEST(HostStatements, DeepExpressions) {
    std::string deep = "1";
    for (int i = 0; i < 240; ++i) deep = "(" + deep + ", 1)";
    EXPECT_EQ(run(test_block("let x = " + deep + ";")), "T1025");
}

// Nested calls of host functions in one expression must not lose each other's operands.
TEST(HostStatements, SeveralHostCallsInOneExpression) {
    EXPECT_EQ(run(test_block("assert(sum(full<f32>[7](1.0) + arange<f32>[7](start = 0, step = 1)) == 28.0 && all(arange<f32>[3](step = 2) < 5.0));")),
              "");
}

// ---- launches ----

class Launch : public testing::TestWithParam<Row> {};
TEST_P(Launch, Says) { EXPECT_EQ(run(test_block(GetParam().text)), GetParam().codes) << GetParam().text; }
INSTANTIATE_TEST_SUITE_P(All, Launch,
                         testing::Values(Row{"", "k(y = empty<f32>[3], x = ones<f32>[3]);"}, Row{"T0850", "k(ones<f32>[3], empty<f32>[3], z = 1);"},
                                         Row{"T0204", "k(ones<f32>[3], empty<f32>[3], 7);"},
                                         Row{"T0851", "k(ones<f32>[3], empty<f32>[3], x = ones<f32>[3]);"},
                                         Row{"T0852", "k<C = 3>(ones<f32>[3], empty<f32>[3]);"}, Row{"T0801", "k(ones<f32>[3], empty<f32>[4]);"}));

// ---- compile-time limits and rules of instances ----

class Instance : public testing::TestWithParam<Row> {};
TEST_P(Instance, Says) { EXPECT_EQ(run(GetParam().text), GetParam().codes) << GetParam().text; }
INSTANTIATE_TEST_SUITE_P(
    All, Instance,
    testing::Values(
        Row{"T0212", "fn f<T: float>(x: T) -> T { return x; }\ntest \"t\" { let y = f(iota<i8>[3]); }"},
        Row{"T0501",
            "layout bad[i: M, j: N] = (i + j,);\nkernel k(x: tensor<f32>[M, N] @ bad) grid [1] { }\ntest \"t\" { k(zeros<f32>[2, 2] @ bad); }"},
        Row{"T0605",
            "kernel big(inout y: tensor<i64>[1]) grid [1] { var v = y[0]; "
            "for const i in 0 .. 30000 { v = v * v + v * v + v * v + v * v + v * v + v * v + v * v + v * v + v * v + v * v + v * v + v * v + v * v + "
            "v * v + v * v + v * v + v * v + v * v + v * v + v * v; } y[0] = v; }\ntest \"t\" { big(zeros<i64>[1]); }"}));

// Hosts bind generics first, which finds most contradictions; whoever compiles directly gets this one.
TEST(Instances, ThatContradictTheirKernel) {
    const auto engine = Engine::create({});
    DiagSink diags;
    const ModulePtr module = engine->load("t.tile", "kernel k<B: int>(x: tensor<f32>[N]) grid [1] where B % 2 == 0 { }", "", diags);
    ASSERT_TRUE(module);
    EXPECT_TRUE(engine->compile(*module, *module->kernel("k"), {{"B", {int64_t{4}}}}, {}, diags));
    EXPECT_FALSE(engine->compile(*module, *module->kernel("k"), {{"B", {int64_t{3}}}}, {}, diags));
    EXPECT_EQ(codes(diags.take()), "T0607");
}

TEST(Instances, EarlyExitsNestTheIrSoFarOnly) {
    std::string text = "kernel k(x: tensor<i64>[N], out y: tensor<i64>[N]) grid [1] { let v = x[0]; ";
    for (int i = 0; i < 300; ++i) text += "if v == " + std::to_string(i) + " { return; } ";
    EXPECT_EQ(run(text + "y[0] = v; }\ntest \"t\" { k(zeros<i64>[3], empty<i64>[3]); }"), "T0603");
}

TEST(Instances, OneModuleKeepsABoundedNumber) {
    EXPECT_EQ(run("kernel k<B: int>(x: tensor<i8>[1]) grid [1] { }\ntest \"t\" { let x = zeros<i8>[1]; for i in 0 .. 10001 { k<B = i>(x); } }"),
              "T0690");
}

// ---- modules ----

EngineOptions with_files(std::map<std::string, std::string> files) {
    EngineOptions options;
    options.importer = [files = std::move(files)](std::string_view path) -> std::optional<std::string> {
        const auto it = files.find(std::string(path));
        return it == files.end() ? std::nullopt : std::optional(it->second);
    };
    return options;
}

TEST(Imports, Work) {
    EXPECT_EQ(run("import \"a.tile\" as a;\ntest \"t\" { assert(a.two() == 2); }", with_files({{"a.tile", "fn two() -> i64 { return 2; }"}})), "");
}

TEST(Imports, ThatLeadNowhere) {
    EXPECT_EQ(run("import \"b.tile\" as b;", with_files({})), "T0250");
    EXPECT_EQ(run("import std.nowhere;"), "T0250");
}

TEST(Imports, InACircle) {
    EXPECT_EQ(run("import \"a.tile\" as a;", with_files({{"a.tile", "import \"b.tile\" as b;"}, {"b.tile", "import \"a.tile\" as a;"}})), "T0251");
}

TEST(Imports, ThatLeaveTheRoot) {
    for (const char* path : {"../a.tile", "/a.tile", "x/./a.tile", "x//a.tile", ""})
        EXPECT_EQ(run("import \"" + std::string(path) + "\" as a;", with_files({})), "T0252") << path;
}

TEST(Imports, TooDeep) {
    EngineOptions options;
    options.importer = [](std::string_view path) -> std::optional<std::string> {
        return "import \"" + std::to_string(std::stoi(std::string(path)) + 1) + ".tile\" as next;";
    };
    EXPECT_EQ(run("import \"0.tile\" as a;", options), "T0253");
}

// ---- what a host asks for ----

TEST(Engine, UnknownKernelsPassesAndStages) {
    const auto engine = Engine::create({});
    DiagSink diags;
    const ModulePtr module = engine->load("t.tile", test_block(""), "", diags);
    ASSERT_TRUE(module);
    EXPECT_EQ(engine->find_kernel(*module, "q", diags).second, nullptr);
    EXPECT_EQ(codes(diags.take()), "T1000");
    EXPECT_FALSE(engine->check_passes({"fold", "gold"}, diags));
    EXPECT_EQ(codes(diags.take()), "T1001");
    EXPECT_FALSE(engine->artifact(*module, "smell", diags));
    EXPECT_EQ(codes(diags.take()), "T1002");
}

TEST(Engine, InstancesWithOtherPassesAreOthers) {
    const auto engine = Engine::create({});
    DiagSink diags;
    const ModulePtr module = engine->load("t.tile", test_block(""), "", diags);
    ASSERT_TRUE(module);
    Status status = Status::ok;
    const auto all = engine->compile_named(*module, "k", {}, {}, diags, status),
               none = engine->compile_named(*module, "k", {}, {"all"}, diags, status);
    EXPECT_TRUE(all && none && all != none);
    EXPECT_EQ(engine->compile_named(*module, "k", {}, {"all"}, diags, status), none);
}

TEST(Engine, ABugOfOursEndsOneTestOnly) {
    EngineOptions options;
    int calls = 0;
    options.on_elaborated = [&](const ir::Function&) {
        if (++calls == 1) throw InternalError("test");
    };
    EXPECT_EQ(run(test_block("let x = ones<f32>[3];") + "test \"u\" { let x = ones<f32>[3]; }", options), "T1070 ");
}

/// A machine whose launches write nothing but zeros, in some bytes.
class WrongMachine : public Machine {
public:
    std::string name() const override { return "wrong"; }
    std::string missing() override { return {}; }
    const Arch& arch(int, void*) override { return *find_arch("sm_90a"); }
    std::unique_ptr<Program> prepare(const sema::Instance&, const std::vector<std::string>&) override {
        struct Zeros : Program {
            RunResult run(std::span<const Argument> args, std::span<const uint64_t, 3>, const RunOptions&) const override {
                for (const Argument& a : args)
                    if (a.kind == Argument::tensor) std::fill_n(static_cast<uint8_t*>(a.t.data), a.t.bytes, uint8_t{0});
                return {};
            }
        };
        return std::make_unique<Zeros>();
    }
    std::unique_ptr<PreparedLaunch> prepare_launch(const Program&, std::span<const Argument>, std::span<const uint64_t, 3>, void*,
                                                   const std::atomic<bool>*, DiagSink&, std::string&) override {
        return nullptr;
    }
    std::optional<std::string> artifact(const sema::Instance&, const std::vector<std::string>&, std::string_view, const Arch*,
                                        const std::atomic<bool>*, DiagSink&) override {
        return std::nullopt;
    }
    GpuOptions form_options(const sema::Instance& instance, const std::vector<std::string>& disabled, const Program&, std::span<const Argument>,
                            void*) override {
        return gpu_options(instance, arch(-1, nullptr), disabled);
    }
    std::string describe() override { return "{}"; }
};

TEST(Engine, AMachineThatDiffersIsReported) {
    EngineOptions options;
    options.cuda = [](const MachineContext&) { return std::make_unique<WrongMachine>(); };
    auto engine = Engine::create(options);
    DiagSink diags;
    auto module = engine->load("m.tile",
                               "kernel one(out y: tensor<f32>[N]) grid [1] { y[0 +: 8] = ones<f32>[8]; }\n"
                               "test \"t\" { one(empty<f32>[8]); }\ntest \"u\" { let x = ones<f32>[3] + 1.0; }",
                               "", diags);
    ASSERT_TRUE(module);
    LaunchOptions launch;
    ASSERT_TRUE(engine->find_machine("cuda", launch.machine, diags));
    launch.compare = true;
    int differ = 0;
    EXPECT_EQ(run_tests(*engine, *module, "", launch,
                        [&](TestResult& r) {
                            EXPECT_EQ(r.status, Status::mismatch) << r.name;
                            for (const Diagnostic& d : r.diagnostics) differ += std::string_view(diag_row(d.id).code) == "T1034";
                        }),
              Status::mismatch);
    EXPECT_EQ(differ, 2);
}

/// What a machine has to say comes with the launch that made it speak, once.
TEST(Engine, AMachinesWarningIsShownOnce) {
    struct Warning : WrongMachine {
        int asked = 0;
        std::string take_warning() override { return asked++ ? std::string() : "the cache is not used"; }
    };
    EngineOptions options;
    options.cuda = [](const MachineContext&) { return std::make_unique<Warning>(); };
    auto engine = Engine::create(options);
    DiagSink diags;
    auto module = engine->load("m.tile",
                               "kernel one(out y: tensor<f32>[N]) grid [1] { y[0 +: 8] = zeros<f32>[8]; }\n"
                               "test \"t\" { one(empty<f32>[8]); one(empty<f32>[8]); }",
                               "", diags);
    ASSERT_TRUE(module);
    LaunchOptions launch;
    ASSERT_TRUE(engine->find_machine("cuda", launch.machine, diags));
    EXPECT_EQ(run_tests(*engine, *module, "", launch,
                        [&](TestResult& r) {
                            EXPECT_EQ(codes(r.diagnostics), "T1044");
                            ASSERT_EQ(r.diagnostics.size(), 1u);
                            EXPECT_EQ(r.diagnostics[0].severity, Severity::warning);
                            EXPECT_EQ(r.diagnostics[0].message, "the cache is not used");
                        }),
              Status::ok);
}

/// Nobody named a machine: every test runs on all that are here and says which one it failed on; expressions are the interpreter's.
TEST(Engine, TestsWithoutAMachineRunOnAll) {
    EngineOptions options;
    options.cuda = [](const MachineContext&) { return std::make_unique<WrongMachine>(); };
    auto engine = Engine::create(options);
    const bool native = engine->cpu().missing().empty();
    EXPECT_EQ(engine->machines().size(), native ? 2u : 1u);
    DiagSink diags;
    auto module = engine->load("m.tile",
                               "kernel zero(out y: tensor<f32>[N]) grid [1] { y[0 +: 8] = zeros<f32>[8]; }\n"
                               "kernel one(out y: tensor<f32>[N]) grid [1] { y[0 +: 8] = ones<f32>[8]; print(\"one\"); }\n"
                               "test \"both\" { let y = full<f32>[8](2.0); zero(y); assert_equal(y + 1.0, ones<f32>[8]); print(\"said\"); }\n"
                               "test \"differs\" { one(empty<f32>[8]); }",
                               "", diags);
    ASSERT_TRUE(module);
    std::string text;
    LaunchOptions launch;
    launch.unnamed = launch.compare = true;
    launch.compare_expressions = false;
    launch.print = [&](std::string_view line) { text += line; };
    const auto report = [&](TestResult& r) {
        EXPECT_EQ(r.status, r.name == "both" ? Status::ok : Status::mismatch) << r.name;
        if (r.name == "both" || !native) return;
        ASSERT_EQ(r.diagnostics.size(), 1u);
        ASSERT_FALSE(r.diagnostics[0].notes.empty());
        EXPECT_EQ(r.diagnostics[0].notes.back().text, "on the machine `wrong`");
    };
    EXPECT_EQ(run_tests(*engine, *module, "", launch, report), Status::mismatch);
    EXPECT_EQ(text, "said\n") << "a test says it once, and the machine `wrong` cannot print";
}

/// `auto` asks for hardware before it looks for anything that takes time.
TEST(Engine, AutoLooksForHardwareFirst) {
    struct Absent : WrongMachine {
        bool present() override { return false; }
        std::string missing() override { return ADD_FAILURE() << "looked for the compiler", std::string(); }
    };
    EngineOptions options;
    options.cuda = [](const MachineContext&) { return std::make_unique<Absent>(); };
    auto engine = Engine::create(options);
    DiagSink diags;
    Machine* machine = nullptr;
    EXPECT_TRUE(engine->find_machine("auto", machine, diags));
    EXPECT_EQ(machine, engine->cpu().missing().empty() ? &engine->cpu() : nullptr) << "native code where the library has it, else the interpreter";
}

/// The interpreter sums an fp8 product as the row of the form does that is compiled, also where that form had to do without wgmma.
TEST(Engine, TheModelHasTheRowsOfTheForm) {
    SourceMap sources;
    TypeTable types;
    DiagSink diags;
    const auto fn =
        ir::parse_ir(sources,
                     sources.add("t.ir",
                                 "kernel @f(%a: tensor<f8e4m3>[64, 32] in, %b: tensor<f8e4m3>[32, 8] in, %c: tensor<f32>[64, 8] inout) {\n"
                                 "  %0 = load %a[:, :] : tile<f8e4m3>[64, 32]\n  %1 = load %b[:, :] : tile<f8e4m3>[32, 8]\n"
                                 "  %2 = load %c[:, :] : tile<f32>[64, 8]\n"
                                 "  %3 = dot %0, %1, %2 {precision = ieee} : tile<f32>[64, 8]\n  store %c[:, :] = %3\n  ret\n}\n"),
                     types, diags);
    ASSERT_TRUE(fn);
    const auto sum = [&](std::vector<std::string> disabled) {
        GpuOptions options;
        options.arch = find_arch("sm_90a");
        options.disabled = std::move(disabled);
        const TensorCoreModel model = model_of(*fn, *fn, options);
        const Format& f8 = types.format(id_of(Fmt::f8e4m3));
        std::vector<uint8_t> a(64 * 32, static_cast<uint8_t>(encode(f8, 1.0))), b(32 * 8);
        b[0] = static_cast<uint8_t>(encode(f8, 256.0));     // k = 0
        b[8] = static_cast<uint8_t>(encode(f8, 0.015625));  // k = 1: 2^-6 beside 2^8
        std::vector<float> c(64 * 8);
        std::vector<Argument> args(3);
        const auto give = [&](Argument& arg, Fmt elem, void* data, uint64_t bytes, Shape extents) {
            arg.kind = Argument::tensor;
            arg.t.elem = id_of(elem);
            arg.t.data = data;
            arg.t.bytes = bytes;
            arg.t.extents = extents;
        };
        give(args[0], Fmt::f8e4m3, a.data(), a.size(), {64, 32});
        give(args[1], Fmt::f8e4m3, b.data(), b.size(), {32, 8});
        give(args[2], Fmt::f32, c.data(), c.size() * 4, {64, 8});
        EXPECT_EQ(model.program->run(args, std::array<uint64_t, 3>{1, 1, 1}, {}).status, RunResult::ok);
        return c[0];
    };
    EXPECT_EQ(sum({}), 256.0f) << "2^-6 is below 2^(8 - 13)";
    EXPECT_EQ(sum({"wgmma"}), 256.015625f);
}

// ---- IR text ----

class IrText : public testing::TestWithParam<Row> {};
TEST_P(IrText, Says) {
    SourceMap sources;
    TypeTable types;
    DiagSink diags;
    EXPECT_EQ(ir::parse_ir(sources, sources.add("t.ir", GetParam().text), types, diags), nullptr);
    ASSERT_FALSE(diags.all().empty());
    EXPECT_EQ(codes({diags.all()[0]}), GetParam().codes) << diags.all()[0].message;
}
INSTANTIATE_TEST_SUITE_P(All, IrText,
                         testing::Values(Row{"T0700", "kernel @k( {"}, Row{"T0701", "kernel @k() {\n  %0 = frobnicate : i64\n  ret\n}"},
                                         Row{"T0701", "kernel @k() {\n  %0 = neg %7 : i64\n  ret\n}"},
                                         Row{"T0702", "kernel @k() {\n  %0 = constant 1 : i64\n  %0 = constant 2 : i64\n  ret\n}"},
                                         Row{"T0704", "kernel @k() {\n  %0 = constant 1 : i64\n}"},
                                         Row{"T0705", "kernel @k() {\n  %0 = constant 300 : i8\n  ret\n}"}));

TEST(IrTexts, TooDeep) {
    std::string text = "kernel @k(%c: bool) {\n";
    for (int i = 0; i < 5000; ++i) text += "if_else %c {\n";
    SourceMap sources;
    TypeTable types;
    DiagSink diags;
    EXPECT_EQ(ir::parse_ir(sources, sources.add("t.ir", text), types, diags), nullptr);
    ASSERT_FALSE(diags.all().empty());
    EXPECT_EQ(codes({diags.all()[0]}), "T0703");
}

// ---- clauses against bodies ----

/// A scalar parameter of every type, and how its code is read as i64.
struct ScalarType {
    const char *name, *literal, *code;
    std::vector<const char*> values;
};
const std::vector<ScalarType> kScalarTypes = {
    {"u8", "3", "cast<i64>(", {"0", "7", "200", "255"}},
    {"i16", "5", "cast<i64>(", {"-32768", "-1", "0", "291"}},
    {"u32", "9", "cast<i64>(", {"0", "1", "4294967295", "65537"}},
    {"i64", "11", "cast<i64>(", {"-9223372036854775807", "-1", "0", "4611686018427387904"}},
    {"f16", "0.5", "cast<i64>(bitcast<u16>(", {"0.1", "-65504.0", "0.0", "3.0"}},
    {"f32", "0.75", "cast<i64>(bitcast<u32>(", {"1e-40", "-2.5", "3e38", "0.3"}},
};

/// Random expressions of those parameters, of the type that is asked for.
class Expressions {
public:
    explicit Expressions(uint64_t seed) : state_(seed) {}
    uint64_t below(uint64_t n) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return (state_ >> 33) % n;
    }
    std::string of(size_t type, int depth) {
        const ScalarType& t = kScalarTypes[type];
        if (depth == 0) return std::string("p_") + t.name;
        const auto second = [&] { return below(3) == 0 ? std::string(t.literal) : of(type, depth - 1); };
        const std::string a = of(type, depth - 1);
        switch (below(8)) {
            case 0:
                return "select(" + truth(depth - 1) + ", " + a + ", " + second() + ")";
            case 1:
                return std::string("cast<") + t.name + ">(" + of(below(kScalarTypes.size()), depth - 1) + ")";
            case 2:
                return (below(2) ? "twice(" : "-(") + a + ")";
            case 3:
                return (below(2) ? "max(" : "min(") + a + ", " + second() + ")";
            default:
                break;
        }
        static constexpr const char *kWhole[] = {"+", "-", "*", "/", "%", "&", "^", "|", "<<", ">>"}, *kReal[] = {"+", "-", "*", "/"};
        const bool real = t.name[0] == 'f';
        return "(" + a + " " + (real ? kReal[below(4)] : kWhole[below(10)]) + " " + second() + ")";
    }
    std::string truth(int depth) {
        static constexpr const char* kCompare[] = {"<", "<=", "==", "!="};
        const size_t type = below(kScalarTypes.size());
        return of(type, depth) + " " + kCompare[below(4)] + " " + of(type, depth);
    }

private:
    uint64_t state_;
};

// What a clause computes before a launch is what the body computes in it, quotients without a value included: those refuse the launch.
TEST(Clauses, ComputeWhatBodiesCompute) {
    Expressions random(7);
    std::string parameters,
        text = "fn twice<T: number>(x: T) -> T { var y = x; for i in 0 .. 1 { if y < x || y >= x || y != y { y += x; } } return y; }\n";
    for (const ScalarType& t : kScalarTypes) parameters += std::string("p_") + t.name + ": " + t.name + ", ";
    constexpr size_t kCount = 40, kSets = 3;
    std::vector<std::string> arguments;
    std::string bodies, clauses;
    for (size_t i = 0; i < kCount; ++i) {
        const size_t type = i % kScalarTypes.size();
        const std::string read = kScalarTypes[type].code, code = read + random.of(type, 4) + (read.find("bitcast") != read.npos ? "))" : ")");
        const std::string n = std::to_string(i);
        bodies += "kernel v" + n + "(" + parameters + "out y: tensor<i64>[1]) { y[0] = " + code + "; }\n";
        clauses += "kernel c" + n + "(" + parameters + "want: i64, out y: tensor<i64>[1]) grid [select(" + code + " == want, 1, 0)] where " + code +
                   " == want { y[0] = want; }\n";
        for (size_t s = 0; s < kSets; ++s) {
            std::string given;
            for (const ScalarType& t : kScalarTypes) given += std::string(t.values[random.below(t.values.size())]) + ", ";
            arguments.push_back(given);
            bodies += "test \"" + n + "\" { let y = empty<i64>[1]; v" + n + "(" + given + "y); print(\"{}\", y[0]); }\n";
        }
    }
    const auto engine = Engine::create({});
    LaunchOptions options;
    options.checked = true;
    options.threads = 1;
    std::vector<std::string> values, failures;
    std::string printed;
    options.print = [&](std::string_view line) { printed = line.substr(0, line.find('\n')); };
    DiagSink diags;
    const ModulePtr first = engine->load("bodies.tile", text + bodies, "", diags);
    ASSERT_TRUE(first) << codes(diags.all());
    run_tests(*engine, *first, "", options, [&](TestResult& r) {
        failures.push_back(codes(r.diagnostics));
        values.push_back(printed);
    });
    ASSERT_EQ(failures.size(), arguments.size());
    for (size_t at = 0; at < arguments.size(); ++at) {
        const std::string call = "c" + std::to_string(at / kSets) + "(" + arguments[at];
        clauses += "test \"" + std::to_string(at) + "\" { let y = zeros<i64>[1]; ";
        if (failures[at].empty()) {
            clauses += call + values[at] + ", y); assert(y[0] == " + values[at] + "); assert_fails(" + call + "-(" + values[at] +
                       " / 2) - 77, y), \"does not hold: p_\"); }\n";
        } else {
            const bool zero = failures[at].find("T0907") != std::string::npos, least = failures[at].find("T0908") != std::string::npos;
            EXPECT_TRUE(zero || least) << failures[at] << " " << call;
            const char* wanted = zero && least ? "T0801" : zero ? "is a division by zero" : "by -1, which does not fit";
            clauses += "assert_fails(" + call + "0, y), \"" + wanted + "\"); }\n";
        }
    }
    const ModulePtr second = engine->load("clauses.tile", text + clauses, "", diags);
    ASSERT_TRUE(second) << codes(diags.all());
    run_tests(*engine, *second, "", options, [&](TestResult& r) {
        for (const Diagnostic& d : r.diagnostics) {
            std::string notes;
            for (const DiagNote& note : d.notes) notes += "\n  " + note.whole();
            ADD_FAILURE() << r.name << ": " << d.message << notes;
        }
    });
}

// ---- the C ABI ----

struct Handles {
    tegula_engine* engine = nullptr;
    tegula_module* module = nullptr;
    tegula_diags* diags = nullptr;
    Handles() {
        const std::string text = test_block("");
        EXPECT_EQ(tegula_engine_new(nullptr, &engine, nullptr), TEGULA_OK);
        EXPECT_EQ(tegula_module_from_source(engine, "t.tile", text.data(), text.size(), &module, nullptr), TEGULA_OK);
    }
    ~Handles() {
        tegula_release(diags);
        tegula_release(module);
        tegula_release(engine);
    }
    /// Is `code` in the diagnostics of the last call?
    bool says(const char* code) const { return diags && std::string(tegula_diags_json(diags)).find(code) != std::string::npos; }
};

TEST(Api, WrongUse) {
    Handles h;
    size_t bytes = 0;
    EXPECT_EQ(tegula_tensor_bytes(h.module, "f32", nullptr, nullptr, 9, &bytes, nullptr, &h.diags), TEGULA_E_USAGE);
    EXPECT_TRUE(h.says("T1040"));
}

TEST(Api, MachineThatIsNotHere) {
    Handles h;
    tegula_run_options options;
    tegula_run_options_init(&options, sizeof options);
    options.machine = "abacus";
    EXPECT_EQ(tegula_launch(h.module, "k", nullptr, 0, nullptr, 0, &options, &h.diags), TEGULA_E_UNAVAILABLE);
    EXPECT_TRUE(h.says("T1041"));
}

TEST(Api, TensorTooSmallForItsExtents) {
    Handles h;
    float data[5] = {};
    const int64_t extent = 5;
    tegula_tensor from{};
    from.data = data;
    from.bytes = sizeof data;
    from.type = "f32";
    from.rank = 1;
    from.extents = &extent;
    tegula_tensor to = from;
    to.bytes -= 4;
    EXPECT_EQ(tegula_tensor_copy(h.module, &to, &from, &h.diags), TEGULA_E_ARGUMENTS);
    EXPECT_TRUE(h.says("T1042")) << tegula_diags_json(h.diags);
}

}  // namespace
}  // namespace tegula
