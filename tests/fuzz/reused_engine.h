// One engine for all fuzz inputs, and a module that keeps the standard library loaded: both cost more than most inputs.
#pragma once
#include <cstdint>
#include <string_view>

#include "tegula/tegula.hpp"

inline tegula::Result<tegula::Module> load_in_reused_engine(const uint8_t* data, size_t size) {
    static auto engine = tegula::Engine::create().value();
    static auto library = engine.load("", "library.tile");
    return engine.load(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.tile");
}
