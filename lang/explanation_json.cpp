// Explanations as JSON (explanation.h): an object with the members of each struct by name; a fact has its kind and place besides.
#include <charconv>
#include <cmath>
#include <concepts>

#include "lang/diag.h"
#include "lang/explanation.h"

namespace tegula {

namespace {

class JsonWriter {
public:
    explicit JsonWriter(const SourceMap& sources) : sources_(sources) {}

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
        const LineCol begin = sources_.line_col(span.file, span.begin), end = sources_.line_col(span.file, span.end);
        object([&](JsonWriter& w) {
            w("file", sources_.name(span.file)), w("begin", span.begin), w("end", span.end), w("line", begin.line), w("column", begin.column);
            w("end_line", end.line), w("end_column", end.column);
        });
    }

    const SourceMap& sources_;
    std::string out_;
    bool first_ = true;
};

struct NoteMembers {
    const explain::Note& note;
    void fields(JsonWriter& w) const {
        std::visit(
            [&](const auto& fact) {
                w("kind", fact.kind);
                w("span", note.span);
                fact.fields(w);
            },
            note.fact);
    }
};

}  // namespace

std::string Explanation::json(const SourceMap& sources) const {
    std::vector<NoteMembers> members;
    for (const explain::Note& n : notes) members.push_back({n});
    JsonWriter w(sources);
    w.object(
        [&](JsonWriter& top) { top("schema", 1), top("kernel", kernel), top("machine", machine), top("generics", generics), top("notes", members); });
    return w.take() + "\n";
}

}  // namespace tegula
