// Kernel instances: elaborate, run passes, prepare for a machine, cache by (kernel, generics, passes). Also the text artifacts of each stage.
#include <algorithm>

#include "jit/engine/engine.h"
#include "jit/engine/host_check.h"
#include "lang/ir_text.h"
#include "lang/kernel/text.h"
#include "lower/kernel/lower.h"
#include "lower/lower.h"
#include "parser/parse.h"
#include "sema/recovery.h"
#include "sema/signature.h"

namespace tegula {

namespace {

std::string instance_key(const ast::KernelItem& kernel, const sema::StaticValues& generics, const std::vector<std::string>& disabled,
                         const TypeTable& types) {
    std::string key(kernel.name.text);
    for (const auto& [name, value] : generics) key += '\n' + name + '=' + sema::key_text(value, types);
    for (const std::string& pass : disabled) key += "\n-" + pass;
    return key;
}

PassOptions pass_options(const sema::Instance& instance, const std::vector<std::string>& disabled) {
    PassOptions options;
    options.disabled = disabled;
    static_cast<LaunchFacts&>(options) = instance.facts;
    return options;
}

bool is_cpu_artifact(std::string_view kind) {
    for (const std::string_view one : {"llvm", "llvm-opt", "llvm-lines", "asm", "asm-lines", "llvm@aarch64", "llvm@armv8.6-a"})
        if (kind == one) return true;
    return false;
}

bool is_compiled_artifact(std::string_view kind) {
    return kind == "cuda" || kind == "ptx" || kind == "ptx-lines" || kind == "cubin" || kind == "cubin-lines" || kind == "resources";
}

constexpr std::string_view kPicture = "picture:";

bool is_explanation(std::string_view kind) { return kind == "explain" || kind == "explain-json"; }

bool is_gpu_artifact(std::string_view kind) {
    return kind == "ir:gpu" || kind == "kernel" || kind.starts_with("ir:gpu:") || kind.starts_with("kernel:") || is_compiled_artifact(kind);
}

std::string arch_list() {
    std::string list;
    for (const Arch& a : all_archs()) list += std::string(list.empty() ? "KIND@ARCH with ARCH one of " : ", ") + a.name;
    return list;
}

std::string describe_instance(const Executable& exe, const TypeTable& types) {
    std::string out = "{\"schema\":1,\"kernel\":" + json_quote(exe.kernel->name.text) + ",\"generics\":{";
    const char* separator = "";
    for (const auto& [name, value] : exe.generics) {
        out += separator + json_quote(name) + ":" + json_quote(sema::to_string(value, types));
        separator = ",";
    }
    out += "},\"parameters\":[";
    separator = "";
    for (const sema::KernelParam& p : exe.instance.params) {
        static constexpr const char* kModes[] = {"in", "out", "inout"};
        static constexpr const char* kKinds[] = {"absent", "tensor", "pointer", "scalar"};
        out += separator + ("{\"name\":" + json_quote(p.name)) + ",\"kind\":\"" + kKinds[p.kind] + "\",\"mode\":\"" +
               kModes[static_cast<int>(p.mode)] + "\",\"type\":" + json_quote(types.format(p.elem).name);
        if (p.kind == sema::ArgumentType::tensor) {
            out += ",\"layout\":" + json_quote(types.layout(p.layout).name()) + ",\"extents\":[";
            for (size_t i = 0; i < p.extents.size(); ++i) out += (i ? "," : "") + std::to_string(p.extents[i]);
            out += "]";
        }
        out += "}";
        separator = ",";
    }
    return out + "],\"instructions\":" + std::to_string(exe.instance.fn->inst_count()) + "}\n";
}

}  // namespace

std::shared_ptr<const Executable> Engine::compile(LoadedModule& module, const ast::KernelItem& kernel, const sema::StaticValues& generics,
                                                  const std::vector<std::string>& disabled, DiagSink& diags, const sema::StaticValues* given,
                                                  const std::atomic<bool>* cancel) {
    std::string key = instance_key(kernel, generics, disabled, module.types());
    if (given) key += "\n?" + instance_key(kernel, *given, {}, module.types());
    sema::Limits limits;
    limits.cancel = cancel;
    {
        std::lock_guard lock(module.mutex_);
        if (auto it = module.instances_.find(key); it != module.instances_.end()) return it->second;
        if (module.instances_.size() >= limits.instances) {
            diags.report(Diag::instance_budget, kernel.name.span, {std::to_string(limits.instances)});
            return nullptr;
        }
    }
    auto instance = sema::elaborate_kernel(module, kernel, generics, module.types(), limits, diags);
    if (!instance) return nullptr;
    auto exe = std::make_shared<Executable>();
    exe->home = &module;
    exe->kernel = &kernel;
    exe->generics = generics;
    exe->disabled_passes = disabled;
    if (given) exe->given = *given;
    exe->instance = std::move(*instance);
    for (const std::string& name : exe->instance.extents)
        if (const auto it = given ? given->find(name) : generics.end(); given && it != given->end())
            if (const auto* value = std::get_if<__int128>(&it->second.v); value && *value >= 0 && *value <= INT64_MAX)
                exe->instance.named_extents.emplace(name, static_cast<int64_t>(*value));
    if (options_.on_elaborated) options_.on_elaborated(*exe->instance.fn);
    PassOptions passes = pass_options(exe->instance, disabled);
    passes.cancel = cancel;
    run_passes(*exe->instance.fn, passes);
    keep_plain(exe->instance);
    exe->program = interp::Program::prepare(*exe->instance.fn);
    std::lock_guard lock(module.mutex_);
    // Another thread may have been first; both results are equal, keep one.
    return module.instances_.emplace(key, std::move(exe)).first->second;
}

std::shared_ptr<const Executable> Engine::compile_named(LoadedModule& module, std::string_view name, const sema::StaticValues& given,
                                                        const std::vector<std::string>& disabled, DiagSink& diags, Status& status) {
    const auto [home, kernel] = find_kernel(module, name, diags);
    status = Status::usage;
    if (!kernel) return nullptr;
    status = Status::source;
    auto generics = sema::bind_static(*home, *kernel, given, home->types(), diags, true);
    if (!generics) return nullptr;
    const bool extents = std::any_of(given.begin(), given.end(), [&](const auto& value) { return generics->find(value.first) == generics->end(); });
    auto exe = compile(*home, *kernel, *generics, disabled, diags, extents || leaves_choices(*kernel, given) ? &given : nullptr);
    if (exe) status = Status::ok;
    return exe;
}

std::pair<LoadedModule*, const ast::KernelItem*> Engine::find_kernel(LoadedModule& module, std::string_view name, DiagSink& diags) {
    const size_t dot = name.find('.');
    LoadedModule* imported = dot == name.npos ? nullptr : module.imported(name.substr(0, dot));
    LoadedModule& home = imported ? *imported : module;
    const std::string_view item_name = imported ? name.substr(dot + 1) : name;
    if (const ast::KernelItem* kernel = home.kernel(item_name)) return {&home, kernel};
    std::vector<std::string_view> names;
    std::string list;
    for (const ast::Item* item : items_of(home))
        if (item->kind == ast::ItemKind::kernel) {
            names.push_back(item->name.text);
            list += (list.empty() ? "" : ", ") + std::string(item->name.text);
        }
    auto& d = diags.report(Diag::no_such_kernel, {}, {printable(item_name), printable(home.name)});
    if (auto near = closest(item_name, names); !near.empty()) d.notes.push_back("did you mean `" + std::string(near) + "`?");
    d.notes.push_back(list.empty() ? "the file has no kernel" : "kernels: " + list);
    return {nullptr, nullptr};
}

void Engine::check_instances(LoadedModule& module, DiagSink& diags) {
    const size_t before = diags.all().size();
    check_bodies(module, diags);
    settle_changes(module.source, loading_of(module.source, module.directory), diags, before);
    diags.sort();
}

void Engine::check_bodies(LoadedModule& module, DiagSink& diags, const std::atomic<bool>* cancel, const ItemFilter& wanted) {
    sema::Limits limits;
    limits.cancel = cancel;
    for (const ast::Item* item : module.ast->items) {
        if (diags.full()) break;
        if (!wanted || wanted(*item)) check_body(module, *item, diags, limits);
    }
    check_host_blocks(*this, module, diags, cancel, wanted);
}

void Engine::check_body(LoadedModule& module, const ast::Item& item, DiagSink& diags, const sema::Limits& limits) {
    if (item.kind == ast::ItemKind::fn) sema::check_function(module, ast::as<ast::FnItem>(&item), module.types(), limits, diags);
    if (item.kind != ast::ItemKind::kernel || module.recovery.without_instance.contains(&item)) return;
    const auto& kernel = ast::as<ast::KernelItem>(&item);
    const bool generic = sema::is_generic(kernel);
    const auto generics =
        generic ? std::optional<sema::StaticValues>(std::in_place) : sema::bind_static(module, kernel, {}, module.types(), diags, false);
    if (!generics) return;
    if (generic || !std::ranges::all_of(kernel.generics, [&](const ast::GenericParam& p) { return generics->count(p.name.text) != 0; }))
        sema::check_kernel(module, kernel, module.types(), limits, diags);
    else if (diags.has_errors() || module.recorder)  // whose code nobody will run
        sema::elaborate_kernel(module, kernel, *generics, module.types(), limits, diags);
    else
        compile(module, kernel, *generics, {}, diags, nullptr, limits.cancel);
}

void Engine::check_launch(LoadedModule& module, const ast::KernelItem& kernel, const sema::StaticValues& generics,
                          std::span<const LaunchArgument> args, bool elaborated, DiagSink& diags, Span at) {
    std::vector<const LaunchArgument*> ordered;
    const auto plan = bind(module, kernel, generics, args, false, ordered, diags, at);
    if (!plan || !elaborated) return;
    sema::Limits limits;
    limits.cancel = &cancelled_;
    sema::elaborate_kernel(module, kernel, plan->generics, module.types(), limits, diags);
}

std::optional<std::string> Engine::artifact(LoadedModule& module, const Executable& exe, std::string_view kind, DiagSink& diags) {
    if (kind == "json") return describe_instance(exe, module.types());
    if (kind.starts_with(kPicture)) try {
            return picture(module, &exe, kind.substr(kPicture.size()), diags);
        } catch (const Cancelled&) {
            diags.report(Diag::run_cancelled, exe.kernel->name.span);
            return std::nullopt;
        }
    if (kind == "ir:final") return ir::print(*exe.instance.fn);
    const size_t at = kind.find('@');
    if (const std::string_view stage = kind.substr(0, at); is_gpu_artifact(stage) || is_explanation(stage) || is_cpu_artifact(kind)) {
        const std::string_view target = at == kind.npos ? "sm_90a" : kind.substr(at + 1);
        const Arch* arch = find_arch(target);
        try {
            if (is_cpu_artifact(kind)) return cpu().artifact(exe.instance, exe.disabled_passes, kind, nullptr, &cancelled_, diags);
            if (arch && !arch->is_ptx() && at != kind.npos && target != arch->name)
                diags.report(Diag::other_arch, {}, {printable(target), std::string(arch->name)});
            if (is_explanation(stage) && (arch || target == "cpu")) {
                const auto made = explain(module, exe, arch, diags);
                return !made ? std::nullopt : std::optional(stage == "explain" ? made->text(sources_) : made->json(sources_));
            }
            if (const auto tuned = arch ? tuned_for(module, exe, *arch, diags) : nullptr) return gpu_artifact(*tuned, stage, *arch, diags);
            if (arch) return std::nullopt;
        } catch (const Cancelled&) {
            diags.report(Diag::run_cancelled, exe.kernel->name.span);
            return std::nullopt;
        }
        diags.report(Diag::no_such_artifact, {}, {printable(kind), arch_list()});
        return std::nullopt;
    }
    auto fresh = sema::elaborate_kernel(module, *exe.kernel, exe.generics, module.types(), {}, diags);
    if (!fresh) return std::nullopt;
    if (kind == "ir") return ir::print(*fresh->fn);
    if (kind.substr(0, 9) == "ir:after=") {
        const std::string_view wanted = kind.substr(9);
        if (!check_passes({std::string(wanted)}, diags)) return std::nullopt;
        std::string text;
        PassOptions options = pass_options(*fresh, {});
        int round = 0;
        options.after = [&text, &round, wanted](std::string_view pass, bool changed, const ir::Function& fn) {
            if (pass != wanted) return;
            text += "// after " + std::string(pass) + (round++ ? " (" + std::to_string(round) + ")" : "") +
                    (changed ? "\n" + ir::print(fn) : ": unchanged\n");
        };
        run_passes(*fresh->fn, options);
        return text;
    }
    diags.report(
        Diag::no_such_artifact, {},
        {printable(kind),
         "ir, ir:after=PASS, ir:final, explain, explain-json, json, ir:gpu, ir:gpu:after=PASS, kernel, kernel:after=PASS, cuda, ptx, ptx-lines, cubin, cubin-lines, resources, "
         "llvm, "
         "llvm@aarch64, llvm@armv8.6-a, "
         "llvm-opt, llvm-lines, asm, asm-lines, explain@cpu, explain-json@cpu, picture:KIND"});
    return std::nullopt;
}

std::shared_ptr<const Executable> Engine::tuned_for(LoadedModule& module, const Executable& exe, const Arch& arch, DiagSink& diags,
                                                    std::optional<explain::Tune>* told) {
    if (!exe.given || !leaves_choices(*exe.kernel, *exe.given)) return {std::shared_ptr<void>(), &exe};
    TuneByEstimate chooser(module.tuned_, module, *exe.kernel, module.types(), arch, &cancelled_, told);
    const auto generics = sema::bind_static(module, *exe.kernel, *exe.given, module.types(), diags, true, &chooser, TuneByEstimate::kNominalExtent);
    return generics ? compile(module, *exe.kernel, *generics, exe.disabled_passes, diags, &*exe.given, &cancelled_) : nullptr;
}

std::optional<std::string> Engine::gpu_artifact(const Executable& exe, std::string_view kind, const Arch& arch, DiagSink& diags) {
    if (kind.starts_with("cubin") && arch.is_ptx()) {
        diags.report(Diag::no_such_artifact, {}, {"cubin@" + std::string(arch.name), "ptx@" + std::string(arch.name) + ", which drivers translate"});
        return std::nullopt;
    }
    if (is_compiled_artifact(kind)) {
        auto made = cuda().artifact(exe.instance, exe.disabled_passes, kind, &arch, &cancelled_, diags);
        report_warning(cuda(), diags);
        return made;
    }
    GpuOptions options = usual_options(exe.instance, arch, exe.disabled_passes);
    options.cancel = &cancelled_;
    std::string text;
    constexpr std::string_view kAfter = ":after=";
    const size_t at = kind.find(kAfter);
    const std::string_view stage = kind.substr(0, at), wanted = at == kind.npos ? "" : kind.substr(at + kAfter.size());
    const bool of_kernel = stage == "kernel";
    if (!of_kernel && !wanted.empty()) {
        options.after = [&text, wanted](std::string_view pass, bool changed, const ir::Function& fn) {
            if (pass == wanted) text += "// after " + std::string(pass) + (changed ? "\n" + ir::print(fn) : ": unchanged\n");
        };
    }
    const ir::Function fn = lowered_for_gpu(exe.instance, options);
    if (kind == "ir:gpu") return ir::print(fn);
    if (of_kernel) {
        const auto take = [&text, kind, wanted](std::string_view pass, const std::string& plan) {
            if (kind == "kernel")
                text = plan;
            else if (pass == wanted)
                text = "// after " + std::string(pass) + "\n" + plan;
        };
        const KernelText kernel = lower_to_kernel(fn, nullptr, {exe.disabled_passes, take});
        if (kind == "kernel") return text + kernel::dump(kernel.form);
    }
    if (!text.empty()) return text;
    std::string list;
    for (std::string_view name : of_kernel ? kernel_pass_names() : gpu_pass_names()) list += (list.empty() ? "" : ", ") + std::string(name);
    diags.report(Diag::no_such_pass, {}, {printable(wanted)}).notes.push_back((of_kernel ? "passes of lowering: " : "passes for a GPU: ") + list);
    return std::nullopt;
}

std::optional<std::string> Engine::artifact(LoadedModule& module, std::string_view kind, DiagSink& diags) {
    if (kind.starts_with(kPicture)) return picture(module, nullptr, kind.substr(kPicture.size()), diags);
    if (kind == "tokens") return dump_tokens(sources_, module.source->id, diags);
    if (kind == "ast") return dump_ast(*module.ast);
    if (kind == "fmt") return format_source(sources_, module.source->id, diags);
    const size_t colon = kind.find(':');
    const LoadedModule* described = colon == kind.npos ? &module : module.imported(kind.substr(colon + 1));
    if (described && kind.substr(0, colon) == "doc") return document_module(*described, sources_);
    if (described && kind.substr(0, colon) == "json") return describe_module(*described, sources_);
    diags.report(Diag::no_such_artifact, {},
                 {printable(kind), "tokens, ast, fmt, doc, json, picture:KIND:TYPE, and of an import doc:NAME and json:NAME"});
    return std::nullopt;
}

std::optional<std::string> Engine::dump(const std::string& name, std::string text, std::string_view kind, DiagSink& diags) {
    const Snippet source(sources_, name.c_str(), std::move(text), diags);
    const uint32_t file = source.file();
    if (kind == "tokens") return dump_tokens(sources_, file, diags);
    if (kind == "fmt") return format_source(sources_, file, diags);
    if (kind != "ast") {
        diags.report(Diag::no_such_artifact, {}, {printable(kind), "tokens, ast, fmt"});
        return std::nullopt;
    }
    Arena arena;
    const ast::Module* parsed = parse_module(sources_, file, arena, diags);
    if (!parsed || diags.has_errors()) return std::nullopt;
    return dump_ast(*parsed);
}

bool Engine::check_passes(const std::vector<std::string>& names, DiagSink& diags) {
    auto known = pass_names();
    for (const auto& more : {gpu_pass_names(), kernel_pass_names()}) known.insert(known.end(), more.begin(), more.end());
    for (const std::string& name : names) {
        if (name == "all" || std::find(known.begin(), known.end(), name) != known.end()) continue;
        std::string list;
        for (std::string_view n : known) list += (list.empty() ? "" : ", ") + std::string(n);
        diags.report(Diag::no_such_pass, {}, {printable(name)}).notes.push_back("passes: " + list);
        return false;
    }
    return true;
}

std::optional<FormatId> Engine::parse_type(LoadedModule& module, const std::string& text, DiagSink& diags) {
    if (auto builtin = module.types().builtin(text)) return builtin;
    Arena arena;
    const Snippet source(sources_, "<type>", text, diags);
    const ast::Expr* e = parse_expression(sources_, source.file(), arena, diags);
    if (!e || diags.has_errors()) return std::nullopt;
    return sema::evaluate_format(
        module, *e, [](const ast::Expr&) { return std::nullopt; }, module.types(), diags);
}

std::optional<sema::Choice> choice_for(LoadedModule& module, const ast::KernelItem& kernel, std::string_view generic, std::string text) {
    const auto param = std::ranges::find(kernel.generics, generic, [](const ast::GenericParam& p) { return p.name.text; });
    if (param == kernel.generics.end() || !sema::takes_choice(sema::bound_of(*param))) return std::nullopt;
    sema::Choice out{std::move(text), sema::bound_of(*param) == "fn"};
    if (out.is_function) out.scope = &module;
    return out;
}

std::optional<LayoutId> Engine::parse_layout(LoadedModule& module, const std::string& text, DiagSink& diags) {
    if (text.empty() || text == "row") return module.types().intern(Layout::row());
    if (text == "col") return module.types().intern(Layout::col());
    Arena arena;
    const Snippet source(sources_, "<layout>", text, diags);
    const ast::Expr* e = parse_expression(sources_, source.file(), arena, diags);
    if (!e || diags.has_errors()) return std::nullopt;
    return sema::evaluate_layout(
        module, *e, [](const ast::Expr&) { return std::nullopt; }, module.types(), diags);
}

}  // namespace tegula
