// Functions of IR text, as the GPU passes take them.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "lang/ir_text.h"
#include "lower/gpu/gpu.h"

namespace tegula {

/// A function read from IR text, with the types it lives in.
struct Parsed {
    TypeTable types;
    SourceMap sources;
    std::unique_ptr<ir::Function> fn;
    explicit Parsed(const std::string& text) {
        DiagSink diags;
        fn = ir::parse_ir(sources, sources.add("test.ir", text), types, diags);
        for (const Diagnostic& d : diags.all()) ADD_FAILURE() << render_text(d, sources, false);
        if (fn) {
            EXPECT_EQ(ir::verify(*fn), std::vector<std::string>());
        }
    }
};

inline GpuOptions options_for(const char* arch, const ir::Function& fn, bool aligned = true) {
    GpuOptions options;
    options.arch = find_arch(arch);
    options.tensors.resize(fn.params.size());
    for (GpuTensor& t : options.tensors) t.aligned = aligned;
    return options;
}

}  // namespace tegula
