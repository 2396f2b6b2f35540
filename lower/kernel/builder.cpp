// Writing lines of CUDA C++: indentation, identifiers that user text cannot change the program with, #line directives,
// text before the kernel.
#include <utility>

#include "lower/kernel/builder.h"
#include "lower/kernel/text.h"

namespace tegula::lower {

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
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                           c == '.' || c == '/' || c == '-';
        out += plain ? c : '_';
    }
    return out;
}

}  // namespace

void Builder::line(const std::string& text) {
    if (before) before();
    body += std::exchange(pending_mark, {});
    body.append(static_cast<size_t>(depth) * 4, ' ');
    body += text;
    body += '\n';
}

void Builder::open(const std::string& head) {
    line(head.empty() ? "{" : head + " {");
    ++depth;
}

void Builder::close(const std::string& tail) {
    if (before) before();
    --depth;
    line(tail);
}

std::string Builder::fresh(const std::string& stem) {
    // A number at the end keeps clear of keywords and of the prelude's names.
    const std::string base = identifier(stem.substr(0, 40));
    std::string out;
    do out = base + (base.back() >= '0' && base.back() <= '9' ? "_" : "") + std::to_string(counter_++);
    while (!taken.insert(out).second);
    return out;
}

void Builder::mark(Span span) {
    if (!sources || !span.valid()) return;
    const uint32_t at = sources->line_col(span.file, span.begin).line;
    if (at == line_ && span.file == file_) return;
    line_ = at;
    file_ = span.file;
    pending_mark = "#line " + std::to_string(at) + " \"" + file_text(sources->name(span.file)) + "\"\n";
}

void Builder::unroll(int64_t iterations) { line(iterations <= unroll_limit ? "#pragma unroll" : "#pragma unroll 1"); }

std::string Builder::support(const std::string& key, const std::string& stem, const std::string& text) {
    auto [it, added] = support_names_.emplace(key, "");
    if (!added) return it->second;
    it->second = fresh(stem);
    support_text += replaced(text, "$", it->second);
    return it->second;
}

}  // namespace tegula::lower
