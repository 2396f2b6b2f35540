// Warnings about hints (hints.h): the kernel's clauses give the places that IR does not keep.
#include "jit/engine/hints.h"

#include "lower/gpu/hints.h"
#include "sema/walk.h"

namespace tegula {

namespace {

Span place_of(const ast::KernelItem& kernel, const HintNote& note) {
    if (note.place.valid()) return note.place;
    for (const ast::Attribute& a : kernel.attributes)
        if (a.name.text == note.hint) return a.name.span;
    const ast::Expr* s = kernel.schedule;
    const bool schedule = s && sema::base_name(s->kind == ast::ExprKind::call ? *ast::as<ast::CallExpr>(s).callee : *s) == note.hint;
    return schedule ? s->span : kernel.name.span;
}

}  // namespace

std::vector<explain::Note> explain_hints(const Executable& exe, const Arch& arch, const ir::Function& form) {
    std::vector<explain::Note> out;
    if (has_doubtful_hints(*exe.instance.fn))
        for (const HintNote& note : unfollowed_hints(*exe.instance.fn, form))
            out.push_back({place_of(*exe.kernel, note), explain::Hint{note.hint, note.instead, arch.name, note.why}});
    return out;
}

std::vector<Diagnostic> hint_warnings(const Executable& exe, const Arch& arch, const std::atomic<bool>* cancel) {
    if (!has_doubtful_hints(*exe.instance.fn)) return {};
    GpuOptions options = usual_options(exe.instance, arch, exe.disabled_passes);
    options.cancel = cancel;
    DiagSink diags;
    for (const explain::Note& note : explain_hints(exe, arch, lowered_for_gpu(exe.instance, options))) {
        const auto& hint = std::get<explain::Hint>(note.fact);
        if (hint.instead.empty())
            diags.report(Diag::hint_ignored, note.span, {hint.hint, hint.arch, hint.why});
        else
            diags.report(Diag::hint_adjusted, note.span, {hint.hint, hint.instead, hint.arch, hint.why});
    }
    return diags.take();
}

}  // namespace tegula
