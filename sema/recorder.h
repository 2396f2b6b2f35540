// What a check tells, beside its errors, of the names in a text: for editors.
#pragma once
#include <cstdint>
#include <string>

#include "lang/source.h"

namespace tegula::sema {

/// What a name is.
struct NameFact {
    std::string type;         ///< "tile<f32>[4]", "int"
    std::string value;        ///< of a constant: "3"
    std::string text;         ///< both: "int = 3"
    std::string layout = {};  ///< of a tensor
    size_t rank = 0;          ///< with the layout
    uint64_t bits = 0;        ///< that a tile takes
};
/// Of what is no constant, and of a constant.
inline NameFact fact_of_type(std::string type) { return {type, {}, type}; }
inline NameFact fact_of_constant(const std::string& type, const std::string& value) { return {type, value, type + " = " + value}; }

/// Hears of the names of a module's text while it is checked (Module::recorder). Bodies are elaborated several times, functions also where they are
/// called: a place may be told of more than once.
class Recorder {
public:
    virtual ~Recorder() = default;
    /// The name at `at` stands for what is declared at `declared`; declarations stand for themselves.
    virtual void use(Span at, Span declared) = 0;
    /// Is it worth finding out what the name at `at` is?
    virtual bool asks(Span at) = 0;
    virtual void fact(Span at, NameFact fact) = 0;
};

}  // namespace tegula::sema
