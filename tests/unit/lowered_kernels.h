// Kernels of tests/lower/gpu down to statements, and ways to change one of these.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <sstream>

#include "lang/ir_text.h"
#include "lang/kernel/kernel_text.h"
#include "lang/kernel/text.h"
#include "lang/kernel/verify.h"
#include "lower/gpu/gpu.h"
#include "lower/kernel/lower.h"
#include "tests/unit/gpu_function.h"
#include "tests/unit/test_files.h"

namespace tegula {

using kernel::Body;
using kernel::Call;
using kernel::KernelOp;
using kernel::Statement;

/// A kernel of tests/lower/gpu, whose first line says for which architecture it is, what is known of its
/// tensors and which passes are off.
inline KernelText lowered(const std::string& name, std::string arch = {}) {
    std::string text, head, word;
    std::istringstream lines(test::read(std::filesystem::path(TEGULA_SOURCE_DIR) / "tests/lower/gpu" / (name + ".ir")));
    for (std::string line; std::getline(lines, line);) {
        if (head.empty()) head = line;
        if (!line.starts_with("//")) text += line + "\n";
    }
    SourceMap sources;
    DiagSink diags;
    TypeTable types;
    const auto fn = ir::parse_ir(sources, sources.add(name, text), types, diags);
    for (const Diagnostic& d : diags.take()) ADD_FAILURE() << d.message;
    if (arch.empty()) arch = head.substr(head.find("sm_"), head.find(' ', head.find("sm_")) - head.find("sm_"));
    GpuOptions options = options_for(arch.c_str(), *fn, head.find("aligned") != std::string::npos);
    options.may_alias = head.find("apart") == std::string::npos;
    for (GpuTensor& fact : options.tensors) {
        fact.whole = head.find("whole") != std::string::npos;
        if (head.find("words") != std::string::npos) fact.grain = 16;
    }
    std::istringstream words(head);
    while (words >> word)
        if (word == "off") words >> options.disabled.emplace_back();
    run_gpu_passes(*fn, options);
    return lower_to_kernel(*fn, nullptr);
}

/// What the verifier says.
inline std::string problems(const kernel::Kernel& kernel) {
    std::string out;
    for (const kernel::Problem& p : verify(kernel)) out += p.statement + ": " + p.reason + "\n";
    return out;
}

/// Calls `body` with the place of each operation `op`, in order, until it returns true.
inline bool each_call(Body& statements, KernelOp op, const std::function<bool(Body&, size_t)>& body) {
    for (size_t i = 0; i < statements.size(); ++i) {
        Statement& s = statements[i];
        if (const Call* call = std::get_if<Call>(&s.is); call && call->row->op == op && body(statements, i)) return true;
        std::vector<Body*> inner;
        if (auto* roles = std::get_if<kernel::Roles>(&s.is))
            for (auto& part : roles->parts) inner.push_back(&part.body);
        if (auto* loop = std::get_if<kernel::For>(&s.is)) inner.push_back(&loop->body);
        if (auto* block = std::get_if<kernel::Block>(&s.is)) inner.push_back(&block->body);
        if (auto* choice = std::get_if<kernel::If>(&s.is)) inner.insert(inner.end(), {&choice->yes, &choice->no});
        for (Body* nested : inner)
            if (each_call(*nested, op, body)) return true;
    }
    return false;
}

inline int count(KernelText& kernel, KernelOp op) {
    int n = 0;
    each_call(kernel.form.body, op, [&](Body&, size_t) { return ++n < 0; });
    return n;
}

/// Every operation of that kind, one at a time: without it there is a problem, among whose reasons is that one.
inline void expect_needed(const char* name, KernelOp op, const char* reason, const std::function<void(Body&, size_t)>& change,
                          const char* arch = "") {
    KernelText whole = lowered(name, arch);
    const int all = count(whole, op);
    EXPECT_GT(all, 0) << name;
    for (int skip = 0; skip < all; ++skip) {
        KernelText kernel = lowered(name, arch);
        int at = skip;
        each_call(kernel.form.body, op, [&](Body& body, size_t i) {
            if (at-- > 0) return false;
            change(body, i);
            return true;
        });
        const std::string found = problems(kernel.form);
        EXPECT_NE(found, "") << name << ", number " << skip << "\n" << dump(kernel.form);
        EXPECT_NE(found.find(reason), std::string::npos) << name << ", number " << skip << ":\n" << found << dump(kernel.form);
    }
}

inline void erase(Body& body, size_t at) { body.erase(body.begin() + static_cast<std::ptrdiff_t>(at)); }

}  // namespace tegula
