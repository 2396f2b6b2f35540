// Reads a command line by its table, see options.h.
#include "options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "files.h"

namespace tegula_tool {

namespace {

constexpr uint64_t kMaxArguments = uint64_t{1} << 20;  ///< bytes of an argument file
constexpr int kMaxArgumentFiles = 100;                 ///< which may name others

/// Letters to change, add, drop or swap with their neighbour to make one word the other.
size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= a.size(); ++i) {
        next[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            next[j] = std::min({next[j - 1] + 1, row[j] + 1, row[j - 1] + (a[i - 1] != b[j - 1])});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) next[j] = std::min(next[j], before[j - 2] + 1);
        }
        std::swap(before, row);
        std::swap(row, next);
    }
    return row[b.size()];
}

/// The words of an argument file, as a shell would take them: between spaces, whole within quotes; `#` begins a comment. nullopt: an open quote.
std::optional<std::vector<std::string>> file_words(std::string_view text) {
    std::vector<std::string> words;
    std::string word;
    bool inside = false;
    char quote = 0;
    for (size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '\\' && quote != '\'' && at + 1 < text.size()) {
            if (text[++at] != '\n') word += text[at], inside = true;
        } else if (quote) {
            if (c == quote)
                quote = 0;
            else
                word += c;
        } else if (c == '"' || c == '\'') {
            quote = c;
            inside = true;
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            if (inside) words.push_back(std::exchange(word, {}));
            inside = false;
        } else if (c == '#' && !inside) {
            at = std::min(text.find('\n', at), text.size()) - 1;
        } else {
            word += c;
            inside = true;
        }
    }
    if (quote) return std::nullopt;
    if (inside) words.push_back(std::move(word));
    return words;
}

/// Whole numbers of 64 bits, hexadecimal ones after 0x. A reason when it is none.
std::string read_count(std::string_view text, uint64_t& value) {
    if (text.starts_with('-')) return "is negative";
    const bool hex = text.starts_with("0x") || text.starts_with("0X");
    const auto [end, error] = std::from_chars(text.data() + 2 * hex, text.data() + text.size(), value, hex ? 16 : 10);
    if (error == std::errc::result_out_of_range) return "is above 2^64 - 1";
    return error == std::errc() && end == text.data() + text.size() ? "" : "is no whole number";
}

std::string read_seconds(std::string_view text, double& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) return "is beyond the largest number";
    if (error != std::errc() || end != text.data() + text.size() || std::isnan(value)) return "is no number";
    return value < 0 ? "is negative" : "";
}

class Line {
public:
    Line(std::vector<std::string> words, Options& options) : words_(std::move(words)), o_(options) {}
    Parsed read();

private:
    bool fail(std::string message, Exit code = usage) {
        out_ = {Parsed::failed, std::move(message), code};
        return false;
    }
    std::string where() const { return o_.verb ? "`tegula " + std::string(o_.verb->name) + "`" : "`tegula`"; }
    bool expand();
    bool long_flag(std::string_view word);
    bool short_flag(std::string_view word);
    bool take(const Flag& flag, std::string shown, std::optional<std::string> value);
    bool operand(const std::string& word);
    std::string store(const Target& target, Takes takes, std::string_view words, const std::string& value);
    bool unknown_flag(const std::string& name);
    bool finish();
    const Flag* find(std::string_view name) const;

    std::vector<std::string> words_;
    size_t at_ = 0, operands_ = 0;
    int argument_files_ = 0;
    Options& o_;
    Parsed out_;
    /// Flags in front of the verb that are not every verb's: judged once the verb is known.
    std::vector<std::pair<const Flag*, std::string>> early_;
};

const Flag* Line::find(std::string_view name) const {
    const Flag* other = nullptr;  // a flag of that name of another verb
    for (const Flag& flag : flags())
        if (flag.name == name || (name.size() == 1 && flag.letter == name[0])) {
            if (!o_.verb || flag.is_of(o_.verb->name)) return &flag;
            other = &flag;
        }
    return other;
}

/// `@FILE` at the place of a word: the words of the file take its place.
bool Line::expand() {
    const std::string path = words_[at_].substr(1);
    if (++argument_files_ > kMaxArgumentFiles) return fail("@" + path + ": argument files name one another without end");
    std::string error;
    const auto text = read_file(path == "-" ? "/dev/stdin" : path, kMaxArguments, error);
    if (!text) return fail("@" + error, io);
    auto words = file_words(*text);
    if (!words) return fail("@" + path + ": a quote is not closed");
    words_.erase(words_.begin() + static_cast<ptrdiff_t>(at_));
    words_.insert(words_.begin() + static_cast<ptrdiff_t>(at_), words->begin(), words->end());
    return true;
}

/// Puts a value where it belongs; a reason when it does not fit.
std::string Line::store(const Target& target, Takes takes, std::string_view words, const std::string& value) {
    if (takes == Takes::word) {
        const auto known = words_of(words);
        if (std::find(known.begin(), known.end(), value) == known.end()) {
            std::string all;
            for (const std::string_view w : known) all += (all.empty() ? "" : ", ") + std::string(w);
            return "is none of " + all + did_you_mean(value, known);
        }
    }
    return std::visit(
        [&](auto member) -> std::string {
            using T = std::remove_cvref_t<decltype(o_.*member)>;
            if constexpr (std::is_same_v<T, bool>) {
                o_.*member = true;
            } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
                (o_.*member).push_back(value);
            } else if constexpr (std::is_same_v<T, double>) {
                return read_seconds(value, o_.*member);
            } else if constexpr (std::is_same_v<T, std::string>) {
                o_.*member = value;
            } else {
                uint64_t count = 0;
                if (std::string why = read_count(value, count); !why.empty()) return why;
                o_.*member = count;
            }
            return {};
        },
        target);
}

bool Line::take(const Flag& flag, std::string shown, std::optional<std::string> value) {
    if (flag.value.empty()) {
        if (value) return fail(shown + " takes no value, got `" + *value + "`");
        value.emplace();
    } else if (!value) {
        if (at_ == words_.size()) return fail(shown + " needs a value: " + std::string(flag.value));
        value = words_[at_++];
    }
    if (!flag.verbs.empty() && !o_.verb) {
        early_.emplace_back(&flag, *value);
        return true;
    }
    if (o_.verb && !flag.is_of(o_.verb->name)) return unknown_flag(shown);
    const std::string why = store(flag.target, flag.takes, flag.words, *value);
    return why.empty() || fail(shown + ": `" + *value + "` " + why);
}

bool Line::unknown_flag(const std::string& name) {
    std::vector<std::string> own;
    std::string others;
    for (const Flag& flag : flags()) {
        if (!o_.verb || flag.is_of(o_.verb->name))
            own.push_back("--" + std::string(flag.name));
        else if ("--" + std::string(flag.name) == name)
            others = std::string(flag.verbs);
    }
    own.insert(own.end(), {"--help", "--version"});
    std::string all;
    for (const std::string_view verb : words_of(others)) all += (all.empty() ? "; it belongs to `" : "`, `") + std::string(verb);
    if (!all.empty()) all += "`";
    const std::vector<std::string_view> names(own.begin(), own.end());
    return fail(where() + " has no option " + name + (all.empty() ? did_you_mean(name, names) : all));
}

bool Line::long_flag(std::string_view word) {
    const size_t equals = word.find('=');
    const std::string name(word.substr(0, equals));
    std::optional<std::string> value;
    if (equals != word.npos) value = word.substr(equals + 1);
    if (name == "--help" || name == "--version") {
        out_.what = name == "--help" ? Parsed::help : Parsed::version;
        return true;
    }
    const Flag* flag = name.size() > 3 ? find(name.substr(2)) : nullptr;
    return flag ? take(*flag, name, std::move(value)) : unknown_flag(name);
}

/// `-f value`, `-fvalue`, and letters without values together, `-qf value`.
bool Line::short_flag(std::string_view word) {
    for (size_t i = 1; i < word.size(); ++i) {
        const std::string shown = {'-', word[i]};
        if (word[i] == 'h') {
            out_.what = Parsed::help;
            return true;
        }
        const Flag* flag = find(word.substr(i, 1));
        if (!flag) return unknown_flag(shown);
        const bool rest = !flag->value.empty() && i + 1 < word.size();
        if (!take(*flag, shown, rest ? std::optional(std::string(word.substr(i + 1 + (word[i + 1] == '=')))) : std::nullopt)) return false;
        if (rest) return true;
    }
    return true;
}

bool Line::operand(const std::string& word) {
    if (!o_.verb) {
        std::vector<std::string_view> names;
        for (const Verb& verb : verbs()) {
            if (verb.name == word) o_.verb = &verb;
            names.push_back(verb.name);
        }
        if (o_.verb) return true;
        if (word == "help") {  // `tegula help VERB` is `tegula VERB --help`
            out_.what = Parsed::help;
            return true;
        }
        return fail("there is no verb `" + word + "`" + did_you_mean(word, names));
    }
    const auto& wanted = o_.verb->operands;
    if (wanted.empty() || (operands_ >= wanted.size() && !wanted.back().many))
        return fail(where() + " takes " + (wanted.empty() ? "no operands" : "no more operands than " + std::to_string(wanted.size())) + ", got `" +
                    word + "`");
    const Operand& slot = wanted[std::min(operands_, wanted.size() - 1)];
    ++operands_;
    const std::string why = store(slot.target, slot.takes, slot.words, word);
    return why.empty() || fail("`" + word + "` " + why);
}

bool Line::finish() {
    if (!o_.verb) return fail("name a verb, such as run, check or test");
    for (const auto& [flag, value] : early_) {
        const std::string shown = "--" + std::string(flag->name);
        const Flag* own = find(flag->name);
        if (!own->is_of(o_.verb->name)) return unknown_flag(shown);
        if (const std::string why = store(own->target, own->takes, own->words, value); !why.empty()) return fail(shown + ": `" + value + "` " + why);
    }
    for (size_t i = operands_; i < o_.verb->operands.size(); ++i)
        if (o_.verb->operands[i].required) {
            const Operand& missing = o_.verb->operands[i];
            return fail(where() + " needs " + std::string(missing.name) + ": " + std::string(missing.help));
        }
    return true;
}

Parsed Line::read() {
    bool flags_over = false;
    while (at_ < words_.size()) {
        const std::string word = words_[at_];
        if (!flags_over && word.size() > 1 && word[0] == '@') {
            if (!expand()) return out_;
            continue;
        }
        ++at_;
        bool good = true;
        if (flags_over || word.size() < 2 || word[0] != '-')
            good = operand(word);
        else if (word == "--")
            flags_over = true;
        else
            good = word[1] == '-' ? long_flag(word) : short_flag(word);
        if (!good) return out_;
    }
    if (out_.what == Parsed::run) finish();
    return out_;
}

}  // namespace

bool Flag::is_of(std::string_view verb) const {
    if (verbs.empty()) return true;
    const auto all = words_of(verbs);
    return std::find(all.begin(), all.end(), verb) != all.end();
}

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> out;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(' ', at), text.size());
        if (end > at) out.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return out;
}

std::string_view closest(std::string_view word, std::span<const std::string_view> candidates) {
    constexpr size_t kLongest = 64, kFarthest = 3;
    if (word.size() > kLongest) return {};
    std::string_view best;
    size_t best_distance = kFarthest;
    for (const std::string_view candidate : candidates) {
        if (candidate.size() > word.size() + kFarthest || word.size() > candidate.size() + kFarthest) continue;
        const size_t distance = edit_distance(word, candidate);
        if (distance < best_distance && distance * 2 < std::max(word.size(), candidate.size())) best = candidate, best_distance = distance;
    }
    if (best.empty() && word.size() >= 3)  // a beginning that only one goes on from
        for (const std::string_view candidate : candidates)
            if (candidate.starts_with(word)) {
                if (!best.empty()) return {};
                best = candidate;
            }
    return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
    const std::string_view near = closest(word, candidates);
    return near.empty() ? std::string() : "; did you mean `" + std::string(near) + "`?";
}

Parsed parse_line(std::vector<std::string> words, Options& options) { return Line(std::move(words), options).read(); }

}  // namespace tegula_tool
