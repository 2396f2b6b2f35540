// The kernels of the examples as IR text after the shared passes, for tests that compile them without running them.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "jit/engine/host.h"
#include "lang/ir_text.h"
#include "lower/lower.h"
#include "tests/unit/test_files.h"

namespace tegula::test {

/// Kernel instances of a file, as text after the shared passes: those its tests launch, and the one that defaults give.
class Instances {
public:
    explicit Instances(const std::filesystem::path& file) {
        EngineOptions options;
        options.on_elaborated = [this](const ir::Function& fn) {
            if (!fn.is_kernel) return;
            const std::lock_guard lock(mutex_);
            ir::Function copy = fn;
            run_passes(copy, {});
            texts_.emplace(ir::print(copy), fn.name);
        };
        options.import_root = file.parent_path().string();
        const auto engine = Engine::create(options);
        DiagSink diags;
        module_ = engine->load(file.string(), read(file), options.import_root, diags);
        EXPECT_TRUE(module_ != nullptr) << file;
        if (!module_) return;
        for (const ast::Item* item : module_->ast->items)
            if (item->kind == ast::ItemKind::kernel) give_types(*engine, ast::as<ast::KernelItem>(item));
        LaunchOptions launch;
        launch.checked = true;
        run_tests(*engine, *module_, "", launch, [&](TestResult& r) {
            EXPECT_EQ(r.status, Status::ok) << file << ": " << r.name << ": " << (r.diagnostics.empty() ? "" : r.diagnostics[0].message);
        });
    }
    const std::map<std::string, std::string>& texts() const { return texts_; }
    std::vector<std::string> kernel_names() const {
        std::vector<std::string> out;
        for (const ast::Item* item : module_->ast->items)
            if (item->kind == ast::ItemKind::kernel) out.emplace_back(item->name.text);
        return out;
    }

private:
    /// The kernel with its defaults, where a type has none each of the usual ones, where a number has none a usual size. What does not fit its
    /// bounds makes no instance.
    void give_types(Engine& engine, const ast::KernelItem& kernel) {
        for (const Fmt type : {Fmt::f32, Fmt::f16, Fmt::bf16, Fmt::i8}) {
            sema::StaticValues given;
            for (const ast::GenericParam& p : kernel.generics) {
                if (p.default_value || !p.bound) continue;
                const bool number = module_->engine->sources().text(p.bound->span) == "int";
                given[std::string(p.name.text)].v =
                    number ? decltype(sema::StaticValue::v)(int64_t{64}) : decltype(sema::StaticValue::v)(id_of(type));
            }
            DiagSink refused;
            Status status;
            engine.compile_named(*module_, kernel.name.text, given, {}, refused, status);
        }
    }

    std::mutex mutex_;
    std::map<std::string, std::string> texts_;  ///< IR text -> kernel
    ModulePtr module_;
};

struct Example {
    std::string file, kernel, text;
    std::string name() const { return file + "." + kernel; }
};

inline const std::vector<Example>& examples() {
    static const std::vector<Example> all = [] {
        std::vector<Example> out;
        for (const std::filesystem::path& file : tile_files("examples")) {
            const Instances instances(file);
            for (const auto& [text, kernel] : instances.texts()) out.push_back({file.stem().string(), kernel, text});
            for (const std::string& kernel : instances.kernel_names()) {
                const bool seen = std::any_of(instances.texts().begin(), instances.texts().end(), [&](const auto& i) { return i.second == kernel; });
                EXPECT_TRUE(seen) << file << ": no instance of kernel `" << kernel << "`";
            }
        }
        return out;
    }();
    return all;
}

}  // namespace tegula::test
