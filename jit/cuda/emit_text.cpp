// Writing lines of CUDA C++: indentation, identifiers that user text cannot change the program with, #line directives, text before the kernel.
#include <utility>

#include "jit/cuda/emitter.h"
#include "jit/cuda/text.h"

namespace tegula::cuda {

namespace {

/// Only letters, digits and underscores pass.
std::string identifier(const std::string& text) {
    std::string out;
    for (char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        out += plain ? c : '_';
    }
    return out.empty() || (out[0] >= '0' && out[0] <= '9') ? "_" + out : out;
}

/// A file name inside quotes of a #line directive: no quote, backslash or control character passes.
std::string file_text(std::string_view name) {
    std::string out;
    for (char c : name.substr(0, 200)) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '/' || c == '-';
        out += plain ? c : '_';
    }
    return out;
}

}  // namespace

void Emitter::line(const std::string& text) {
    end_fused();
    body_ += std::exchange(mark_, {});
    body_.append(static_cast<size_t>(depth_) * 4, ' ');
    body_ += text;
    body_ += '\n';
}

void Emitter::open(const std::string& head) {
    line(head.empty() ? "{" : head + " {");
    ++depth_;
}

void Emitter::close(const std::string& tail) {
    end_fused();
    --depth_;
    line(tail);
}

std::string Emitter::fresh(const std::string& stem) {
    // A number at the end keeps clear of keywords and of the prelude's names.
    const std::string base = identifier(stem.substr(0, 40));
    std::string out;
    do out = base + (base.back() >= '0' && base.back() <= '9' ? "_" : "") + std::to_string(counter_++);
    while (!taken_.insert(out).second);
    return out;
}

void Emitter::mark(Span span) {
    if (!sources_ || !span.valid()) return;
    const uint32_t at = sources_->line_col(span.file, span.begin).line;
    if (at == line_ && span.file == file_) return;
    line_ = at;
    file_ = span.file;
    mark_ = "#line " + std::to_string(at) + " \"" + file_text(sources_->name(span.file)) + "\"\n";
}

void Emitter::unroll(int64_t iterations) { line(iterations <= unroll_limit_ ? "#pragma unroll" : "#pragma unroll 1"); }

std::string Emitter::support(const std::string& key, const std::string& stem, const std::string& text) {
    auto [it, added] = support_names_.emplace(key, "");
    if (!added) return it->second;
    it->second = fresh(stem);
    layouts_ += replaced(text, "$", it->second);
    return it->second;
}

}  // namespace tegula::cuda
