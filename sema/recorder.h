// What a check tells, beside its errors, of the names in a text: for editors.
#pragma once
#include <string>

#include "lang/source.h"

namespace tegula::sema {

/// Hears of the names of a module's text while it is checked (Module::recorder). Bodies are elaborated several times, functions also where they are
/// called: a place may be told of more than once.
class Recorder {
public:
    virtual ~Recorder() = default;
    /// The name at `at` stands for what is declared at `declared`; declarations stand for themselves.
    virtual void use(Span at, Span declared) = 0;
    /// Is it worth finding out what the name at `at` is?
    virtual bool asks(Span at) = 0;
    /// Its type, and its value where that is a constant: "tile<f32>[4]", "int = 3".
    virtual void fact(Span at, std::string text) = 0;
};

}  // namespace tegula::sema
