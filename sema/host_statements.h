// Host statements that stand in no block of a module: those of a session, over the variables that it holds.
#pragma once
#include <span>

#include "sema/sema.h"

namespace tegula::sema {

/// A variable that exists before the statements run.
struct HostVariable {
    ast::Name name;  ///< with the span of its declaration
    bool is_var;
};

/// What check_host_block says of a block, of statements in the outermost scope of a host. False when there were errors.
bool check_host_statements(const Module& module, std::span<const HostVariable> variables, std::span<const ast::Stmt* const> statements,
                           DiagSink& diags);

}  // namespace tegula::sema
