// What the command line says, and the one table that describes it: parsing, help, manual, completions and docs/command.md follow from it.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tegula_tool {

/// Exit codes of the command, documented in docs/command.md.
enum Exit : int { ok = 0, source = 1, usage = 2, run_failed = 3, unavailable = 4, io = 5, internal = 70, timeout = 124, interrupted = 130 };

struct Verb;

struct Options {
    const Verb* verb = nullptr;
    bool json = false, quiet = false;
    std::string colour = "auto";  ///< auto, always, never
    std::string machine;          ///< empty: best present
    std::string model;            ///< GPU whose sums the interpreter computes; empty: none
    std::string import_root;
    bool confine_loads = false;
    double timeout_seconds = 0;  ///< 0: none
    // run
    std::string file, kernel;
    std::vector<std::string> args, sets, outs;
    bool checked = false, checked_native = false, trap_floats = false, time = false;
    std::string show = "8";  ///< elements of outputs without a file, or all
    uint64_t digits = 6;
    uint64_t reps = 0;  ///< 0: one, and no figures
    uint64_t seed = 0, memory = 0, compile_budget = 0, threads = 0;
    std::optional<uint64_t> steps;  ///< not given: none, for tests 10^9
    std::string disable_passes;
    std::string in, out, with, type, layout, scale = "none";  // pack
    // others
    std::vector<std::string> files;
    std::string picture, arch, of, form;  // viz
    std::string filter, emit = "ir", code, shell, page, directory, task = "stats", condition, format = "text";
    std::string budget = "20s", tuned;
    uint64_t jobs = 0;
    std::string log;  ///< lsp
    double patience = 0;  ///< seconds for each command of reduce and bisect; 0: the usual
    bool check_only = false;
    // repl
    std::vector<std::string> texts;
    std::string init;  ///< none: no file; empty: the usual one
    bool interactive = false, no_history = false, plain = false, isolate = false, untrusted = false, shell_commands = false, keep_going = false;
    bool confined() const { return confine_loads || untrusted; }
};

/// Where a value goes. A flag of a `bool` takes no value; lists take one each time.
using Target = std::variant<bool Options::*, std::string Options::*, std::vector<std::string> Options::*, uint64_t Options::*,
                            std::optional<uint64_t> Options::*, double Options::*>;

/// What a value is: `word` is one of `words`, `text` may be others than those.
enum class Takes : uint8_t { text, word, file, folder };

struct Flag {
    std::string_view verbs;  ///< that take it, between spaces; empty: every verb
    std::string_view name;   ///< without the dashes
    char letter;             ///< the short form; 0: none
    std::string_view value;  ///< what its value is called; empty: it takes none
    Takes takes;
    std::string_view words;  ///< values between spaces, which completion offers
    Target target;
    std::string_view help;
    bool is_of(std::string_view verb) const;
};

struct Operand {
    std::string_view name;
    bool required, many;
    Takes takes;
    std::string_view words;
    Target target;
    std::string_view help;
};

class Session;
struct Verb {
    std::string_view name, help;
    std::vector<Operand> operands;
    std::vector<std::string_view> examples;
    std::string_view more;  ///< paragraphs of the manual, each on a line
    int (*run)(Session&);
};

struct Row {
    std::string_view name, help;
};

std::span<const Verb> verbs();
std::span<const Flag> flags();
std::span<const Row> exit_codes();
std::span<const Row> variables();  ///< of the environment
/// The words of a list between spaces.
std::vector<std::string_view> words_of(std::string_view text);
/// The candidate closest to a misspelt word, or empty.
std::string_view closest(std::string_view word, std::span<const std::string_view> candidates);
/// "; did you mean `..`?" or empty.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

/// What became of a command line.
struct Parsed {
    enum { run, help, version, failed } what = run;
    std::string message;  ///< failed: why
    Exit code = usage;
};
/// Reads the words after the command's name. A word `@FILE` stands for the words of that file.
Parsed parse_line(std::vector<std::string> words, Options& options);

std::string help_text(const Verb* verb, bool colour);  ///< null: of the command
std::string manual_page(const Verb* verb);             ///< roff; null: of the command
std::string reference_text();                          ///< Markdown, part of docs/command.md
std::string completions_text(std::string_view shell);  ///< bash, zsh or fish

}  // namespace tegula_tool
