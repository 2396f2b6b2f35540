// Pictures: which kinds there are, and what each is shown of. jit/picture makes them.
#include <algorithm>
#include <charconv>

#include "jit/engine/engine.h"
#include "jit/engine/tune.h"
#include "jit/picture/builders.h"
#include "jit/picture/source.h"
#include "lang/ir_text.h"
#include "lower/gpu/gpu.h"

namespace tegula {

namespace {

using picture::KernelView;
using picture::Picture;
using picture::Subject;

struct Kind {
    std::string_view name;
    Picture (*of_types)(std::span<const Subject>, const TypeTable&);  ///< null: none
    bool extents;                                                     ///< of types: those of tensors are needed
    Picture (*of_kernel)(const KernelView&);
};
constexpr Kind kKinds[] = {
    {"layout", picture::layout_picture, true, nullptr},
    {"bits", picture::bits_picture, true, nullptr},
    {"format", picture::format_picture, false, nullptr},
    {"fragment", nullptr, false, picture::fragment_picture},
    {"place", nullptr, false, picture::place_picture},
    {"banks", picture::banks_picture, true, picture::kernel_banks_picture},
    {"sectors", nullptr, false, picture::sectors_picture},
    {"convert", nullptr, false, picture::convert_picture},
    {"pipeline", nullptr, false, picture::pipeline_picture},
    {"smem", nullptr, false, picture::smem_picture},
    {"resources", nullptr, false, picture::resources_picture},
    {"roofline", nullptr, false, picture::roofline_picture},
    {"grid", nullptr, false, picture::grid_picture},
    {"tune", nullptr, false, picture::tune_picture},
    {"source", nullptr, false, nullptr},
};

constexpr std::string_view kBlanks = " \t";
std::string_view trimmed(std::string_view text) {
    const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
    return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// The extents in brackets at the end of a text, which are taken away; nullopt: there are none.
std::optional<std::vector<int64_t>> take_extents(std::string_view& text) {
    if (!text.ends_with(']')) return std::nullopt;
    const size_t open = text.rfind('[');
    if (open == text.npos) return std::nullopt;
    std::vector<int64_t> out;
    std::string_view list = trimmed(text.substr(open + 1, text.size() - open - 2));
    while (!list.empty()) {
        const size_t comma = std::min(list.find(','), list.size());
        const std::string_view item = trimmed(list.substr(0, comma));
        int64_t v = 0;
        const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), v);
        if (error != std::errc() || end != item.data() + item.size() || v < 0 || out.size() >= kMaxRank) return std::nullopt;
        out.push_back(v);
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    text = trimmed(text.substr(0, open));
    return out;
}

/// Where `@` stands outside of all brackets.
size_t at_sign(std::string_view text) {
    int depth = 0;
    for (size_t i = 0; i < text.size(); ++i) {
        depth += text[i] == '<' || text[i] == '[' || text[i] == '(';
        depth -= text[i] == '>' || text[i] == ']' || text[i] == ')';
        if (text[i] == '@' && depth == 0) return i;
    }
    return text.npos;
}

std::string type_text(const TypeTable& types, const Subject& s) {
    const std::string& format = types.format(s.format).name;
    std::string out = format.size() > 60 ? format.substr(0, 60) + ".." : format;
    for (size_t d = 0; d < s.extents.size(); ++d) out += (d ? ", " : "[") + std::to_string(s.extents[d]);
    if (!s.extents.empty()) out += "]";
    const Layout& layout = types.layout(s.layout);
    return out + (layout.kind() == Layout::Kind::row ? "" : " @ " + layout.name());
}

/// A tensor of these extents in this order is one that the language has.
std::string extents_problem(const Layout& layout, std::span<const int64_t> extents, unsigned bits) {
    if (std::string problem = layout.problem(); !problem.empty()) return problem;
    if (layout.rank() >= 0 && static_cast<size_t>(layout.rank()) != extents.size())
        return "layout `" + layout.name() + "` takes " + std::to_string(layout.rank()) + " extents, here are " + std::to_string(extents.size());
    if (layout.storage_bytes(extents, bits) < 0) return "its storage is larger than 2^56 elements";
    return "";
}

}  // namespace

std::string picture_kinds() {
    std::string out;
    for (const Kind& k : kKinds) out += (out.empty() ? "" : ", ") + std::string(k.name);
    return out;
}

namespace {

/// A picture in the making: its kind, what is shown, and where it goes wrong.
class PictureMaker {
public:
    PictureMaker(Engine& engine, LoadedModule& module, const Executable* exe, const Kind& kind, const Arch& arch, std::string_view what,
                 DiagSink& diags)
        : engine_(engine), module_(module), exe_(exe), kind_(kind), arch_(arch), what_(trimmed(what)), diags_(diags) {}

    std::optional<Picture> of_types() {
        std::vector<Subject> subjects;
        if (!(exe_ ? parameters(subjects) : named(subjects))) return std::nullopt;
        return kind_.of_types(subjects, module_.types());
    }

    /// A tensor-core instruction by its name.
    std::optional<Picture> of_instruction() {
        if (auto made = picture::instruction_picture(what_, arch_)) return made;
        const std::vector<std::string_view> names = picture::instruction_names();
        const std::string_view near = closest(what_, names);
        std::string list;
        for (const std::string_view n : names) list += (list.empty() ? "" : ", ") + std::string(n);
        refuse("`" + printable(what_) + "`", "it is neither a kernel of the file nor an instruction of tensor cores",
               near.empty() ? "instructions: " + list : "did you mean `" + std::string(near) + "`?");
        return std::nullopt;
    }

private:
    Engine& engine_;
    LoadedModule& module_;
    const Executable* exe_;
    const Kind& kind_;
    const Arch& arch_;
    std::string what_;
    DiagSink& diags_;

    bool refuse(const std::string& of, const std::string& why, const std::string& cure = "") {
        Diagnostic& d = diags_.report(Diag::no_picture, {}, {of, why});
        if (!cure.empty()) d.notes.push_back(cure);
        return false;
    }

    /// What a text names: a type, perhaps with extents and a layout.
    bool named(std::vector<Subject>& out) {
        if (what_.empty())
            return refuse("`" + std::string(kind_.name) + "`", "nothing is named that it shows", "name a type: f8e4m3, u4[16, 32] @ tiled<8, 8>");
        const size_t at = at_sign(what_);
        std::string_view type = trimmed(std::string_view(what_).substr(0, at)), layout;
        if (at != std::string::npos) layout = trimmed(std::string_view(what_).substr(at + 1));
        auto extents = layout.empty() ? std::nullopt : take_extents(layout);
        Subject s;
        DiagSink tried;  // a codebook's type ends in brackets, too
        auto format = engine_.parse_type(module_, std::string(type), tried);
        if (!extents && (kind_.extents || !format)) {
            extents = take_extents(type);
            if (extents) format = engine_.parse_type(module_, std::string(type), diags_);
        } else if (!format) {
            format = engine_.parse_type(module_, std::string(type), diags_);
        }
        if (!format && diags_.has_errors()) return false;
        if (!format) format = engine_.parse_type(module_, std::string(type), diags_);
        if (!format) return false;
        const auto order = engine_.parse_layout(module_, std::string(layout), diags_);
        if (!order) return false;
        s.format = *format, s.layout = *order;
        if (kind_.extents && !extents)
            return refuse(printable(what_), "it has no extents", "write them behind the type: " + printable(what_.substr(0, at)) + "[64, 64]");
        if (extents) s.extents = *extents;
        if (kind_.extents && !fits(printable(what_), s)) return false;
        s.type = type_text(module_.types(), s);
        out.push_back(std::move(s));
        return true;
    }

    bool fits(const std::string& name, const Subject& s) {
        const Format& f = module_.types().format(s.format);
        const std::string problem = extents_problem(module_.types().layout(s.layout), s.extents, f.bits ? f.bits : 8);
        return problem.empty() || refuse(name, problem);
    }

    /// The tensor parameters of the kernel.
    bool parameters(std::vector<Subject>& out) {
        const std::vector<sema::KernelParam>& params = exe_->instance.params;
        std::optional<sema::LaunchPlan> plan;
        if (kind_.extents && !(plan = launch())) return false;
        std::vector<std::string_view> names;
        std::string list;
        for (size_t i = 0; i < params.size(); ++i) {
            const sema::KernelParam& p = params[i];
            if (p.kind != sema::ArgumentType::tensor && (kind_.extents || p.kind == sema::ArgumentType::absent)) continue;
            names.push_back(p.name);
            list += (list.empty() ? "" : ", ") + p.name;
            if (!what_.empty() && p.name != what_) continue;
            Subject s{p.name, {}, p.elem, p.layout, {}};
            if (plan) {
                const Shape& shape = plan->arguments[i].extents;
                s.extents.assign(shape.begin(), shape.end());
                if (!fits("`" + p.name + "`", s)) return false;
            }
            s.type = type_text(module_.types(), s);
            out.push_back(std::move(s));
        }
        if (!out.empty()) return true;
        if (names.empty()) return refuse("`" + std::string(exe_->kernel->name.text) + "`", "it has no tensor parameters");
        const std::string_view near = closest(what_, names);
        return refuse("`" + printable(what_) + "`", "the kernel has no such parameter; there are " + list,
                      near.empty() ? "" : "did you mean `" + std::string(near) + "`?");
    }

    /// A launch with the extents that were given; all of them are needed.
    std::optional<sema::LaunchPlan> launch() {
        const sema::Instance& instance = exe_->instance;
        sema::StaticValues given = exe_->generics;
        for (const auto& [name, value] : instance.named_extents) given.emplace(name, sema::StaticValue{static_cast<__int128>(value)});
        DiagSink unheard;
        const auto nominal = sema::nominal_launch(module_, *exe_->kernel, given, module_.types(), unheard, TuneByEstimate::kNominalExtent);
        std::string missing;
        if (nominal)
            for (const auto& [name, value] : nominal->extents)
                if (!instance.named_extents.contains(name)) missing += " -s " + name + "=64";
        if (!missing.empty()) {
            refuse("`" + std::string(exe_->kernel->name.text) + "`", "its tensors have extents that only a launch knows", "give them:" + missing);
            return std::nullopt;
        }
        std::vector<sema::ArgumentType> arguments(instance.params.size());
        for (size_t i = 0; i < arguments.size(); ++i) {
            const sema::KernelParam& p = instance.params[i];
            arguments[i].kind = sema::ArgumentType::inferred;
            if (p.kind == sema::ArgumentType::pointer) arguments[i] = {.kind = sema::ArgumentType::pointer, .elem = p.elem, .extents = Shape{1}};
            if (p.kind != sema::ArgumentType::scalar) continue;
            arguments[i].kind = sema::ArgumentType::scalar;
            arguments[i].value = sema::StaticValue{static_cast<__int128>(1)};
            if (module_.types().format(p.elem).is_bool()) arguments[i].value = sema::StaticValue{true};
        }
        return sema::bind_launch(module_, *exe_->kernel, given, arguments, module_.types(), diags_);
    }
};

}  // namespace

std::optional<Picture> Engine::picture_of_kernel(LoadedModule& module, const Executable& exe, const Arch& arch, std::string_view of,
                                                 Picture (*make)(const KernelView&), DiagSink& diags) {
    const auto said = explain(module, exe, &arch, diags);
    const auto tuned = said ? tuned_for(module, exe, arch, diags) : nullptr;
    if (!tuned) return std::nullopt;
    GpuOptions options = usual_options(tuned->instance, arch, tuned->disabled_passes);
    options.cancel = &cancelled_;
    const ir::Function form = lowered_for_gpu(tuned->instance, options);
    KernelView view{.name = std::string(exe.kernel->name.text),
                    .form = &form,
                    .arch = &arch,
                    .said = &*said,
                    .extents = {},
                    .assumed = {},
                    .of = std::string(of),
                    .sources = &sources_,
                    .measured = {},
                    .other_launches = {}};
    sema::StaticValues given = tuned->generics;
    const auto& named = exe.instance.named_extents;
    for (const auto& [name, value] : named) given.emplace(name, sema::StaticValue{static_cast<__int128>(value)});
    DiagSink unheard;
    if (const auto plan = sema::nominal_launch(module, *exe.kernel, given, module.types(), unheard, TuneByEstimate::kNominalExtent)) {
        std::copy(std::begin(plan->grid), std::end(plan->grid), view.grid);
        for (const auto& [name, value] : plan->extents) {
            view.extents.emplace_back(name, value);
            if (!named.contains(name)) view.assumed.push_back(name);
        }
    }
    if (make == picture::tune_picture) add_measured(module, exe, arch, view);
    return make ? make(view) : picture_of_source(module, *tuned, arch, view, diags);
}

namespace {

/// The panes beside the source. Machine code of GPUs is for hosts to add, who have a disassembler.
constexpr std::string_view kPanes[] = {"ir", "ir:final", "ir:gpu", "cuda", "ptx", "sass", "llvm", "asm"};

/// The panes of a list with commas; all for an empty one. nullopt: `wrong` is none.
std::optional<std::vector<std::string_view>> panes_of(std::string_view list, std::string& wrong) {
    std::vector<std::string_view> out;
    for (std::string_view rest = list; !rest.empty();) {
        const size_t comma = std::min(rest.find(','), rest.size());
        out.push_back(trimmed(rest.substr(0, comma)));
        rest.remove_prefix(std::min(comma + 1, rest.size()));
        if (std::ranges::find(kPanes, out.back()) == std::end(kPanes)) return wrong = printable(out.back()), std::nullopt;
    }
    if (out.empty()) out.assign(std::begin(kPanes), std::end(kPanes));
    return out;
}

}  // namespace

std::optional<Picture> Engine::picture_of_source(LoadedModule& module, const Executable& exe, const Arch& arch, const KernelView& view,
                                                 DiagSink& diags) {
    std::string wrong;
    const auto panes = panes_of(view.of, wrong);
    if (!panes) {
        std::string list;
        for (const std::string_view pane : kPanes) list += (list.empty() ? "" : ", ") + std::string(pane);
        auto& d = diags.report(Diag::no_picture, {}, {"`source`", "it has no pane `" + wrong + "`"});
        if (const auto near = closest(wrong, {std::begin(kPanes), std::end(kPanes)}); !near.empty())
            d.notes.push_back("did you mean `" + std::string(near) + "`?");
        d.notes.push_back("panes: " + list);
        return std::nullopt;
    }
    const auto wanted = [&](std::string_view pane) { return std::ranges::find(*panes, pane) != panes->end(); };
    const uint32_t file = exe.kernel->name.span.file;
    const std::string name(sources_.name(file));
    std::vector<picture::Figure> stages;
    std::vector<std::string> missing;
    DiagSink unheard;  // what was said once
    const auto add_ir = [&](const char* title, const char* caption, const ir::Function& fn) {
        std::vector<Span> spans;
        const std::string text = ir::print(fn, &spans);
        stages.push_back({title, caption, picture::ir_listing(text, spans, sources_, name), {}});
    };
    /// A text whose listing `read` makes; a note says why there is none.
    const auto add = [&](const char* title, const char* caption, const auto& make, const auto& read) {
        if (!wanted(title)) return;
        DiagSink said;
        if (const auto text = make(said))
            stages.push_back({title, caption, read(*text), {}});
        else
            for (const Diagnostic& d : said.all()) missing.push_back("no " + std::string(title) + ": " + d.message);
    };
    if (wanted("ir"))
        if (const auto fresh = sema::elaborate_kernel(module, *exe.kernel, exe.generics, module.types(), {}, unheard))
            add_ir("ir", "as elaborated", *fresh->fn);
    if (wanted("ir:final")) add_ir("ir:final", "after the passes", *exe.instance.fn);
    if (wanted("ir:gpu")) add_ir("ir:gpu", "the form for a GPU", *view.form);
    const auto of_gpu = [&](const char* kind) { return [&, kind](DiagSink& said) { return gpu_artifact(exe, kind, arch, said); }; };
    const auto of_cpu = [&](const char* kind) {
        return [&, kind](DiagSink& said) { return cpu().artifact(exe.instance, exe.disabled_passes, kind, nullptr, &cancelled_, said); };
    };
    picture::Listing cuda;  // its lines are those that PTX names
    if (wanted("cuda") || wanted("ptx"))
        if (const auto text = gpu_artifact(exe, "cuda", arch, unheard)) cuda = picture::cuda_listing(*text, name);
    if (wanted("cuda")) stages.push_back({"cuda", "CUDA C++", cuda, {}});
    add("ptx", "", of_gpu("ptx-lines"), [&](std::string_view text) { return picture::ptx_listing(text, cuda); });
    add("llvm", "for this processor, optimised", of_cpu("llvm-lines"), [&](std::string_view text) { return picture::llvm_listing(text, name); });
    add("asm", "for this processor", of_cpu("asm-lines"), [&](std::string_view text) { return picture::asm_listing(text, name); });
    Picture out = picture::source_picture(view, name, sources_.text(file), std::move(stages));
    out.notes.insert(out.notes.end(), missing.begin(), missing.end());
    return out;
}

bool Engine::diff(LoadedModule& module, const TensorView& a, const TensorView& b, std::string& json, DiagSink& diags) {
    const TypeTable& types = module.types();
    const Format& f = types.format(a.elem);
    const auto refuse = [&](const std::string& why) {
        diags.report(Diag::no_picture, {}, {"two arrays", why});
        return false;
    };
    if (a.elem != b.elem) return refuse("one is of `" + f.name + "`, the other of `" + types.format(b.elem).name + "`");
    if (a.extents != b.extents) return refuse("their extents are " + to_string(a.extents) + " and " + to_string(b.extents));
    if (f.is_block()) return refuse("elements of `" + f.name + "` share scales: convert both to a float first");
    const TileData first = read_tile(types, a), second = read_tile(types, b);
    const unsigned bytes = f.container_bytes();
    const auto codes = [&](const TileData& t) {
        return [&f, bytes, data = t.bytes.data()](int64_t i) { return load_bits(f, data, static_cast<uint64_t>(i) * bytes * 8); };
    };
    Subject s{"", {}, a.elem, LayoutId{}, {a.extents.begin(), a.extents.end()}};
    json = picture::diff_picture(type_text(types, s), f, a.extents, codes(first), codes(second)).json();
    return true;
}

std::optional<std::string> Engine::picture(LoadedModule& module, const Executable* exe, std::string_view request, DiagSink& diags) {
    const size_t colon = std::min(request.find(':'), request.size());
    const std::string_view head = request.substr(0, colon), what = request.substr(std::min(colon + 1, request.size()));
    const size_t at = std::min(head.find('@'), head.size());
    const std::string_view name = head.substr(0, at);
    const auto json = [](const std::optional<Picture>& made) { return made ? std::optional(made->json()) : std::nullopt; };
    const auto kind = std::ranges::find(kKinds, name, &Kind::name);
    if (kind == std::end(kKinds)) {
        std::vector<std::string_view> names;
        for (const Kind& k : kKinds) names.push_back(k.name);
        auto& d = diags.report(Diag::no_such_picture, {}, {printable(name)});
        if (const auto near = closest(name, names); !near.empty()) d.notes.push_back("did you mean `" + std::string(near) + "`?");
        d.notes.push_back("kinds: " + picture_kinds());
        return std::nullopt;
    }
    const std::string_view target = at < head.size() ? head.substr(at + 1) : "sm_90a";
    const Arch* arch = find_arch(target);
    if (!arch) {
        std::string list;
        for (const Arch& a : all_archs()) list += (list.empty() ? "" : ", ") + std::string(a.name);
        diags.report(Diag::no_picture, {}, {printable(name), "no architecture is named `" + printable(target) + "`"})
            .notes.push_back("there are " + list);
        return std::nullopt;
    }
    PictureMaker maker(*this, module, exe, *kind, *arch, what, diags);
    if (kind->of_types && (!exe || !kind->of_kernel)) return json(maker.of_types());
    if (name == "fragment" && !exe) return json(maker.of_instruction());
    if (exe) return json(picture_of_kernel(module, *exe, *arch, trimmed(what), kind->of_kernel, diags));  // source: null
    diags.report(Diag::no_picture, {}, {"`" + printable(what) + "`", "`" + printable(name) + "` shows kernels, and the file has none of this name"});
    return std::nullopt;
}

}  // namespace tegula
