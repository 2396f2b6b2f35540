// Text form of the tile IR: deterministic, round-trips (print(parse(print(f))) == print(f)). The input of pass tests.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "lang/ir.h"

namespace tegula::ir {

/// Values are numbered in order of appearance; one instruction per line; blocks are indented in braces.
/// `lines`: receives for each line the span of the instruction that begins there, of the kernel's name for the first one; invalid: it is a brace.
std::string print(const Function& fn, std::vector<Span>* lines = nullptr);
/// By ValueId: the name of the value in that text; empty: it has none.
std::vector<std::string> value_names(const Function& fn);
/// Parses what `print` writes (comments from `//`). Never trusts the text: malformed input gives T07 diagnostics and null. The result has
/// been verified.
std::unique_ptr<Function> parse_ir(const SourceMap& sources, uint32_t file, TypeTable& types, DiagSink& diags);

/// All broken invariants, one line each; empty when the function is well-formed (operands, types, shapes, attributes, dominance,
/// terminators, op stage).
std::vector<std::string> verify(const Function& fn);

}  // namespace tegula::ir
