// Changes that diagnostics offer are tried before anybody sees them: the changed text is loaded and checked as the file was. A change is offered as
// sure when its mistake is gone and nothing is wrong that was not before, as possible when other mistakes show elsewhere (one may have hidden
// another), and not at all when something is wrong where it was made. Trials end with their budget; what was not tried then is only possible.
#include <algorithm>
#include <chrono>
#include <map>

#include "jit/engine/engine.h"

namespace tegula {

namespace {

using Clock = std::chrono::steady_clock;
// The number of trials follows from the size of the text, so that what is said does not depend on how busy the machine is; the time is a last resort.
constexpr auto kBudget = std::chrono::seconds(1);
constexpr size_t kTrials = 64, kTrialBytes = 1'000'000;
constexpr size_t kLongestStep = 300;  // bytes of a change that was found in steps
constexpr size_t kLongestText = size_t{1} << 20;

}  // namespace

namespace changes {

/// An error as one check of a text found it, and where it stands in the original text.
struct Found {
    Diag id;
    std::string message;
    uint32_t begin;
    bool elsewhere;  ///< in another file
    friend bool operator==(const Found&, const Found&) = default;
};

/// A text with edits made to it, and the way back from its positions to those of the original.
class Changed {
public:
    /// Edits that overlap earlier ones are left out; equal ones are made once.
    Changed(std::string_view original, std::vector<FixIt> edits) {
        std::multimap<std::pair<uint32_t, int64_t>, FixIt> sorted;  // longer ones first; equal ones keep their order
        for (FixIt& edit : edits) sorted.emplace(std::pair(edit.span.begin, -int64_t{edit.span.end}), std::move(edit));
        uint32_t at = 0;
        for (const auto& [place, edit] : sorted) {
            const bool repeated = !made_.empty() && made_.back().span == edit.span && made_.back().text == edit.text;
            if (repeated || edit.span.begin < at || edit.span.end > original.size()) continue;
            text_ += original.substr(at, edit.span.begin - at);
            places_.push_back(static_cast<uint32_t>(text_.size()));
            text_ += edit.text;
            at = edit.span.end;
            made_.push_back(edit);
        }
        text_ += original.substr(at);
    }
    const std::string& text() const { return text_; }
    /// Was this edit made, or one that is the same?
    bool has(const FixIt& edit) const {
        return std::any_of(made_.begin(), made_.end(), [&](const FixIt& m) { return m.span == edit.span && m.text == edit.text; });
    }
    uint32_t original(uint32_t at) const {
        int64_t shift = 0;
        for (size_t i = 0; i < made_.size() && places_[i] <= at; ++i) {
            if (at < places_[i] + made_[i].text.size()) return made_[i].span.begin;
            shift += int64_t{made_[i].span.end} - made_[i].span.begin - int64_t(made_[i].text.size());
        }
        return static_cast<uint32_t>(at + shift);
    }
    /// Does an edit touch the line that holds this position of the changed text?
    bool on_edited_line(uint32_t at) const {
        const size_t begin = at == 0 ? 0 : text_.rfind('\n', at - 1) + 1, end = std::min(text_.find('\n', at), text_.size());
        for (size_t i = 0; i < made_.size(); ++i) {
            // An edit that ends in a line break adds lines of its own.
            const size_t last = places_[i] + made_[i].text.size() - (made_[i].text.ends_with('\n') ? 1 : 0);
            if (places_[i] <= end && last >= begin) return true;
        }
        return false;
    }

private:
    std::string text_;
    std::vector<FixIt> made_;
    std::vector<uint32_t> places_;  ///< of the edits, in the changed text
};

}  // namespace changes

using changes::Changed;
using changes::Found;

/// Tries the changes of the diagnostics of one text.
class Engine::Trials {
public:
    Trials(Engine& engine, const Source& source, const CheckText& check, bool all) : engine_(engine), source_(source), check_(check), all_(all) {}

    void settle(std::span<Diagnostic> diags) {
        before_ = check(source_.text, nullptr);
        std::vector<bool> proved(diags.size(), false);
        together(diags, proved);
        for (size_t i = 0; i < diags.size(); ++i)
            if (!proved[i] && is_open(diags[i])) settle(diags[i]);
    }

private:
    enum class Verdict : uint8_t { good, possible, wrong, unknown };
    struct Error {
        Found found;
        bool near_edit;
        std::vector<FixIt> fixes;  ///< that it offers, of the text that was checked
    };
    Engine& engine_;
    const Source& source_;
    const CheckText& check_;
    const bool all_;  ///< every way out is tried, not the first one that is right alone
    std::vector<Error> before_;
    const Clock::time_point end_ = Clock::now() + kBudget;
    size_t trials_ = 0;
    const size_t allowed_ = std::clamp<size_t>(kTrialBytes / (source_.text.size() + 1), 3, kTrials);
    std::string next_;  ///< the text of the last trial, where the only new mistake in it offers `next_fixes_`; else empty
    std::vector<FixIt> next_fixes_;

    bool is_open(const Diagnostic& d) const {
        return std::any_of(d.fixes.begin(), d.fixes.end(), [](const FixIt& f) { return f.applicability == Applicability::maybe; }) &&
               std::all_of(d.fixes.begin(), d.fixes.end(), [&](const FixIt& f) { return f.span.file == source_.id; });
    }
    bool spent() const { return trials_ >= allowed_ || Clock::now() >= end_ || engine_.cancelled_.load(std::memory_order_relaxed); }

    std::vector<Error> check(const std::string& text, const Changed* changed) {
        ++trials_;
        std::vector<Error> errors;
        DiagSink found(engine_.options_.max_errors);
        const SourcePtr checked = check_(text, found);
        for (const Diagnostic& d : found.all()) {
            if (d.severity != Severity::error) continue;
            const bool elsewhere = !checked || d.span.file != checked->id;
            const uint32_t at = changed && !elsewhere ? changed->original(d.span.begin) : d.span.begin;
            errors.push_back({{d.id, d.message, at, elsewhere},
                              changed && !elsewhere && changed->on_edited_line(d.span.begin),
                              elsewhere ? std::vector<FixIt>() : d.fixes});
        }
        return errors;
    }
    bool was_before(const Found& error) const {
        return std::any_of(before_.begin(), before_.end(), [&](const Error& e) { return e.found == error; });
    }

    /// The first change of every diagnostic at once: most often nothing is left wrong then, and one check has proved all of them.
    void together(std::span<Diagnostic> diags, std::vector<bool>& proved) {
        std::vector<FixIt> edits;
        size_t count = 0;
        for (const Diagnostic& d : diags)
            if (is_open(d)) edits.insert(edits.end(), d.fixes.begin(), d.fixes.end()), ++count;
        if (count < 2 || spent()) return;
        const Changed changed(source_.text, std::move(edits));
        if (!check(changed.text(), &changed).empty()) return;
        for (size_t i = 0; i < diags.size(); ++i) {
            const std::vector<FixIt>& made = diags[i].fixes;
            proved[i] = is_open(diags[i]) && std::ranges::all_of(made, [&](const FixIt& f) { return changed.has(f); });
            if (proved[i]) accept(diags[i]);
        }
    }
    Verdict verdict(const Diagnostic& d) {
        if (spent()) return Verdict::unknown;
        const Changed changed(source_.text, d.fixes);
        return verdict(changed, check(changed.text(), &changed), d);
    }
    Verdict verdict(const Changed& changed, const std::vector<Error>& after, const Diagnostic& d) {
        const Found own{d.id, d.message, d.span.begin, false};
        bool good = true;
        next_.clear();
        for (const Error& e : after) {
            if (e.found == own) return Verdict::wrong;
            if (was_before(e.found)) continue;
            if (e.near_edit) {
                if (e.fixes.empty()) return Verdict::wrong;
                next_ = changed.text();
                next_fixes_ = e.fixes;
                return Verdict::wrong;
            }
            good = false;
        }
        return good ? Verdict::good : Verdict::possible;
    }
    /// What is wrong after a change may offer a change itself: `t.to(float16)` becomes `t.to(f16)`, and that `cast<f16>(t)`. Where that ends well,
    /// all of it is one change.
    bool follow(Diagnostic& d) {
        constexpr int kSteps = 4;
        for (int step = 0; step < kSteps && !next_.empty() && !spent(); ++step) {
            const std::string text = Changed(next_, next_fixes_).text();
            const FixIt whole = difference(text);
            if (whole.text.size() > kLongestStep || whole.span.end - whole.span.begin > kLongestStep) return false;
            const Changed changed(source_.text, {whole});
            if (verdict(changed, check(changed.text(), &changed), d) != Verdict::good) continue;
            d.fixes = {whole};
            return true;
        }
        return false;
    }
    /// The one edit that makes `text` of the original, at the borders of words.
    FixIt difference(std::string_view text) const {
        const std::string_view old = source_.text;
        const auto in_word = [](std::string_view s, size_t i) {
            const auto word = [](char c) { return c == '_' || c == '.' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); };
            return i > 0 && i < s.size() && word(s[i - 1]) && word(s[i]);
        };
        size_t begin = 0, tail = 0;
        const size_t shorter = std::min(old.size(), text.size());
        while (begin < shorter && old[begin] == text[begin]) ++begin;
        while (begin > 0 && (in_word(old, begin) || in_word(text, begin))) --begin;
        while (tail < shorter - begin && old[old.size() - 1 - tail] == text[text.size() - 1 - tail]) ++tail;
        while (tail > 0 && (in_word(old, old.size() - tail) || in_word(text, text.size() - tail))) --tail;
        return {{source_.id, static_cast<uint32_t>(begin), static_cast<uint32_t>(old.size() - tail)},
                std::string(text.substr(begin, text.size() - tail - begin))};
    }
    /// The first change that is right, else the first that is possible.
    void settle(Diagnostic& d) {
        std::optional<Diagnostic> possible;
        do {
            const Verdict v = verdict(d);
            if (v == Verdict::good) return accept(d);
            if (v == Verdict::unknown) break;
            if (v == Verdict::wrong && follow(d)) return accept(d);
            if (v == Verdict::possible && !possible) possible = d;
        } while (d.next_proposal());
        if (possible) d = std::move(*possible);
        d.others.clear();
    }
    /// What is offered is right; of the other ways out those that are stay, where all are asked for.
    void accept(Diagnostic& d) {
        for (FixIt& f : d.fixes)
            if (!f.judged) f.applicability = Applicability::machine;
        Diagnostic other = d;
        d.others.clear();
        while (all_ && other.next_proposal())
            if (verdict(other) == Verdict::good) d.others.push_back({other.fixes, {}});
    }
};

Engine::CheckText Engine::loading_of(const SourcePtr& source, const std::string& directory) {
    return [this, source, directory](const std::string& text, DiagSink& found) {
        Loading state;
        state.stack.push_back(source->name);
        const ModulePtr module = load_file(state, source->name, text, directory, found);
        if (module) check_bodies(*module, found);
        return state.first;
    };
}

void Engine::settle_changes(const SourcePtr& source, const CheckText& check, DiagSink& diags, size_t first, bool every) {
    std::vector<Diagnostic>& all = diags.recorded();
    const std::span<Diagnostic> reported = std::span(all).subspan(std::min(first, all.size()));
    const auto offers = [](const Diagnostic& d) { return !d.fixes.empty(); };
    if (!source || source->text.size() > kLongestText || std::none_of(reported.begin(), reported.end(), offers)) return;
    Trials(*this, *source, check, every).settle(reported);
    // A change that is sure has mended what else was wrong in the text that it replaces.
    std::vector<bool> mended(reported.size());
    for (size_t i = 0; i < reported.size(); ++i)
        for (size_t by = 0; by < reported.size(); ++by) {
            const auto replaces = [&](const FixIt& f) {
                const Span own = reported[i].span;
                return f.applicability == Applicability::machine && own.valid() && f.span.file == own.file && f.span.begin <= own.begin &&
                       own.end <= f.span.end && f.span.end > f.span.begin;
            };
            const bool other = by != i && !mended[by] && !(reported[by].span == reported[i].span);
            if (other && std::any_of(reported[by].fixes.begin(), reported[by].fixes.end(), replaces)) mended[i] = true;
        }
    size_t at = 0;
    std::erase_if(all, [&](const Diagnostic& d) { return &d >= reported.data() && at < mended.size() && mended[at++]; });
}

}  // namespace tegula
