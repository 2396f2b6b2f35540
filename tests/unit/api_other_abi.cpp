// A program that was compiled with the headers of another ABI. Its copy of the C++ wrapper lies in a namespace of its own.
#include <cstring>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tegula/tegula.h"

#undef TEGULA_ABI_VERSION
#define TEGULA_ABI_VERSION 77u
#define api api_of_another_version
#include "tegula/tegula.hpp"

/// What the error says, thrown and not.
std::string another_abi() {
    auto engine = tegula::Engine::create();
    if (engine || engine.status() != TEGULA_E_USAGE || engine.diagnostics().size() != 1) return "no error";
    try {
        engine.value();
    } catch (const tegula::Error& error) {
        const bool json = engine.diagnostics().json().starts_with("{\"schema\":1,");
        return json && error.what() == engine.diagnostics().text() ? error.what() : "the texts differ";
    }
    return "nothing is thrown";
}
