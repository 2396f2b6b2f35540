// The C API: handles, statuses, wrong use, texts and descriptions. Launches are in api_launch_test.cpp, tensors' storage in api_storage_test.cpp.
// The files together call every function of tegula.h, which a test here proves.
#include "tests/unit/api_fixture.h"

#include <unistd.h>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

extern "C" uint32_t tegula_c99_abi(void);
std::string another_abi();  // api_other_abi.cpp

using namespace api_test;

namespace {

std::string file_text(const std::string& path) {
    std::ifstream in(path);
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
}

std::string blob_text(tegula_blob* blob) {
    size_t size = 0;
    const char* data = tegula_blob_data(blob, &size);
    std::string out(data ? data : "", size);
    tegula_release(blob);
    return out;
}

TEST(Header, EveryFunctionIsCalledByTheseTests) {
    const std::string header = file_text(TEGULA_SOURCE_DIR "/include/tegula/tegula.h");
    std::string tests;
    for (const char* file : {"api_test.cpp", "api_launch_test.cpp", "api_storage_test.cpp", "api_gpu_test.cpp", "session_test.cpp", "workspace_test.cpp", "api_fixture.h"})
        tests += file_text(std::string(TEGULA_SOURCE_DIR "/tests/unit/") + file);
    const std::regex declaration("\nTEGULA_API[^(]*?\\b(tegula_\\w+)\\(");
    std::set<std::string> names;
    for (std::sregex_iterator it(header.begin(), header.end(), declaration), end; it != end; ++it) names.insert((*it)[1]);
    EXPECT_GE(names.size(), 25u);
    EXPECT_LE(names.size(), 50u);
    for (const std::string& name : names) EXPECT_TRUE(contains(tests, name + "(")) << name << " is never called";
}

TEST(Header, IsC99AndReportsItsVersion) {
    EXPECT_EQ(tegula_c99_abi(), TEGULA_ABI_VERSION);
    EXPECT_EQ(tegula_abi_version(), TEGULA_ABI_VERSION);
    EXPECT_EQ(std::string(tegula_build_id()).rfind("tegula ", 0), 0u);
}

TEST(Engine, StructSizes) {
    tegula_engine_options options;
    tegula_engine_options_init(&options, sizeof options);
    tegula_engine_options_init(nullptr, sizeof options);
    tegula::Ref<tegula_engine> engine;
    EXPECT_EQ(tegula_engine_new(&options, engine.out(), nullptr), TEGULA_OK);
    // The first form of the structure ended before max_errors.
    options.struct_size = offsetof(tegula_engine_options, max_errors);
    EXPECT_EQ(tegula_engine_new(&options, engine.out(), nullptr), TEGULA_OK);
    for (size_t size : {size_t{0}, size_t{1}, sizeof(size_t), sizeof options - 1, sizeof options + 8, SIZE_MAX}) {
        options.struct_size = size;
        Diags diags;
        EXPECT_EQ(tegula_engine_new(&options, engine.out(), diags.out()), TEGULA_E_USAGE) << size;
        EXPECT_TRUE(contains(text(diags), "struct_size")) << size;
        EXPECT_EQ(engine.get(), nullptr);
    }
}

TEST(Engine, ErrorsAreCappedAtMaxErrors) {
    tegula_engine_options options;
    tegula_engine_options_init(&options, sizeof options);
    options.max_errors = 3;
    tegula::Ref<tegula_engine> engine;
    ASSERT_EQ(tegula_engine_new(&options, engine.out(), nullptr), TEGULA_OK);
    std::string source;
    for (int i = 0; i < 20; ++i) source += "fn f" + std::to_string(i) + "() -> f32 { return nothing" + std::to_string(i) + "; }\n";
    tegula::Ref<tegula_module> module;
    Diags diags;
    EXPECT_EQ(tegula_module_from_source(engine.get(), "many.tile", source.data(), source.size(), module.out(), diags.out()), TEGULA_E_SOURCE);
    EXPECT_EQ(module.get(), nullptr);
    EXPECT_EQ(tegula_diags_count(diags.get()), 4u);  // three and the row that says so
}

TEST_F(Api, NullArgumentsAreUsageErrors) {
    Diags diags;
    tegula_module* m = nullptr;
    tegula_kernel* k = nullptr;
    tegula_blob* b = nullptr;
    tegula_tensor t{};
    size_t bytes = 0;
    const auto is_usage = [&](tegula_status status) {
        EXPECT_EQ(status, TEGULA_E_USAGE);
        EXPECT_EQ(tegula_diags_count(diags.get()), 1u);
        EXPECT_TRUE(contains(text(diags), "T1040")) << text(diags);
    };
    is_usage(tegula_engine_new(nullptr, nullptr, diags.out()));
    is_usage(tegula_module_from_source(nullptr, "n", "", 0, &m, diags.out()));
    is_usage(tegula_module_from_source(engine.get(), "n", nullptr, 4, &m, diags.out()));
    is_usage(tegula_module_from_source(engine.get(), "n", "", 0, nullptr, diags.out()));
    is_usage(tegula_module_from_file(engine.get(), nullptr, &m, diags.out()));
    is_usage(tegula_module_from_file(nullptr, "x", &m, diags.out()));
    is_usage(tegula_module_check(nullptr, diags.out()));
    is_usage(tegula_compile(nullptr, "add", nullptr, 0, nullptr, &k, diags.out()));
    is_usage(tegula_compile(module.get(), nullptr, nullptr, 0, nullptr, &k, diags.out()));
    is_usage(tegula_compile(module.get(), "add", nullptr, 1, nullptr, &k, diags.out()));
    is_usage(tegula_compile(module.get(), "add", nullptr, 0, nullptr, nullptr, diags.out()));
    is_usage(tegula_launch(nullptr, "add", nullptr, 0, nullptr, 0, nullptr, diags.out()));
    is_usage(tegula_launch(module.get(), "add", nullptr, 0, nullptr, 3, nullptr, diags.out()));
    is_usage(tegula_prepare_async(module.get(), "add", nullptr, 0, nullptr, 0, nullptr, nullptr, nullptr, nullptr, diags.out()));
    is_usage(tegula_plan(module.get(), "add", nullptr, 0, nullptr, 0, nullptr, diags.out()));
    is_usage(tegula_plan(module.get(), "add", nullptr, 0, nullptr, 2, &b, diags.out()));
    is_usage(tegula_kernel_launch(nullptr, nullptr, 0, nullptr, diags.out()));
    is_usage(tegula_module_artifact(module.get(), nullptr, &b, diags.out()));
    is_usage(tegula_kernel_artifact(nullptr, "ir", &b, diags.out()));
    is_usage(tegula_dump(engine.get(), "n", nullptr, 3, "ast", &b, diags.out()));
    is_usage(tegula_test(nullptr, nullptr, nullptr, nullptr, nullptr, diags.out()));
    is_usage(tegula_bench(nullptr, nullptr, nullptr, nullptr, nullptr, diags.out()));
    tegula_tune_options tune;
    tegula_tune_options_init(&tune, sizeof tune);
    is_usage(tegula_tune(nullptr, nullptr, nullptr, &tune, nullptr, nullptr, diags.out()));
    is_usage(tegula_tensor_bytes(module.get(), nullptr, nullptr, nullptr, 0, &bytes, nullptr, diags.out()));
    is_usage(tegula_tensor_bytes(module.get(), "f32", nullptr, nullptr, 1, &bytes, nullptr, diags.out()));
    is_usage(tegula_tensor_bytes(module.get(), "f32", nullptr, nullptr, -1, &bytes, nullptr, diags.out()));
    uint64_t hash = 0;
    is_usage(tegula_layout_hash(nullptr, "row", &hash, diags.out()));
    is_usage(tegula_layout_hash(module.get(), "row", nullptr, diags.out()));
    is_usage(tegula_tensor_copy(module.get(), &t, nullptr, diags.out()));
    is_usage(tegula_tensor_diff(module.get(), &t, nullptr, &b, diags.out()));
    is_usage(tegula_tensor_diff(module.get(), &t, &t, nullptr, diags.out()));
    is_usage(tegula_tensor_diff(nullptr, &t, &t, &b, diags.out()));
    EXPECT_EQ(tegula_module_artifact(module.get(), "picture:", &b, diags.out()), TEGULA_E_USAGE) << text(diags);
    EXPECT_EQ(tegula_module_artifact(module.get(), "picture:layout@sm_1:f16[4]", &b, diags.out()), TEGULA_E_USAGE) << text(diags);
    EXPECT_EQ(tegula_module_artifact(module.get(), "picture:layout:f16[", &b, diags.out()), TEGULA_E_USAGE) << text(diags);
    EXPECT_EQ(tegula_module_artifact(module.get(), "picture:place:f16[4]", &b, diags.out()), TEGULA_E_USAGE) << text(diags);
    is_usage(tegula_cache(nullptr, "stats", &b, diags.out()));
    is_usage(tegula_cache(engine.get(), nullptr, &b, diags.out()));
    is_usage(tegula_cache(engine.get(), "stats", nullptr, diags.out()));
    is_usage(tegula_cache(engine.get(), "burn", &b, diags.out()));
    EXPECT_EQ(tegula_describe(nullptr, &b), TEGULA_E_USAGE);
    EXPECT_EQ(tegula_describe(engine.get(), nullptr), TEGULA_E_USAGE);
    // Nobody listens to the diagnostics: the same statuses.
    EXPECT_EQ(tegula_module_check(nullptr, nullptr), TEGULA_E_USAGE);
    tegula_cancel(nullptr, 1);
    tegula_retain(nullptr);
    tegula_release(nullptr);
    EXPECT_EQ(tegula_diags_count(nullptr), 0u);
    EXPECT_STREQ(tegula_diags_text(nullptr, 1), "");
    EXPECT_STREQ(tegula_diags_json(nullptr), "");
    EXPECT_EQ(tegula_explain(nullptr), nullptr);
    EXPECT_EQ(tegula_blob_data(nullptr, &bytes), nullptr);
    EXPECT_EQ(tegula_blob_new(nullptr, 5), nullptr);
    EXPECT_TRUE(m == nullptr && k == nullptr && b == nullptr);
}

TEST_F(Api, HandlesOfAnotherKindAreUsageErrors) {
    tegula::Ref<tegula_kernel> kernel;
    tegula::Ref<tegula_blob> blob(tegula_blob_new("x", 1));
    Diags diags, some;
    ASSERT_EQ(tegula_compile(module.get(), "add", nullptr, 0, nullptr, kernel.out(), diags.out()), TEGULA_OK);
    ASSERT_EQ(tegula_module_check(nullptr, some.out()), TEGULA_E_USAGE);
    struct Named {
        void* handle;
        const char* what;
    };
    const Named handles[] = {{engine.get(), "an engine"}, {module.get(), "a module"},  {kernel.get(), "a kernel"},
                             {blob.get(), "a blob"},      {some.get(), "diagnostics"}, {nullptr, "NULL"}};
    tegula_module* m = nullptr;
    tegula_kernel* k = nullptr;
    tegula_prepared* p = nullptr;
    tegula_blob* b = nullptr;
    tegula_tensor t{};
    size_t bytes = 0;
    uint64_t hash = 0;
    void* managed = nullptr;
    for (const auto& [handle, what] : handles) {
        auto* const e = static_cast<tegula_engine*>(handle);
        auto* const mod = static_cast<tegula_module*>(handle);
        auto* const ker = static_cast<tegula_kernel*>(handle);
        auto* const pre = static_cast<tegula_prepared*>(handle);
        const auto refused = [&](const char* wanted, tegula_status status) {
            EXPECT_EQ(status, TEGULA_E_USAGE) << wanted << " from " << what;
            EXPECT_TRUE(contains(text(diags), std::string(wanted) + (handle ? " is the handle of " : " is ") + what)) << text(diags);
        };
        if (handle != engine.get()) {
            refused("engine", tegula_module_from_source(e, "n", "", 0, &m, diags.out()));
            refused("engine", tegula_module_from_file(e, "x", &m, diags.out()));
            refused("engine", tegula_dump(e, "n", "", 0, "ast", &b, diags.out()));
            EXPECT_EQ(tegula_describe(e, &b), TEGULA_E_USAGE);
            tegula_cancel(e, 1);
        }
        if (handle != module.get()) {
            refused("module", tegula_module_check(mod, diags.out()));
            refused("module", tegula_compile(mod, "add", nullptr, 0, nullptr, &k, diags.out()));
            refused("module", tegula_launch(mod, "add", nullptr, 0, nullptr, 0, nullptr, diags.out()));
            refused("module", tegula_plan(mod, "add", nullptr, 0, nullptr, 0, &b, diags.out()));
            refused("module", tegula_prepare(mod, "add", nullptr, 0, nullptr, 0, nullptr, &p, diags.out()));
            refused("module", tegula_prepare_async(mod, "add", nullptr, 0, nullptr, 0, nullptr, nullptr, nullptr, nullptr, diags.out()));
            refused("module", tegula_module_artifact(mod, "ast", &b, diags.out()));
            refused("module", tegula_test(mod, nullptr, nullptr, nullptr, nullptr, diags.out()));
            refused("module", tegula_bench(mod, nullptr, nullptr, nullptr, nullptr, diags.out()));
            refused("module", tegula_tensor_bytes(mod, "f32", nullptr, nullptr, 0, &bytes, nullptr, diags.out()));
            refused("module", tegula_layout_hash(mod, "row", &hash, diags.out()));
            refused("module", tegula_tensor_copy(mod, &t, &t, diags.out()));
            refused("module", tegula_tensor_from_dlpack(mod, &t, 0, &t, nullptr, diags.out()));
            refused("module", tegula_tensor_to_dlpack(mod, &t, 0, nullptr, nullptr, &managed, diags.out()));
        }
        if (handle != kernel.get()) {
            refused("kernel", tegula_kernel_launch(ker, nullptr, 0, nullptr, diags.out()));
            refused("kernel", tegula_kernel_artifact(ker, "ir", &b, diags.out()));
        }
        refused("prepared", tegula_rebind(pre, nullptr, 0, diags.out()));
        refused("prepared", tegula_collect(pre, nullptr, nullptr, diags.out()));
        EXPECT_EQ(tegula_enqueue(pre, nullptr), TEGULA_E_USAGE);
        if (handle != some.get()) {
            auto* const d = static_cast<tegula_diags*>(handle);
            EXPECT_EQ(tegula_diags_count(d), 0u);
            EXPECT_STREQ(tegula_diags_text(d, 0), "");
            EXPECT_STREQ(tegula_diags_json(d), "");
        }
        if (handle != blob.get()) {
            bytes = 1;
            EXPECT_EQ(tegula_blob_data(static_cast<tegula_blob*>(handle), &bytes), nullptr);
            EXPECT_EQ(bytes, 0u);
        }
    }
    EXPECT_TRUE(m == nullptr && k == nullptr && p == nullptr && b == nullptr && managed == nullptr);
    alignas(16) const uint64_t garbage[8] = {};
    EXPECT_EQ(tegula_module_check(reinterpret_cast<tegula_module*>(const_cast<uint64_t*>(garbage)), diags.out()), TEGULA_E_USAGE);
    EXPECT_TRUE(contains(text(diags), "no handle of this library")) << text(diags);
    EXPECT_EQ(tegula_module_check(module.get(), diags.out()), TEGULA_E_SOURCE) << "the engine is not cancelled";
}

TEST_F(Api, RunOptionsAreChecked) {
    tegula_run_options run;
    tegula_run_options_init(&run, sizeof run);
    tegula_run_options_init(nullptr, 8);
    Diags diags;
    tegula::Ref<tegula_kernel> kernel;
    const auto compile = [&] { return tegula_compile(module.get(), "add", nullptr, 0, &run, kernel.out(), diags.out()); };
    EXPECT_EQ(compile(), TEGULA_OK);
    run.machine = "warp-drive\x1b[31m";
    EXPECT_EQ(compile(), TEGULA_E_UNAVAILABLE);
    EXPECT_FALSE(contains(text(diags), "\x1b")) << "control characters of the caller reach the terminal";
    run.machine = "interp";
    run.disable_passes = "fold,nonsense";
    EXPECT_EQ(compile(), TEGULA_E_USAGE);
    EXPECT_TRUE(contains(text(diags), "nonsense"));
    run.disable_passes = "fold,,cse";
    EXPECT_EQ(compile(), TEGULA_OK);
    for (const int32_t checked : {-1, 3, INT32_MAX}) {
        run.checked = checked;
        EXPECT_EQ(compile(), TEGULA_E_USAGE);
        EXPECT_TRUE(contains(text(diags), "not 0, 1 or 2")) << text(diags);
    }
    run.checked = 0;
    run.struct_size = offsetof(tegula_run_options, user);
    EXPECT_EQ(compile(), TEGULA_OK);
    run.struct_size = sizeof run + 8;
    EXPECT_EQ(compile(), TEGULA_E_USAGE);
    EXPECT_TRUE(contains(text(diags), "run options is " + std::to_string(sizeof run + 8)) &&
                contains(text(diags), std::to_string(sizeof run) + ";") && contains(text(diags), "(ABI " + std::to_string(TEGULA_ABI_VERSION)))
        << text(diags);
    run.struct_size = offsetof(tegula_run_options, user) - 8;
    EXPECT_EQ(compile(), TEGULA_E_USAGE);
    EXPECT_EQ(kernel.get(), nullptr);
}

TEST_F(Api, ChildrenOutliveParents) {
    tegula_kernel* kernel = nullptr;
    tegula_diags* diags = nullptr;
    ASSERT_EQ(tegula_compile(module.get(), "add", nullptr, 0, nullptr, &kernel, nullptr), TEGULA_OK);
    tegula_tensor missing{};
    tegula_value bad = tensor(missing);
    ASSERT_EQ(tegula_launch(module.get(), "add", nullptr, 0, &bad, 1, nullptr, &diags), TEGULA_E_ARGUMENTS);
    tegula_retain(kernel);
    tegula_release(kernel);
    engine = {};
    module = {};
    // The text needs the engine's sources, the launch the module's tree.
    EXPECT_TRUE(contains(tegula_diags_text(diags, 0), "small.tile"));
    Owned<float> x("f32", {3}, {1, 2, 3}), y("f32", {3}, {4, 5, 6}), z("f32", {3}, {0, 0, 0});
    const tegula_value args[] = {tensor(x.c), tensor(y.c), tensor(z.c)};
    EXPECT_EQ(tegula_kernel_launch(kernel, args, 3, nullptr, nullptr), TEGULA_OK);
    EXPECT_EQ(z.values(), (std::vector<float>{5, 7, 9}));
    tegula_release(kernel);
    EXPECT_TRUE(contains(tegula_diags_json(diags), "\"code\":\"T0801\""));
    tegula_release(diags);
}

TEST_F(Api, DiagnosticsAsTextAndJson) {
    const std::string source = "fn area(width: f32) -> f32 { return widht * 2.0; }\n";
    tegula_module* m = nullptr;
    Diags diags;
    ASSERT_EQ(tegula_module_from_source(engine.get(), "w.tile", source.data(), source.size(), &m, diags.out()), TEGULA_E_SOURCE);
    const std::string plain = tegula_diags_text(diags.get(), 0);
    EXPECT_TRUE(contains(plain, "w.tile:1:37")) << plain;
    EXPECT_TRUE(contains(plain, "^^^^^"));
    EXPECT_FALSE(contains(plain, "\x1b["));
    EXPECT_TRUE(contains(tegula_diags_text(diags.get(), 1), "\x1b["));
    EXPECT_EQ(tegula_diags_text(diags.get(), 0), tegula_diags_text(diags.get(), 0)) << "the text lives as long as the handle";
    const std::string json = tegula_diags_json(diags.get());
    EXPECT_TRUE(contains(json, "\"schema\":1") && contains(json, "w.tile") && json.back() == '\n');
    EXPECT_EQ(std::count(json.begin(), json.end(), '\n'), static_cast<long>(tegula_diags_count(diags.get())));
    EXPECT_NE(tegula_explain("T0801"), nullptr);
    EXPECT_EQ(tegula_explain("T9999"), nullptr);
}

TEST_F(Api, SizesThatNoSourceHas) {
    Diags diags;
    tegula_module* loaded = nullptr;
    tegula_blob* blob = nullptr;
    EXPECT_EQ(tegula_module_from_source(engine.get(), "t", "", SIZE_MAX / 2, &loaded, diags.out()), TEGULA_E_SOURCE);
    EXPECT_TRUE(contains(text(diags), "T0112")) << text(diags);
    EXPECT_EQ(tegula_dump(engine.get(), "t", "", size_t{1} << 40, "fmt", &blob, diags.out()), TEGULA_E_SOURCE);
    EXPECT_TRUE(contains(text(diags), "T0112")) << text(diags);
}

TEST_F(Api, ModulesFromFiles) {
    const std::string directory = testing::TempDir() + "tegula_api_" + std::to_string(::getpid());
    const std::string path = directory + ".tile";
    std::ofstream(path) << "kernel k(x: tensor<f32>[N], out z: tensor<f32>[N]) grid [1] { z[0] = x[0]; }\n";
    tegula::Ref<tegula_module> m;
    Diags diags;
    EXPECT_EQ(tegula_module_from_file(engine.get(), path.c_str(), m.out(), diags.out()), TEGULA_OK) << text(diags);
    EXPECT_EQ(tegula_module_check(m.get(), diags.out()), TEGULA_OK);
    std::remove(path.c_str());
    for (const char* bad : {path.c_str(), "/", "", "/dev/zero"}) {
        EXPECT_EQ(tegula_module_from_file(engine.get(), bad, m.out(), diags.out()), TEGULA_E_IO) << bad;
        EXPECT_TRUE(contains(text(diags), "T1043")) << text(diags);
        EXPECT_EQ(m.get(), nullptr);
    }
}

struct Imports {
    std::atomic<int> calls{0};
    bool throws = false;
    void* other = nullptr;  ///< a handle to return instead of a blob
};

tegula_blob* import_text(void* user, const char* name) {
    auto& state = *static_cast<Imports*>(user);
    ++state.calls;
    if (state.throws) throw 42;
    if (state.other) return tegula_retain(state.other), static_cast<tegula_blob*>(state.other);
    const std::string text = std::string(name) == "a.tile"      ? "import \"b.tile\" as b;\nfn one() { return b.one(); }\n"
                             : std::string(name) == "b.tile"    ? "fn one() { return 1.0; }\n"
                             : std::string(name) == "loop.tile" ? "import \"loop.tile\" as l;\n"
                                                                : "";
    return text.empty() ? nullptr : tegula_blob_new(text.data(), text.size());
}

TEST(Imports, ComeFromTheHost) {
    Imports state;
    tegula_engine_options options;
    tegula_engine_options_init(&options, sizeof options);
    options.import_ = import_text;
    options.user = &state;
    tegula::Ref<tegula_engine> engine;
    ASSERT_EQ(tegula_engine_new(&options, engine.out(), nullptr), TEGULA_OK);
    tegula::Ref<tegula_module> m;
    Diags diags;
    const auto load = [&](const std::string& source) {
        return tegula_module_from_source(engine.get(), "main.tile", source.data(), source.size(), m.out(), diags.out());
    };
    EXPECT_EQ(load("import \"a.tile\" as a;\ntest \"t\" { assert(a.one() == 1.0); }\n"), TEGULA_OK) << text(diags);
    EXPECT_EQ(tegula_test(m.get(), nullptr, nullptr, nullptr, nullptr, diags.out()), TEGULA_OK) << text(diags);
    EXPECT_EQ(state.calls, 2);
    EXPECT_EQ(load("import \"gone.tile\" as g;\nimport \"gone.tile\" as h;\n"), TEGULA_E_SOURCE);
    EXPECT_TRUE(contains(text(diags), "gone.tile"));
    EXPECT_EQ(load("import \"loop.tile\" as l;\n"), TEGULA_E_SOURCE);
    EXPECT_TRUE(contains(text(diags), "import chain")) << text(diags);
    for (const char* path : {"../a.tile", "/etc/passwd", "a/../b.tile", ""}) {
        EXPECT_EQ(load("import \"" + std::string(path) + "\" as x;\n"), TEGULA_E_SOURCE) << path;
        EXPECT_EQ(m.get(), nullptr);
    }
    state.throws = true;
    EXPECT_EQ(load("import \"a.tile\" as a;\n"), TEGULA_E_USAGE) << "an exception of a callback ends at the border";
    EXPECT_TRUE(contains(text(diags), "callback `import_` threw")) << text(diags);
    state.throws = false;
    state.other = engine.get();
    EXPECT_EQ(load("import \"a.tile\" as a;\n"), TEGULA_E_USAGE);
    EXPECT_TRUE(contains(text(diags), "callback `import_` returned no blob: blob is the handle of an engine")) << text(diags);
}

TEST_F(Api, TextsOfStages) {
    tegula_blob* blob = nullptr;
    Diags diags;
    const std::pair<const char*, const char*> module_kinds[] = {
        {"tokens", "kernel"}, {"ast", "add"}, {"fmt", "kernel add"}, {"doc", "Adds."}, {"json", "\"name\":\"add\""}};
    for (const auto& [kind, part] : module_kinds) {
        ASSERT_EQ(tegula_module_artifact(module.get(), kind, &blob, diags.out()), TEGULA_OK) << kind;
        EXPECT_TRUE(contains(blob_text(blob), part)) << kind;
    }
    EXPECT_EQ(tegula_module_artifact(module.get(), "bogus", &blob, diags.out()), TEGULA_E_USAGE);
    tegula::Ref<tegula_kernel> kernel;
    const tegula_value b = integer(16, "B");
    ASSERT_EQ(tegula_compile(module.get(), "add", &b, 1, nullptr, kernel.out(), diags.out()), TEGULA_OK) << text(diags);
    const std::pair<const char*, const char*> kernel_kinds[] = {
        {"ir", "add"}, {"ir:final", "[16]"}, {"ir:after=dce", "// after dce"}, {"explain", "no products"},
        {"explain-json@sm_80", "\"kind\":\"no products\""}, {"json", "\"B\":\"16\""}};
    for (const auto& [kind, part] : kernel_kinds) {
        ASSERT_EQ(tegula_kernel_artifact(kernel.get(), kind, &blob, diags.out()), TEGULA_OK) << kind;
        const std::string got = blob_text(blob);
        EXPECT_TRUE(contains(got, part)) << kind << ": " << got;
    }
    for (const char* kind : {"", "ir:", "ir:after=", "ir:after=bogus"}) {
        EXPECT_EQ(tegula_kernel_artifact(kernel.get(), kind, &blob, diags.out()), TEGULA_E_USAGE) << kind;
        EXPECT_EQ(blob, nullptr);
    }
    ASSERT_EQ(tegula_dump(engine.get(), nullptr, "fn  f( ) {return 1;}", 20, "fmt", &blob, diags.out()), TEGULA_OK) << text(diags);
    EXPECT_TRUE(contains(blob_text(blob), "fn f()"));
    EXPECT_EQ(tegula_dump(engine.get(), "x", "fn f( {", 7, "ast", &blob, diags.out()), TEGULA_E_SOURCE);
    EXPECT_EQ(tegula_dump(engine.get(), "x", "", 0, "soup", &blob, diags.out()), TEGULA_E_USAGE);
    ASSERT_EQ(tegula_describe(engine.get(), &blob), TEGULA_OK);
    EXPECT_TRUE(contains(blob_text(blob), "\"name\":\"interp\""));
}

TEST_F(Api, CompileErrors) {
    tegula::Ref<tegula_kernel> kernel;
    Diags diags;
    EXPECT_EQ(tegula_compile(module.get(), "addd", nullptr, 0, nullptr, kernel.out(), diags.out()), TEGULA_E_USAGE);
    EXPECT_TRUE(contains(text(diags), "did you mean `add`"));
    EXPECT_EQ(tegula_compile(module.get(), "wrong_inside", nullptr, 0, nullptr, kernel.out(), diags.out()), TEGULA_E_SOURCE);
    EXPECT_EQ(tegula_module_check(module.get(), diags.out()), TEGULA_E_SOURCE);
    tegula_value garbage{};
    garbage.name = "B";
    std::memset(&garbage.kind, 0x7f, sizeof garbage.kind);
    EXPECT_EQ(tegula_compile(module.get(), "add", &garbage, 1, nullptr, kernel.out(), diags.out()), TEGULA_E_USAGE);
    tegula_value type{};
    type.name = "T";
    type.kind = TEGULA_TYPE;
    for (const char* bad : {static_cast<const char*>(nullptr), "", "f99", "f32)", "block<", "\xff\xfe"}) {
        type.type = bad;
        EXPECT_EQ(tegula_compile(module.get(), "add", &type, 1, nullptr, kernel.out(), diags.out()), TEGULA_E_USAGE) << (bad ? bad : "NULL");
        EXPECT_EQ(tegula_diags_count(diags.get()), 1u) << text(diags);
    }
    type.type = "f16";
    EXPECT_EQ(tegula_compile(module.get(), "add", &type, 1, nullptr, kernel.out(), diags.out()), TEGULA_OK) << text(diags);
    const tegula_value twice[] = {type, type};
    EXPECT_EQ(tegula_compile(module.get(), "add", twice, 2, nullptr, kernel.out(), diags.out()), TEGULA_E_USAGE);
    const tegula_value unknown = integer(1, "Q");
    EXPECT_EQ(tegula_compile(module.get(), "add", &unknown, 1, nullptr, kernel.out(), diags.out()), TEGULA_E_SOURCE);
    const tegula_value unnamed = integer(1);
    EXPECT_EQ(tegula_compile(module.get(), "add", &unnamed, 1, nullptr, kernel.out(), diags.out()), TEGULA_E_USAGE);
}

TEST(Wrapper, NamesBothVersionsOfAnAbi) {
    const std::string both = another_abi();  // of headers of version 77
    EXPECT_TRUE(contains(both, "ABI 77") && contains(both, "ABI " + std::to_string(TEGULA_ABI_VERSION))) << both;
}

TEST(Wrapper, WorksAndThrowsOnlyFromValue) {
    auto engine = tegula::Engine::create().value();
    auto module = engine.load(kSource, "small.tile").value();
    std::vector<float> x{1, 2, 3}, z(3);
    EXPECT_TRUE(module.launch("scaled", {}, {tegula::Tensor(x.data(), {3}), 2.0, tegula::Tensor(z.data(), {3})}));
    EXPECT_EQ(z, (std::vector<float>{2, 4, 6}));
    auto kernel = module.compile("scaled", {}).value();
    EXPECT_TRUE(kernel.launch({tegula::Tensor(x.data(), {3}), -1.0, tegula::Tensor(z.data(), {3})}));
    EXPECT_EQ(z, (std::vector<float>{-1, -2, -3}));
    EXPECT_TRUE(contains(kernel.artifact("json").value(), "scaled"));
    EXPECT_TRUE(contains(module.artifact("doc").value(), "Adds."));
    EXPECT_TRUE(contains(engine.describe(), "formats"));
    EXPECT_TRUE(contains(engine.dump("fn f() { }", "x", "tokens").value(), "fn"));
    const int64_t extents[] = {5};
    EXPECT_EQ(module.tensor_bytes("i3", "row", extents).value().elements, 2u);
    EXPECT_EQ(module.layout_hash("row").value(), module.layout_hash("").value());
    EXPECT_FALSE(module.layout_hash("nope"));
    std::vector<uint8_t> packed(2);
    std::vector<int8_t> wide{1, -2, 3, -4, 0};
    EXPECT_TRUE(module.copy(tegula::Tensor(packed.data(), 2, "i3", {5}), tegula::Tensor(wide.data(), {5})));
    EXPECT_EQ(packed, (std::vector<uint8_t>{0b11110001, 0b00001000}));  // 001 110 011 100 000, lowest first
    auto failed = engine.load("fn f( {");
    EXPECT_FALSE(failed);
    EXPECT_EQ(failed.status(), TEGULA_E_SOURCE);
    EXPECT_GT(failed.diagnostics().size(), 0u);
    EXPECT_THROW(failed.value(), tegula::Error);
    EXPECT_EQ(engine.load_file("/nowhere.tile").status(), TEGULA_E_IO);
}

}  // namespace
