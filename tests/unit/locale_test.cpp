// Nothing that the library writes depends on the locale of its process: everything it makes in the C locale, made again with a decimal comma and
// grouped digits in C++ and in C, and with translated messages, is the same text byte for byte.
#include <libintl.h>
#include <locale.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <locale>
#include <map>
#include <sstream>

#include "tests/unit/api_fixture.h"

using namespace api_test;

namespace {

constexpr const char* kProgram = R"(edition 1;
type book = codebook<2>[-1.5, 0.1, 0.25, 1234567.5];
/// Scales by 1.5, more or less.
kernel scale<S: f64 = 1.5, B: int = 64>(x: tensor<f32>[N], d: tensor<f64>[N], h: tensor<f16>[N], c: tensor<book>[N], out y: tensor<f32>[N])
    grid [cdiv(N, B)]
    where S > 0.5
    tune B in {32, 64}
{
    let i = program_id(0) * B;
    let wide = d[i +: B] * 0.1 + 1e-300 + 12345678.9;
    let v = x[i +: B] * 1.5 + cast<f32>(wide) + cast<f32>(h[i +: B] * 2.5) + cast<f32>(c[i +: B]);
    y[i +: B] = exp(v) * S - 1.1754944e-38 + 3.3e38 + 0x1.8p-3;
}
kernel product(a: tensor<f16>[M, 64], b: tensor<f16>[64, 64], out y: tensor<f32>[M, 64]) grid [cdiv(M, 64)] {
    let i = program_id(0) * 64;
    y[i +: 64, 0 +: 64] = dot(a[i +: 64, 0 +: 64], b[0 +: 64, 0 +: 64]) * 0.125;
}
kernel says(x: tensor<f32>[N]) grid [1] { print("{} and {}", x[0 +: 4], 1234567.5); assert(x[0] < 1.5, "too much"); }
kernel half(x: tensor<f32>[N], out y: tensor<f32>[N]) grid [1] { y[0 +: 4] = x[0 +: 4] * 0.5; }
test "host statements" {
    let x = arange<f32>[4](start = 1234567.5, step = 0.25);
    let y = empty<f32>[4];
    half(x, y);
    print("{} {} {}", x, 1.5 * 2.5, 1234567);
    assert_close(y, x * 0.5, atol = 0.001);
    says(arange<f32>[4](start = 0.5));
    assert_close(y, x * 0.5000001, atol = 0.0);
}
bench "figures" for (N, S) in {(1234567, 0.5)} bytes 1234567.5 * S { half(ones<f32>[4], empty<f32>[4]); }
)";
constexpr const char* kWrong[] = {
    "kernel k(out y: tensor<f16>[N]) grid [1] { y[0 +: 2] = full<f16>[2](1.5e9); }",
    "kernel k(out y: tensor<f32>[N]) grid [1] { let a = 1.5 + true; y[0 +: 1234567] = 2.5 @ 1; }",
    "kernel k<S: int>(out y: tensor<f32>[N]) grid [1.5] { let c: i32 = 1234567.25; y[0] = cast<f32>(c); }",
    "type f = float<3.5, 2>; type g = codebook<1>[1.5]; const c = 1.5e400; const d = 1 / 0.0;",
};

using Texts = std::map<std::string, std::string>;

std::string taken(tegula_blob* blob) {
    size_t size = 0;
    const char* data = tegula_blob_data(blob, &size);
    std::string out(data ? data : "", size);
    tegula_release(blob);
    return out;
}

std::string both(const Diags& diags) { return diags ? text(diags) + tegula_diags_json(diags.get()) : ""; }

/// Artefacts of every kind; the status stands for those that cannot be made here.
void add_artifacts(const tegula::Ref<tegula_module>& module, Texts& out) {
    for (const char* kind : {"tokens", "ast", "fmt", "doc", "json"}) {
        tegula_blob* blob = nullptr;
        Diags diags;
        out[kind] = std::to_string(tegula_module_artifact(module.get(), kind, &blob, diags.out())) + both(diags);
        out[kind] += taken(blob);
    }
    for (const char* name : {"scale", "product"}) {
        tegula::Ref<tegula_kernel> kernel;
        Diags diags;
        ASSERT_EQ(tegula_compile(module.get(), name, nullptr, 0, nullptr, kernel.out(), diags.out()), TEGULA_OK) << text(diags);
        for (const char* kind : {"ir", "ir:final", "ir:gpu", "explain", "explain@sm_80", "explain@cpu", "json", "cuda", "cuda@sm_80", "ptx",
                                 "resources", "llvm", "llvm-opt", "asm"}) {
            if (name[0] == 'p' && (kind[0] == 'a' || kind[0] == 'p' || kind[0] == 'r' || std::string(kind) == "llvm-opt")) continue;  // a second each
            tegula_blob* blob = nullptr;
            std::string& to = out[std::string(name) + " " + kind];
            to = std::to_string(tegula_kernel_artifact(kernel.get(), kind, &blob, diags.out())) + both(diags);
            to += taken(blob);
        }
    }
}

void add_plan(const tegula::Ref<tegula_module>& module, Texts& out) {
    Owned<float> x("f32", {4}, {1.5f, 2.5f, 3.5f, 4.5f}), y("f32", {4}, std::vector<float>(4));
    Owned<double> d("f64", {4}, std::vector<double>(4, 0.1));
    Owned<uint16_t> h("f16", {4}, std::vector<uint16_t>(4, 0x3e00));
    Owned<uint8_t> c("book", {4}, {0x1b});
    const tegula_value s = real(1234567.25, "S"), args[] = {tensor(x.c), tensor(d.c), tensor(h.c), tensor(c.c), tensor(y.c)};
    tegula_blob* json = nullptr;
    Diags diags;
    EXPECT_EQ(tegula_plan(module.get(), "scale", &s, 1, args, 5, &json, diags.out()), TEGULA_OK) << text(diags);
    out["plan"] = taken(json) + both(diags);
    std::string printed;
    tegula_run_options run;
    tegula_run_options_init(&run, sizeof run);
    run.user = &printed;
    run.print = [](void* user, const char* line, size_t size) { static_cast<std::string*>(user)->append(line, size); };
    for (const char* machine : {"interp", "cpu"}) {
        run.machine = machine;
        const tegula_value one = tensor(x.c), both_tensors[] = {tensor(x.c), tensor(y.c)}, wrong[] = {real(1.5), real(2.5)};
        for (const auto& [kernel, values, count] : {std::tuple("says", &one, 1), std::tuple("half", both_tensors, 2), std::tuple("half", wrong, 2)})
            out["launches"] +=
                std::to_string(tegula_launch(module.get(), kernel, nullptr, 0, values, static_cast<size_t>(count), &run, diags.out())) + both(diags);
        for (float v : y.values()) out["launches"] += std::to_string(static_cast<int>(v * 100)) + " ";
    }
    out["launches"] += printed;
}

/// All that the library says in the locale that is set.
Texts everything() {
    Texts out;
    tegula_engine_options options;
    tegula_engine_options_init(&options, sizeof options);
    tegula::Ref<tegula_engine> engine;
    EXPECT_EQ(tegula_engine_new(&options, engine.out(), nullptr), TEGULA_OK);
    tegula::Ref<tegula_module> module;
    Diags diags;
    const auto load = [&](const char* source) {
        return tegula_module_from_source(engine.get(), "locale.tile", source, std::strlen(source), module.out(), diags.out());
    };
    for (const char* wrong : kWrong) {
        if (load(wrong) == TEGULA_OK) tegula_module_check(module.get(), diags.out());
        out["diagnostics"] += both(diags);
    }
    tegula_module_from_file(engine.get(), "/nowhere/at all.tile", module.out(), diags.out());
    out["a missing file"] = both(diags);
    EXPECT_EQ(load(kProgram), TEGULA_OK) << text(diags);
    add_artifacts(module, out);
    add_plan(module, out);
    std::string& told = out["tests"];
    tegula_run_options run;
    tegula_run_options_init(&run, sizeof run);
    run.checked = 1;
    run.user = &told;
    run.print = [](void* user, const char* line, size_t size) { static_cast<std::string*>(user)->append(line, size); };
    const auto tell = [](void* user, const tegula_test_result* r) {
        *static_cast<std::string*>(user) += std::string(r->name) + (r->metrics ? r->metrics : "") + (r->diags ? tegula_diags_text(r->diags, 0) : "") +
                                            (r->diags ? tegula_diags_json(r->diags) : "");
    };
    EXPECT_EQ(tegula_test(module.get(), nullptr, &run, tell, &told, diags.out()), TEGULA_E_MISMATCH) << text(diags);
    EXPECT_EQ(tegula_bench(module.get(), nullptr, nullptr, tell, &told, diags.out()), TEGULA_OK) << text(diags);
    tegula_blob* blob = nullptr;
    EXPECT_EQ(tegula_describe(engine.get(), &blob), TEGULA_OK);
    out["describe"] = taken(blob);
    return out;
}

void expect_same(const Texts& plain, const Texts& foreign) {
    EXPECT_EQ(plain.size(), foreign.size());
    for (const auto& [name, text] : plain) {
        const std::string& other = foreign.at(name);
        if (text == other) continue;
        size_t at = 0;
        while (at < std::min(text.size(), other.size()) && text[at] == other[at]) ++at;
        const size_t from = at < 60 ? 0 : at - 60;
        ADD_FAILURE() << name << ":\n" << text.substr(from, 120) << "\nbecomes\n" << other.substr(from, 120);
    }
}

/// As in Germany: 1.234.567,5.
struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
    std::string do_truename() const override { return "wahr"; }
    std::string do_falsename() const override { return "falsch"; }
};

/// A catalogue of the C library's messages (GNU .mo).
void write_catalogue(const std::string& path, const std::map<std::string, std::string>& messages) {
    const auto n = static_cast<uint32_t>(messages.size());
    std::vector<uint32_t> head{0x950412de, 0, n, 28, 28 + 8 * n, 0, 28 + 16 * n}, from, to;
    std::string texts;
    const auto keep = [&](const std::string& message, std::vector<uint32_t>& table) {
        table.push_back(static_cast<uint32_t>(message.size()));
        table.push_back(static_cast<uint32_t>(28 + 16 * n + texts.size()));
        texts += message + '\0';
    };
    for (const auto& [english, other] : messages) keep(english, from), keep(other, to);
    std::ofstream file(path, std::ios::binary);
    for (const auto* words : {&head, &from, &to})
        file.write(reinterpret_cast<const char*>(words->data()), static_cast<std::streamsize>(4 * words->size()));
    file << texts;
}

/// Makes the locale xx_XX below `folder` with localedef, from a definition and a character map of its own; false: there is no localedef.
bool make_locale(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder / "xx_XX/LC_MESSAGES");
    std::ofstream map(folder / "charmap"), source(folder / "source");
    map << "<code_set_name> ANSI_X3.4-1968\n<comment_char> %\n<escape_char> /\nCHARMAP\n";
    const char* digits = "0123456789abcdef";
    for (int i = 0; i < 128; ++i) {
        const std::string code{digits[i / 16], digits[i % 16]};
        map << "<U00" << code << "> /x" << code << " character\n";
    }
    map << "END CHARMAP\n";
    source << "LC_NUMERIC\ndecimal_point \"<U002C>\"\nthousands_sep \"<U002E>\"\ngrouping 3;3\nEND LC_NUMERIC\n";
    map.close(), source.close();
    const std::string at = folder.string();
    const std::string command = "cd '" + at + "' && localedef -c -f ./charmap -i ./source ./made >log 2>&1; cp -r made/. xx_XX";
    return std::system(command.c_str()) == 0;
}

TEST(Locale, NothingFollowsIt) {
    ASSERT_EQ(::setenv("TEGULA_CACHE_DIR", "off", 1), 0);  // every kernel is compiled anew
    const Texts plain = everything();
    EXPECT_EQ(plain.at("scale cuda").find("1,5"), std::string::npos);
    EXPECT_NE(plain.at("scale cuda").find("1.5"), std::string::npos);
    EXPECT_NE(plain.at("plan").find("\"S\":\"1234567.25\""), std::string::npos) << plain.at("plan");

    const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Comma));
    std::ostringstream grouped;
    grouped << 1234567 << " " << 1.5;
    EXPECT_EQ(grouped.str(), "1.234.567 1,5") << "the locale of C++ is not in force";

    const std::filesystem::path folder = TEGULA_BINARY_DIR "/tests/locale";
    std::filesystem::remove_all(folder);
    const bool made = make_locale(folder);
    char number[32] = "1,5";
    if (made) {
        const std::string missing = "No such file or directory", library = "cannot open shared object file";
        write_catalogue(folder / "xx_XX/LC_MESSAGES/libc.mo", {{missing, "Datei nicht gefunden"}, {library, "Bibliothek nicht gefunden"}});
        ASSERT_EQ(::setenv("LOCPATH", folder.c_str(), 1), 0);
        ASSERT_NE(::setlocale(LC_ALL, "xx_XX"), nullptr) << std::ifstream(folder / "log").rdbuf();
        ::bindtextdomain("libc", folder.c_str());
        std::snprintf(number, sizeof number, "%.1f", 1.5);
        EXPECT_STREQ(number, "1,5") << "the locale of C is not in force";
        EXPECT_STREQ(std::strerror(ENOENT), "Datei nicht gefunden") << "messages are not translated";
    }
    expect_same(plain, everything());
    if (made) std::snprintf(number, sizeof number, "%.1f", 1.5);
    EXPECT_STREQ(number, "1,5") << "the library has changed the locale";
    EXPECT_EQ(std::locale::global(before).name(), "*") << "the library has changed the locale";
    ::setlocale(LC_ALL, "C");
    if (!made) GTEST_SKIP() << "the C library's part, for there is no localedef; that of C++ passed";
}

}  // namespace
