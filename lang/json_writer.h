// JSON of structs that name their members in `fields`: explanations (explanation.h) and pictures (jit/picture/picture.h).
#pragma once
#include <charconv>
#include <cmath>
#include <concepts>
#include <string>
#include <string_view>

#include "lang/diag.h"
#include "lang/source.h"

namespace tegula {

class JsonWriter {
public:
    /// `sources`: of the places that are written; null where there are none.
    explicit JsonWriter(const SourceMap* sources = nullptr) : sources_(sources) {}

    /// A member; empty text and what is not set are left out.
    template <class T>
    void operator()(const char* name, const T& v) {
        if constexpr (std::convertible_to<T, std::string_view>) {
            if (std::string_view(v).empty()) return;
        } else if constexpr (requires { v.has_value(); }) {
            if (!v) return;
        } else if constexpr (std::same_as<T, Span>) {
            if (!v.valid()) return;
        }
        separate();
        out_ += json_quote(name) + ":";
        value(v);
    }
    template <class Members>
    void object(Members&& members) {
        open('{');
        members(*this);
        close('}');
    }
    std::string take() { return std::move(out_); }

private:
    void separate() {
        if (!first_) out_ += ',';
        first_ = false;
    }
    void open(char c) { out_ += c, first_ = true; }
    void close(char c) { out_ += c, first_ = false; }

    template <class T>
    void value(const T& v) {
        if constexpr (std::same_as<T, bool>)
            out_ += v ? "true" : "false";
        else if constexpr (std::integral<T>)
            out_ += std::to_string(v);
        else if constexpr (std::floating_point<T>)
            number(v);
        else if constexpr (std::convertible_to<T, std::string_view>)
            out_ += json_quote(v);
        else if constexpr (std::same_as<T, Span>)
            place(v);
        else if constexpr (requires { v.has_value(); })
            value(*v);
        else if constexpr (requires { v.begin(); })
            list(v);
        else
            object([&](JsonWriter& w) { v.fields(w); });
    }
    template <class T>
    void list(const T& items) {
        open('[');
        for (const auto& item : items) {
            separate();
            value(item);
        }
        close(']');
    }
    void number(double v) {
        char buffer[32];
        out_ += std::isfinite(v) ? std::string(buffer, std::to_chars(buffer, std::end(buffer), v).ptr) : "null";
    }
    void place(Span span) {
        const LineCol begin = sources_->line_col(span.file, span.begin), end = sources_->line_col(span.file, span.end);
        object([&](JsonWriter& w) {
            w("file", sources_->name(span.file)), w("begin", span.begin), w("end", span.end), w("line", begin.line), w("column", begin.column);
            w("end_line", end.line), w("end_column", end.column);
        });
    }

    const SourceMap* sources_;
    std::string out_;
    bool first_ = true;
};

}  // namespace tegula
