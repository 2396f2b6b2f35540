// What compiled code is, whatever it computes: elements in memory are whole bytes of plain types, no page is writable and executable, and the time of
// compiling is bounded by what a kernel holds.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/unit/interp_fixture.h"
#include "tests/unit/native_run.h"

namespace tegula::testing {
namespace {

// ---- types of memory ----

/// One load and one store of an element or a vector of them, as IR text.
struct Access {
    std::string type, line;
};

/// The type that begins at `at` of a line: "i8", "<16 x float>", "ptr".
std::string type_at(const std::string& line, size_t at) {
    while (at < line.size() && line[at] == ' ') ++at;
    const size_t end = line[at] == '<' ? line.find('>', at) + 1 : line.find_first_of(" ,(", at);
    return line.substr(at, end - at);
}

/// Whatever the text reads or writes through pointers.
std::vector<Access> accesses(const std::string& text) {
    std::vector<Access> out;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("declare") || line.starts_with("define")) continue;
        const auto behind = [&](const char* what) {
            const size_t at = line.find(what);
            return at == std::string::npos ? at : at + std::strlen(what);
        };
        if (size_t at = behind("= load "); at != std::string::npos)
            out.push_back({type_at(line, line.find("atomic ", at) == at ? at + 7 : at), line});
        if (size_t at = behind("  store "); at != std::string::npos) out.push_back({type_at(line, at), line});
        for (const char* name : {"@llvm.masked.load.", "@llvm.masked.gather."})
            if (line.find(name) != std::string::npos) out.push_back({type_at(line, behind("call ")), line});
        for (const char* name : {"@llvm.masked.store.", "@llvm.masked.scatter."})
            if (size_t at = line.find(name); at != std::string::npos) out.push_back({type_at(line, line.find('(', at) + 1), line});
        if (size_t at = behind("atomicrmw "); at != std::string::npos) out.push_back({type_at(line, line.find(", ", at) + 2), line});
        if (size_t at = behind("cmpxchg "); at != std::string::npos) out.push_back({type_at(line, line.find(", ", at) + 2), line});
    }
    return out;
}

/// Is the type, or the element of the vector, plain: 1, 2, 4 or 8 bytes that are all of the value? LLVM itself may move f16 as such where the
/// processor converts them: such a load or store is the same instruction.
bool is_plain(const std::string& type, bool halves) {
    std::string element = type;
    if (type[0] == '<') element = type.substr(type.find("x ") + 2, type.size() - type.find("x ") - 3);
    for (const char* plain : {"i8", "i16", "i32", "i64", "float", "double", "ptr"})
        if (element == plain) return true;
    return halves && element == "half";
}

/// A kernel that moves elements of a format in every way: whole rows, with gaps, turned, gathered, from a stored tile and from a scalar.
std::string moves(const std::string& f) {
    const auto tile = [&](const char* dims) { return " : tile<" + f + ">" + dims + "\n"; };
    return "kernel @k(%x: tensor<" + f + ">[?] in, %y: tensor<" + f + ">[?, ?] inout, %s: " + f +
           ") {\n %0 = program_id {axis = 0} : i64\n %1 = load %x[%0 +: 40]" + tile("[40]") + " %2 = reshape %1" + tile("[2, 20]") +
           " %3 = permute %2 {axis = [1, 0]}" + tile("[20, 2]") + " store %y[%0 +: 20, %0 +: 2] = %3\n" +
           " %9 = iota {axis = 0} : tile<i64>[40]\n %4 = mul %9, %9 : tile<i64>[40]\n %5 = load %x[gather %4]" + tile("[40]") +
           " store %y[%0, %0 +: 40 step 2] = %5\n" + " %6 = broadcast %s" + tile("[40]") +
           " %7 = eq %6, %1 : tile<bool>[40]\n %8 = select %7, %5, %6" + tile("[40]") + " store %y[%0, %0 +: 40] = %8\n ret\n}\n";
}

TEST(CpuCode, MemoryHoldsWholeBytesOfPlainTypes) {
    World w;
    cpu::Compiler compiler;
    std::set<std::string> seen;
    std::vector<std::string> formats;
    for (const Format& f : builtin_formats())
        if (f.bits && !f.is_block()) formats.push_back(f.name);
    for (const char* own : {"i3", "u1", "i5", "u7", "i9", "i12", "u17", "i24", "i33", "u50", "i63", "float<3, 2>", "float<6, 9>", "fixed<4, 4>",
                            "fixed<9, 8>", "lns<4, 3>", "lns<7, 8>"})
        formats.push_back(own);
    for (const std::string& f : formats) {
        const auto fn = w.parse(moves(f));
        for (const char* features : {"", "+avx2,+f16c,+fma", "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512bf16,+avx512fp16"})
            for (const char* kind : {"llvm", "llvm-opt"}) {
                cpu::CompileOptions options;
                options.tensors.resize(fn->params.size());
                options.cpu = "x86-64";
                options.features = features;
                const auto text = compiler.text(*fn, options, kind);
                ASSERT_TRUE(text) << text.error;
                const auto found = accesses(*text.value);
                EXPECT_GT(found.size(), 5u) << f;
                for (const Access& a : found) {
                    seen.insert(a.type);
                    ASSERT_TRUE(is_plain(a.type, kind == std::string("llvm-opt") && *features))
                        << f << ", " << kind << " " << features << ": " << a.line;
                }
            }
    }
    // The text was understood: every width, alone and in vectors.
    for (const char* type : {"i8", "i16", "i32", "i64", "float", "double", "<16 x i8>", "<16 x float>"}) EXPECT_TRUE(seen.count(type)) << type;
}

// ---- pointers ----

/// The text of z = x + y through pointers to n numbers, `by` elements apart.
std::string sums(World& w, const std::string& by) {
    const std::string i = " : tile<i64>[1024]\n", p = " : tile<ptr<f32>>[1024]\n", f = " : tile<f32>[1024]\n";
    std::string text =
        "kernel @k(%x: ptr<f32>, %y: ptr<f32>, %z: ptr<f32>, %n: i64, %s: i64) {\n %g = program_id {axis = 0} : i64\n"
        " %o = iota {axis = 0}" +
        i + " %e = broadcast %g" + i + " %b = broadcast %s" + i + " %r = constant 2" + i + " %h = mul %e, %b" + i;
    text += " %t = " + (by.empty() ? "add %o, %h" : "mul %o, " + by) + i + " %l = broadcast %n" + i + " %m = lt %t, %l : tile<bool>[1024]\n";
    for (const std::string name : {"x", "y", "z"})
        text += " %" + name + "b = broadcast %" + name + p + " %" + name + "p = ptr_add %" + name + "b, %t" + p;
    text += " %u = ptr_load %xp, %m {flags = 2}" + f + " %v = ptr_load %yp, %m {flags = 2}" + f + " %w = add %u, %v" + f;
    const auto fn = w.parse(text + " ptr_store %zp, %w, %m {flags = 2}\n ret\n}\n");
    cpu::CompileOptions options;
    options.tensors.resize(fn->params.size());
    options.cpu = "x86-64-v4";
    return cpu::Compiler().text(*fn, options, "llvm-opt").value.value_or("");
}

TEST(CpuCode, PointersSideBySideAreNotGathered) {
    World w;
    const std::string text = sums(w, "");
    EXPECT_NE(text.find("load <16 x float>"), std::string::npos) << text;
    const std::string gather = "call <16 x float> @llvm.masked.gather";
    for (const std::string& apart : {gather, std::string("call void @llvm.masked.scatter")}) EXPECT_EQ(text.find(apart), std::string::npos) << text;
    EXPECT_NE(sums(w, "%r").find(gather), std::string::npos) << "two elements apart";
    const std::string either = sums(w, "%b");
    EXPECT_NE(either.find(gather), std::string::npos) << "as the run says";
    EXPECT_NE(either.find("load <16 x float>"), std::string::npos) << "as the run says";
}

/// The text of y[s + by * iota] = x[s - iota * by].
std::string stepping(World& w, const std::string& by, bool streamed = false) {
    const std::string i = " : tile<i64>[1024]\n", f = " : tile<f32>[1024]\n";
    const auto fn = w.parse("kernel @k(%x: tensor<f32>[?] in, %y: tensor<f32>[?] inout, %s: i64) {\n %o = iota {axis = 0}" + i +
                            " %b = broadcast %s" + i + " %c = constant " + by + i + " %d = mul %o, %c" + i + " %p = add %b, %d" + i +
                            " %q = sub %b, %d" + i + " %v = load %x[gather %q]" + f + " store %y[gather %p] = %v\n ret\n}\n");
    cpu::CompileOptions options;
    options.tensors.resize(fn->params.size());
    options.tensors[1].streamed = streamed;
    options.cpu = "x86-64-v4";
    return cpu::Compiler().text(*fn, options, "llvm-opt").value.value_or("");
}

TEST(CpuCode, IndicesThatStepByOneAreNotGathered) {
    World w;
    const std::string back = stepping(w, "-1");  // loads run forwards, stores back
    EXPECT_NE(back.find("load <16 x float>"), std::string::npos) << back;
    EXPECT_EQ(back.find("@llvm.masked.gather"), std::string::npos) << back;
    EXPECT_NE(back.find("@llvm.masked.scatter"), std::string::npos) << back;
    const std::string forth = stepping(w, "1");
    EXPECT_NE(forth.find("store <16 x float>"), std::string::npos) << forth;
    EXPECT_EQ(forth.find("@llvm.masked.scatter"), std::string::npos) << forth;
    EXPECT_EQ(stepping(w, "1", true).find("!nontemporal"), std::string::npos) << "nobody knows where a line of the caches begins";
    EXPECT_NE(stepping(w, "200").find("@llvm.masked.gather"), std::string::npos) << "far apart";
}

// ---- pages ----

struct Mapping {
    uintptr_t begin = 0, end = 0;
    std::string rights;  ///< "r-xp"
};

std::vector<Mapping> mappings() {
    std::vector<Mapping> out;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        Mapping m;
        char dash;
        std::istringstream(line) >> std::hex >> m.begin >> dash >> m.end >> m.rights;
        out.push_back(m);
    }
    return out;
}

bool any_writable_code() {
    for (const Mapping& m : mappings())
        if (m.rights[1] == 'w' && m.rights[2] == 'x') return true;
    return false;
}

std::string adds(int number) {
    return "kernel @k(%x: tensor<f32>[?] in, %y: tensor<f32>[?] out) {\n %0 = constant 0 : i64\n %1 = load %x[%0 +: 64] : tile<f32>[64]\n %2 = "
           "constant " +
           std::to_string(number) +
           " : f32\n %3 = broadcast %2 : tile<f32>[64]\n %4 = add %1, %3 : tile<f32>[64]\n store %y[%0 +: 64] = %4\n ret\n}\n";
}

TEST(CpuCode, NoPageIsWritableAndExecutable) {
    ASSERT_FALSE(any_writable_code()) << "before anything was compiled";
    std::atomic<bool> done{false};
    std::atomic<int> looks{0}, bad{0};
    std::thread watch([&] {
        while (!done) bad += any_writable_code(), ++looks;
    });
    {
        World w;
        cpu::Compiler compiler;
        std::vector<cpu::LoadedCode> kept;
        for (int i = 0; i < 40 || (looks < 20 && i < 1000); ++i) {
            const auto fn = w.parse(adds(i));
            cpu::CompileOptions options;
            options.tensors.resize(2);
            auto object = compiler.compile(*fn, options);
            ASSERT_TRUE(object) << object.error;
            auto code = compiler.load(*object);
            ASSERT_TRUE(code) << code.error;
            const auto at = reinterpret_cast<uintptr_t>(code->entry);
            int found = 0;
            for (const Mapping& m : mappings())
                if (m.begin <= at && at < m.end) {
                    ++found;
                    EXPECT_EQ(m.rights.substr(0, 3), "r-x");
                }
            EXPECT_EQ(found, 1);
            if (i % 2) kept.push_back(*code);  // others are freed
        }
        std::vector<float> x(64, 1.5f), y(64);
        std::vector<Argument> args(2);
        for (size_t i = 0; i < 2; ++i) {
            args[i].kind = Argument::tensor;
            args[i].t.elem = id_of(Fmt::f32);
            args[i].t.data = i ? y.data() : x.data();
            args[i].t.bytes = 256;
            args[i].t.extents = Shape{64};
        }
        cpu::CompileOptions options;
        options.tensors.resize(2);
        run_native(*w.parse(adds(2)), options, args);
        EXPECT_EQ(y[63], 3.5f);
        EXPECT_FALSE(any_writable_code());
    }
    done = true;
    watch.join();
    EXPECT_GE(looks, 20);
    EXPECT_EQ(bad, 0);
}

// ---- time ----

/// `count` rows one after the other on tiles of a format, and a conversion there and back where `through` names one.
std::string chain(const std::string& f, int count, const std::string& through = {}) {
    const auto tile = [](const std::string& e) { return " : tile<" + e + ">[64]\n"; };
    std::string text = "kernel @k(%x: tensor<" + f + ">[?] in, %y: tensor<" + f +
                       ">[?] out) {\n %z = program_id {axis = 0} : i64\n %c = constant 1 : i64\n" +
                       " %o = add %z, %c : i64\n %v0 = load %x[%z +: 64]" + tile(f) + " %w = load %x[%o +: 64]" + tile(f);
    static constexpr const char* kRows[] = {"mul", "add", "sub", "div"};
    for (int i = 0; i < count; ++i) {
        const std::string from = std::to_string(i), to = std::to_string(i + 1);
        if (through.empty()) {
            text += " %v" + to + " = " + kRows[i % 4] + " %v" + from + ", %w" + tile(f);
        } else {
            text += " %t" + from + " = cast %v" + from + " {overflow = automatic, round = rne}" + tile(through) + " %v" + to + " = cast %t" + from +
                    " {overflow = automatic, round = " + (i % 2 ? "rtz" : "rne") + "}" + tile(f);
        }
    }
    return text + " store %y[%z +: 64] = %v" + std::to_string(count) + "\n ret\n}\n";
}

/// `count` stores, each of what the one before it may have changed.
std::string stores(const std::string& f, int count) {
    std::string text = "kernel @k(%x: tensor<" + f + ">[?] inout) {\n %z = program_id {axis = 0} : i64\n";
    for (int i = 0; i < count; ++i) {
        const std::string n = std::to_string(i), t = " : tile<" + f + ">[64]\n";
        text += " %c" + n + " = constant " + std::to_string(64 + i) + " : i64\n %a" + n + " = load %x[%z +: 64]" + t + " %b" + n + " = load %x[%c" +
                n + " +: 64]" + t + " %d" + n + " = add %a" + n + ", %b" + n + t + " store %x[%c" + n + " +: 64] = %d" + n + "\n";
    }
    return text + " ret\n}\n";
}

std::string products(int count) {
    std::string text =
        "kernel @k(%x: tensor<f32>[?, ?] in, %y: tensor<f32>[?, ?] out) {\n %z = program_id {axis = 0} : i64\n %f = constant 0 : f32\n"
        " %s = broadcast %f : tile<f32>[32, 32]\n";
    for (int i = 0; i < count; ++i) {
        const std::string n = std::to_string(i), t = " : tile<f32>[32, 32]\n";
        text += " %c" + n + " = constant " + n + " : i64\n %a" + n + " = load %x[%c" + n + " +: 32, %z +: 32]" + t + " %b" + n +
                " = load %x[%z +: 32, %c" + n + " +: 32]" + t + " %d" + n + " = dot %a" + n + ", %b" + n + ", %s {precision = ieee}" + t +
                " store %y[%c" + n + " +: 32, %z +: 32] = %d" + n + "\n";
    }
    return text + " ret\n}\n";
}

double seconds_of_thread() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

struct Compiled {
    double seconds;
    size_t bytes;
};

Compiled compiled(const std::string& text, const std::string& features) {
    World w;
    const auto fn = w.parse(text);
    cpu::CompileOptions options;
    options.tensors.resize(fn->params.size());
    options.cpu = "x86-64";
    options.features = features;
    cpu::Compiler compiler;
    const double start = seconds_of_thread();
    auto object = compiler.compile(*fn, options);
    EXPECT_TRUE(object) << object.error;
    return {seconds_of_thread() - start, object ? object->object.size() : 0};
}

constexpr const char* kAvx2 = "+avx2,+f16c,+fma";
constexpr const char* kAvx512 = "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx2,+f16c,+fma";

/// Time of compiling is bounded beside that of an eighth of the kernel, so that neither the machine nor sanitizers decide: what was quadratic took 40
/// times as long and more, what is linear takes 8. Time of other threads and processes does not count.
constexpr double kMostTimes = 25;

TEST(CpuCode, CompilingHostileKernelsEnds) {
    struct Case {
        const char *name, *features;
        std::string (*text)(int count);
    };
    for (const Case& c : {Case{"rows of lns", kAvx2, [](int n) { return chain("lns<4, 3>", 2 * n); }},
                          Case{"rows of f8", kAvx512, [](int n) { return chain("f8e4m3", 2 * n); }},
                          Case{"rows of f4", kAvx2, [](int n) { return chain("f4e2m1", 4 * n); }},
                          Case{"rows of bf16", kAvx2, [](int n) { return chain("bf16", 4 * n); }},
                          Case{"conversions", kAvx2, [](int n) { return chain("f8e4m3", n, "f8e5m2"); }},
                          Case{"stores", kAvx512, [](int n) { return stores("f32", n); }},
                          Case{"stores of packed elements", kAvx2, [](int n) { return stores("i3", n); }},
                          Case{"products", kAvx2, [](int n) { return products(n); }}}) {
        const Compiled few = compiled(c.text(10), c.features), many = compiled(c.text(80), c.features);
        std::printf("%s: %.2f s, %.1f times an eighth\n", c.name, many.seconds, many.seconds / few.seconds);
        EXPECT_LT(many.seconds, kMostTimes * few.seconds) << c.name;
        EXPECT_LT(many.bytes, 200u << 10) << c.name;
    }
}

/// Code of long chains grows by calls.
TEST(CpuCode, HeavyRowsAreEmittedOnce) {
    for (const char* f : {"lns<4, 3>", "lns<7, 8>", "f8e4m3", "f8e5m2"}) {
        const size_t few = compiled(chain(f, 100), kAvx2).bytes, many = compiled(chain(f, 200), kAvx2).bytes;
        EXPECT_LT(many - few, 100 * 200u) << f;
    }
}

TEST(CpuCode, CallsGiveTheSameBits) {
    World w;
    cpu::CompileOptions options;
    options.tensors.resize(2);
    for (const std::string& text : {chain("lns<4, 3>", 60), chain("f8e4m3", 120), chain("f8e5m2", 100, "f8e4m3"), chain("lns<7, 8>", 40, "f16"),
                                    chain("i3", 400), chain("float<3, 2>", 100)}) {
        const auto fn = w.parse(text);
        std::mt19937_64 random(7);
        std::vector<uint8_t> x(200), y[2];
        for (uint8_t& b : x) b = static_cast<uint8_t>(random());
        y[0] = y[1] = x;
        for (int machine = 0; machine < 2; ++machine) {
            std::vector<Argument> args(2);
            for (size_t i = 0; i < 2; ++i) {
                args[i].kind = Argument::tensor;
                args[i].t.elem = fn->type(fn->params[i].value).elem;
                args[i].t.extents = Shape{90};
                args[i].t.bytes = (90u * fn->types().format(args[i].t.elem).bits + 7) / 8;
                args[i].t.data = i ? y[machine].data() : x.data();
            }
            if (machine) {
                run_native(*fn, options, args, {3, 1, 1});
            } else {
                const std::array<uint64_t, 3> grid = {3, 1, 1};
                ASSERT_EQ(interp::Program::prepare(*fn)->run(args, grid, {}).status, RunResult::ok);
            }
        }
        EXPECT_EQ(y[1], y[0]) << text;
    }
}

}  // namespace
}  // namespace tegula::testing
