// What an error leaves for those who check further: the text that it spoils, and the items that cannot be used.
#pragma once
#include "sema/sema.h"

namespace tegula::sema {

/// Later errors of the text that the errors of this module among `diags` have spoiled, from number `first` on, are dropped from now on: of the simple
/// statement, or the head of a loop or branch, that holds one.
void settle_errors(const Module& module, DiagSink& diags, size_t first);
/// Notes the items that lack text, or whose signature has an error.
void note_broken(Module& module, const DiagSink& diags);

/// Elaborates a function for callers of several kinds, without being called: reports what is wrong for all of them.
void check_function(const Module& module, const ast::FnItem& fn, TypeTable& types, const Limits& limits, DiagSink& diags);
/// Has the kernel generic parameters for which only a launch has values?
bool is_generic(const ast::KernelItem& kernel);
/// check_function() of such a kernel.
void check_kernel(const Module& module, const ast::KernelItem& kernel, TypeTable& types, const Limits& limits, DiagSink& diags);

}  // namespace tegula::sema
