// One engine for many fuzz inputs, and a module that keeps the standard library loaded: both cost more than most inputs. Renewed now and then,
// because an engine keeps the text of everything that it has read.
#pragma once
#include <cstdint>
#include <string_view>

#include "tegula/tegula.hpp"

inline tegula::Result<tegula::Module> load_in_reused_engine(const uint8_t* data, size_t size) {
    static auto engine = tegula::Engine::create().value();
    static auto library = engine.load("", "library.tile");
    static unsigned uses = 0;
    if (++uses % 200 == 0) {
        engine = tegula::Engine::create().value();
        library = engine.load("", "library.tile");
    }
    return engine.load(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.tile");
}
