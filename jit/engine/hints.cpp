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

std::vector<Diagnostic> hint_warnings(const Executable& exe, const Arch& arch, const std::atomic<bool>* cancel) {
    const ir::Function& fn = *exe.instance.fn;
    if (!has_doubtful_hints(fn)) return {};
    GpuOptions options = usual_options(exe.instance, arch, exe.disabled_passes);
    options.cancel = cancel;
    DiagSink diags;
    for (const HintNote& note : unfollowed_hints(fn, lowered_for_gpu(exe.instance, options))) {
        const Span at = place_of(*exe.kernel, note);
        if (note.instead.empty())
            diags.report(Diag::hint_ignored, at, {note.hint, arch.name, note.why});
        else
            diags.report(Diag::hint_adjusted, at, {note.hint, note.instead, arch.name, note.why});
    }
    return diags.take();
}

}  // namespace tegula
