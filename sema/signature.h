// Signatures of builtins.def and host_calls.def rows, for matching arguments and checking arity; the names of traits.
#pragma once
#include <string_view>
#include <vector>

#include "lang/ast.h"

namespace tegula::sema {

/// Row facts of builtins.def, parsed once per use: names, defaults, variadic, instantiation form.
struct Signature {
    struct Parameter {
        std::string_view name;
        bool optional = false;
    };
    std::vector<Parameter> generics, parameters;
    bool has_shape = false, has_call = false, variadic = false;
};
Signature parse_signature(std::string_view text);
/// The traits that bound generics: int, sint, uint, float, number, any, integer.
bool is_trait(std::string_view name);
/// Does a generic parameter of that bound take a word or a function?
bool takes_choice(std::string_view bound);
/// The word that bounds a generic parameter, `any` where none does.
std::string_view bound_of(const ast::GenericParam& p);

}  // namespace tegula::sema
