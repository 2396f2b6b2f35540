// Diagnostics as data. Every message is a row of diags.def: a stable code, a severity, a one-line template and
// the long text that `tegula explain CODE` prints. Phases report into a DiagSink; hosts render or serialise.
#pragma once
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lang/source.h"

namespace tegula {

enum class Severity : uint8_t { error, warning, note };

enum class Diag : uint16_t {
#define DIAG(code, name, severity, message, explanation) name,
#include "lang/diags.def"
#undef DIAG
    count_
};

struct DiagRow {
    const char* code;  ///< "T0101"
    const char* name;  ///< enumerator name
    Severity severity;
    const char* message;      ///< `{}` placeholders, filled in order
    const char* explanation;  ///< cause and cure, several sentences
};
const DiagRow& diag_row(Diag id);
/// Finds a row by its code ("T0101", case-insensitive); null when there is none.
const DiagRow* find_diag(std::string_view code);

struct Label {
    Span span;
    std::string text;
};
/// How sure a change is. machine: the changed text was checked, the mistake is gone and nothing else is wrong that was not; maybe: it was not
/// checked, shows other mistakes elsewhere, or loses something that only the reader can judge; placeholder: the text has holes to fill in.
enum class Applicability : uint8_t { machine, maybe, placeholder };
const char* to_string(Applicability sure);

struct FixIt {
    Span span;         ///< what to replace (empty: insert)
    std::string text;  ///< replacement
    Applicability applicability = Applicability::maybe;
    bool judged = false;  ///< by the reader, as a conversion that may lose digits: never `machine`, however it checks
};
/// One way out of a mistake: edits that belong together, and the sentence that goes with them.
struct Proposal {
    std::vector<FixIt> edits;
    std::string note;
};

/// A line below a message.
struct DiagNote {
    enum Kind : uint8_t { note, help, call };  ///< call: the function in which it was found
    DiagNote(std::string text, Kind kind = note) : text(std::move(text)), kind(kind) {}
    DiagNote(const char* text) : text(text) {}
    std::string text;
    Kind kind = note;
    std::string whole() const { return (kind == help ? "help: " : "") + text; }
    bool operator==(const DiagNote&) const = default;
};

struct Diagnostic {
    Diag id{};
    Severity severity = Severity::error;
    Span span;
    std::string message;
    std::vector<Label> labels;                      ///< secondary spans
    std::vector<DiagNote> notes;                    ///< "= note: ..." lines (instantiation notes, causes, help)
    std::vector<FixIt> fixes;                       ///< one change: edits that belong together
    std::vector<Proposal> others;                   ///< what to offer where `fixes` turns out wrong, best first; gone once somebody has tried them
    std::vector<std::shared_ptr<const void>> kept;  ///< owners of what the spans lie in

    void help(std::string text) { notes.emplace_back(std::move(text), DiagNote::help); }
    /// Offers a change. The first one is shown; who can check changed texts takes the first one that checks instead (next_proposal).
    void propose(std::vector<FixIt> edits, std::string note = {});
    /// Takes the change back that is shown, with its note, and shows the next one. False where there is none left: then nothing is offered.
    bool next_proposal();

private:
    std::string fix_note_;  ///< the one of `notes` that belongs to `fixes`
};

/// Collects diagnostics of one compile. Stops recording after `limit` errors (one final row says so) and drops
/// exact repeats (same row, same span; warnings: same text, too), so that callers need not care about cascades of one mistake. Warnings stop at ten
/// times `limit` rows.
class DiagSink {
public:
    explicit DiagSink(size_t limit = 100) : limit_(limit) {}
    /// Reports row `id` at `span`, with `{}` filled from `args`. The reference is valid until the next report.
    Diagnostic& report(Diag id, Span span, std::initializer_list<std::string> args = {});
    /// Takes over a diagnostic that is complete already (from a run), under the same rules.
    Diagnostic& add(Diagnostic made);
    bool has_errors() const { return errors_ != 0; }
    size_t error_count() const { return errors_; }  ///< reports that were dropped (repeats, beyond the limit) included
    const std::vector<Diagnostic>& all() const { return diags_; }
    std::vector<Diagnostic>& recorded() { return diags_; }  ///< for who tries the changes that they offer
    /// What is reported of this text from now on is an echo, and dropped.
    void settle(Span text);
    /// Orders the reports of each file by position; files keep the order of their first report.
    void sort();
    bool full() const { return errors_ >= limit_; }  ///< further errors are not recorded
    /// Spans of reports may lie in texts of `owner`, which nobody else may own: the reports do.
    void keep(std::shared_ptr<const void> owner) { kept_.push_back(std::move(owner)); }
    /// Undoes the last `keep` of an owner of which nothing was reported.
    void let_go(const std::shared_ptr<const void>& owner) noexcept;
    /// Hands out what was recorded and starts anew.
    std::vector<Diagnostic> take();
    /// Notes added to every diagnostic reported while it is pushed ("while instantiating gemm<BM=64> here").
    void push_context(DiagNote note) { context_.push_back(std::move(note)); }
    void pop_context() { context_.pop_back(); }

private:
    size_t limit_, errors_ = 0;
    std::vector<Diagnostic> diags_;
    std::vector<DiagNote> context_;
    std::vector<Span> settled_;
    std::vector<std::shared_ptr<const void>> kept_;
    Diagnostic dropped_;
};

/// A short text of a host (a type, a layout) while it is parsed and evaluated, or as long as a report about it.
class Snippet {
public:
    Snippet(SourceMap& sources, const char* name, std::string text, DiagSink& diags);
    ~Snippet();
    Snippet(const Snippet&) = delete;
    uint32_t file() const { return source_->id; }

private:
    const SourcePtr source_;
    DiagSink& diags_;
    const size_t before_;
};

/// From now on the diagnostic keeps the texts that it shows, and nothing else.
void keep_texts(Diagnostic& diag, const SourceMap& sources);

/// rustc-like text with source excerpt and carets. Control characters of the source are shown escaped.
std::string render_text(const Diagnostic& diag, const SourceMap& sources, bool colour);
/// One JSON object (one line), schema 1: level, code, message, spans, notes, fixes.
std::string render_json(const Diagnostic& diag, const SourceMap& sources);
/// Text as a JSON string literal, quotes included; invalid UTF-8 is replaced.
std::string json_quote(std::string_view text);
/// Control characters, invalid UTF-8 and bidirectional overrides as visible escapes.
std::string printable(std::string_view text);
/// The candidates that `name` may be a misspelling of, closest first, at most three. Two letters may be wrong, and fewer than half of them; swapped
/// neighbours, a doubled or missing double letter and another case count half.
std::vector<std::string_view> similar(std::string_view name, const std::vector<std::string_view>& candidates);
/// The first of them, or empty.
std::string_view closest(std::string_view name, const std::vector<std::string_view>& candidates);
/// Offers the candidates that are similar to `name`, which stands at `span`.
void suggest_spelling(Diagnostic& d, std::string_view name, Span span, const std::vector<std::string_view>& candidates);

}  // namespace tegula
