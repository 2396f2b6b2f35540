// Known bits and bounds of expressions (expr.h), by operation.
#pragma once
#include "lang/kernel/expr.h"

namespace tegula::kernel {

/// What the type alone says.
Facts facts_of(Type type);
Facts facts_of(Type type, int64_t constant);
/// Those that hold of a number of that type beside its own.
Facts within(Type type, const Facts& facts);
/// Of the same number after a conversion to `type`.
Facts converted(const Facts& facts, Type type);
/// Of `a op b`, both of the type `of`, which is also the result's where `op` is no comparison.
Facts facts_of(Op op, Type of, const Facts& a, const Facts& b);
/// Facts that hold of both.
Facts joined(const Facts& a, const Facts& b);
/// A comparison that the facts decide.
std::optional<bool> decided(Op op, Type of, const Facts& a, const Facts& b);
/// `a op b` of constants; nullopt where C leaves it undefined.
std::optional<int64_t> computed(Op op, Type of, int64_t a, int64_t b);
/// `value` as a number of the type.
int64_t wrapped(Type type, int64_t value);

}  // namespace tegula::kernel
