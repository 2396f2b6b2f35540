// The diagnostic table, the sink that phases report into, and spelling suggestions (diag.h). Rendering is in render.cpp.
#include "lang/diag.h"
#include "lang/diag_page.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "lang/cancel.h"
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
constexpr size_t kFarthest = 4;             // the cost of two wrong letters
constexpr size_t kSimilar = 3;              // suggestions for one name

struct Example {
    Diag id;
    const char *wrong, *right;
};
constexpr Example kExamples[] = {
#define EXAMPLE(name, wrong, right) {Diag::name, wrong, right},
#include "lang/diag_examples.def"
#undef EXAMPLE
};

std::string indented(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
        if (end > 1) out += "    ";
        out += text.substr(0, end);
        text.remove_prefix(end);
    }
    return out;
}

std::vector<std::string> make_pages() {
    std::vector<std::string> pages;
    for (const DiagRow& row : kDiagRows) pages.emplace_back(row.explanation);
    for (const Example& e : kExamples) pages[static_cast<size_t>(e.id)] += "\n\nWrong:\n\n" + indented(e.wrong) + "\nRight:\n\n" + indented(e.right);
    for (std::string& page : pages)
        while (page.ends_with('\n')) page.pop_back();
    return pages;
}

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

/// The cost of turning a into b: 2 for a letter that is inserted, dropped or another one, 1 for neighbours that change places, for one letter of a
/// doubled one, and for another case. b is at most kLongestSuggestion + kFarthest long.
size_t edit_cost(std::string_view a, std::string_view b) {
    size_t rows[3][kLongestSuggestion + kFarthest + 1];
    size_t *before_last = rows[0], *last = rows[1], *row = rows[2];
    // Letter i of a name, inserted or dropped.
    const auto extra = [](std::string_view name, size_t i) -> size_t { return i > 0 && name[i] == name[i - 1] ? 1 : 2; };
    last[0] = 0;
    for (size_t j = 1; j <= b.size(); ++j) last[j] = last[j - 1] + extra(b, j - 1);
    for (size_t i = 1; i <= a.size(); ++i) {
        row[0] = last[0] + extra(a, i - 1);
        for (size_t j = 1; j <= b.size(); ++j) {
            const char x = a[i - 1], y = b[j - 1];
            const size_t other = x == y ? 0 : lower(x) == lower(y) ? 1 : 2;
            row[j] = std::min({last[j] + extra(a, i - 1), row[j - 1] + extra(b, j - 1), last[j - 1] + other});
            if (i > 1 && j > 1 && x == b[j - 2] && a[i - 2] == y && x != y) row[j] = std::min(row[j], before_last[j - 2] + 1);
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

const std::string& diag_page(const DiagRow& row) {
    static const std::vector<std::string> pages = make_pages();
    return pages[static_cast<size_t>(&row - kDiagRows)];
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
    const auto touches = [&](Span old) { return old.file == made.span.file && old.begin < made.span.end && made.span.begin < old.end; };
    bool repeat = is_error && std::any_of(settled_.begin(), settled_.end(), touches);
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

void DiagSink::settle(Span text) { settled_.push_back(text); }

void DiagSink::sort() {
    std::vector<uint32_t> files;
    for (const Diagnostic& d : diags_)
        if (std::find(files.begin(), files.end(), d.span.file) == files.end()) files.push_back(d.span.file);
    std::multimap<std::tuple<bool, ptrdiff_t, uint32_t>, Diagnostic> sorted;  // which keeps the order of equal ones
    for (Diagnostic& d : diags_) {
        const bool last = d.id == Diag::too_many_errors;
        const auto file = std::find(files.begin(), files.end(), d.span.file) - files.begin();
        sorted.emplace(std::tuple(last, file, d.span.begin), std::move(d));
    }
    diags_.clear();
    for (auto& [place, d] : sorted) diags_.push_back(std::move(d));
}

std::vector<Diagnostic> DiagSink::take() {
    errors_ = 0;
    settled_.clear();
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

std::vector<std::string_view> similar(std::string_view name, const std::vector<std::string_view>& candidates) {
    if (name.size() > kLongestSuggestion) return {};
    std::vector<std::pair<size_t, std::string_view>> near;
    for (const std::string_view candidate : candidates) {
        poll();
        const size_t gap = candidate.size() > name.size() ? candidate.size() - name.size() : name.size() - candidate.size();
        if (gap > kFarthest || candidate == name) continue;
        const size_t cost = edit_cost(name, candidate);
        const bool only_case =
            std::equal(name.begin(), name.end(), candidate.begin(), candidate.end(), [](char a, char b) { return lower(a) == lower(b); });
        if (cost <= kFarthest && (cost < name.size() || only_case)) near.emplace_back(cost, candidate);
    }
    std::sort(near.begin(), near.end());
    near.erase(std::unique(near.begin(), near.end()), near.end());
    std::vector<std::string_view> out;
    for (const auto& [cost, candidate] : near)
        if (out.size() < kSimilar) out.push_back(candidate);
    return out;
}

std::string_view closest(std::string_view name, const std::vector<std::string_view>& candidates) {
    const auto near = similar(name, candidates);
    return near.empty() ? std::string_view() : near.front();
}

void suggest_spelling(Diagnostic& d, std::string_view name, Span span, const std::vector<std::string_view>& candidates) {
    for (const std::string_view near : similar(name, candidates)) d.propose({{span, std::string(near)}}, "did you mean `" + std::string(near) + "`?");
}

const char* to_string(Applicability sure) {
    return sure == Applicability::machine ? "machine" : sure == Applicability::maybe ? "maybe" : "placeholder";
}

void Diagnostic::propose(std::vector<FixIt> edits, std::string note) {
    if (!fixes.empty()) {
        others.push_back({std::move(edits), std::move(note)});
        return;
    }
    if (!note.empty()) notes.push_back(note);
    fixes = std::move(edits);
    fix_note_ = std::move(note);
}

bool Diagnostic::next_proposal() {
    fixes.clear();
    if (const auto it = std::find(notes.begin(), notes.end(), fix_note_); !fix_note_.empty() && it != notes.end()) notes.erase(it);
    fix_note_.clear();
    if (others.empty()) return false;
    Proposal next = std::move(others.front());
    others.erase(others.begin());
    propose(std::move(next.edits), std::move(next.note));
    return true;
}

}  // namespace tegula
