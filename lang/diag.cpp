// The diagnostic table, the sink that phases report into, and spelling suggestions (diag.h). Rendering is in render.cpp.
#include "lang/diag.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lang/check.h"

namespace tegula {

namespace {

constexpr DiagRow kDiagRows[] = {
#define DIAG(code, name, severity, message, explanation) {code, #name, Severity::severity, message, explanation},
#include "lang/diags.def"
#undef DIAG
};

constexpr size_t kWarningsPerError = 10;    // how many more rows than errors a sink keeps, against floods of warnings
constexpr size_t kLongestSuggestion = 256;  // names beyond this are not compared: the cost is quadratic

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string fill(std::string_view pattern, std::initializer_list<std::string> args) {
    std::string out;
    auto next = args.begin();
    while (true) {
        size_t hole = pattern.find("{}");
        out += pattern.substr(0, hole);
        if (hole == std::string_view::npos) break;
        TEGULA_CHECK(next != args.end(), "too few arguments for a diagnostic");
        out += *next++;
        pattern.remove_prefix(hole + 2);
    }
    TEGULA_CHECK(next == args.end(), "too many arguments for a diagnostic");
    return out;
}

/// Insertions, deletions, substitutions and swaps of neighbours that turn a into b; b is at most kLongestSuggestion + 2 long.
size_t edit_distance(std::string_view a, std::string_view b) {
    size_t rows[3][kLongestSuggestion + 3];
    size_t *before_last = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before_last[j - 2] + 1);
        }
        std::swap(before_last, last);
        std::swap(last, row);
    }
    return last[b.size()];
}

}  // namespace

const DiagRow& diag_row(Diag id) {
    TEGULA_CHECK(id < Diag::count_);
    return kDiagRows[static_cast<size_t>(id)];
}

const DiagRow* find_diag(std::string_view code) {
    for (const DiagRow& row : kDiagRows) {
        std::string_view have = row.code;
        if (std::equal(have.begin(), have.end(), code.begin(), code.end(), [](char a, char b) { return lower(a) == lower(b); })) return &row;
    }
    return nullptr;
}

Diagnostic& DiagSink::report(Diag id, Span span, std::initializer_list<std::string> args) {
    const DiagRow& row = diag_row(id);
    Diagnostic made;
    made.id = id;
    made.severity = row.severity;
    made.span = span;
    made.message = fill(row.message, args);
    made.notes.assign(context_.rbegin(), context_.rend());
    return add(std::move(made));
}

Diagnostic& DiagSink::add(Diagnostic made) {
    const bool is_error = made.severity == Severity::error;
    bool repeat = false;
    size_t kept = 0;
    for (const Diagnostic& d : diags_) {
        repeat |= d.id == made.id && d.span == made.span && ((is_error && made.span.valid()) || d.message == made.message);
        kept += d.severity == Severity::error;
    }
    errors_ += is_error;  // dropped ones count too: a phase tells by error_count() whether it failed
    if (!repeat && (is_error ? kept < limit_ : diags_.size() < limit_ * kWarningsPerError)) return diags_.emplace_back(std::move(made));
    if (!repeat && is_error && kept == limit_) {
        Diagnostic& last = diags_.emplace_back();
        last.id = Diag::too_many_errors;
        last.severity = Severity::error;
        last.span = made.span;
        last.message = diag_row(last.id).message;
    }
    return dropped_ = std::move(made);
}

std::vector<Diagnostic> DiagSink::take() {
    errors_ = 0;
    for (Diagnostic& d : diags_) d.kept.insert(d.kept.end(), kept_.begin(), kept_.end());
    return std::exchange(diags_, {});
}

void DiagSink::let_go(const std::shared_ptr<const void>& owner) noexcept {
    const auto last = std::find(kept_.rbegin(), kept_.rend(), owner);
    if (last != kept_.rend()) kept_.erase(std::next(last).base());
}

Snippet::Snippet(SourceMap& sources, const char* name, std::string text, DiagSink& diags)
    : source_(sources.share(name, std::move(text))), diags_(diags), before_(diags.all().size()) {
    diags.keep(source_);
}

Snippet::~Snippet() {
    if (diags_.all().size() == before_) diags_.let_go(source_);
}

void keep_texts(Diagnostic& diag, const SourceMap& sources) {
    std::vector<std::shared_ptr<const void>> texts;
    const auto keep = [&](Span span) {
        const SourcePtr text = sources.find(span.file);
        if (text && std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
    };
    keep(diag.span);
    for (const Label& label : diag.labels) keep(label.span);
    for (const FixIt& fix : diag.fixes) keep(fix.span);
    diag.kept = std::move(texts);
}

std::string_view closest(std::string_view name, const std::vector<std::string_view>& candidates) {
    if (name.size() > kLongestSuggestion) return {};
    std::string_view best;
    size_t best_distance = 2;
    for (std::string_view candidate : candidates) {
        size_t gap = candidate.size() > name.size() ? candidate.size() - name.size() : name.size() - candidate.size();
        if (gap > best_distance) continue;
        size_t distance = edit_distance(name, candidate);
        bool nearer = distance < best_distance || (distance == best_distance && (best.empty() || candidate < best));
        if (nearer && distance * 2 < name.size()) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}

}  // namespace tegula
