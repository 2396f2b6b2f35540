// Lines of a kernel's body: indentation, identifiers that user text cannot change the program with, #line directives,
// and the functions and tables in front of the kernel.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "lang/source.h"

namespace tegula::lower {

class Builder {
public:
    explicit Builder(const SourceMap* source_map) : sources(source_map) {}

    void line(const std::string& text);  ///< one line at the current depth
    void open(const std::string& head);  ///< "head {"
    void close(const std::string& tail = "}");
    std::string fresh(const std::string& stem);  ///< unused identifier
    void mark(Span span);                        ///< #line, when the line changes
    void unroll(int64_t iterations);  ///< "#pragma unroll" up to unroll_limit iterations, else "#pragma unroll 1"
    /// Text before the kernel (functions, tables), once per key; a "$" in it stands for the name that is returned.
    std::string support(const std::string& key, const std::string& stem, const std::string& text);

    std::function<void()> before;  ///< runs in front of each line: what is pending comes first
    const SourceMap* const sources;
    std::string body, support_text, prologue;
    std::string pending_mark;  ///< #line directive that the next line gets
    int depth = 1, loops = 0;
    int64_t unroll_limit =
        0;  ///< iterations; a tile with more registers is in local memory, where loops over it need not be unrolled
    std::set<std::string> taken;

private:
    std::map<std::string, std::string> support_names_;
    int counter_ = 0;
    uint32_t line_ = 0, file_ = 0;
};

}  // namespace tegula::lower
