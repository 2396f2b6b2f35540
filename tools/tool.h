// What the verbs of the command share: the engine, output streams, exit codes. Data goes to stdout, everything else to stderr.
#pragma once
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "options.h"
#include "tegula/tegula.hpp"

namespace tegula_tool {

const char* commit();  ///< that the command was built from, or empty

/// One invocation: owns the engine, turns statuses into exit codes, ends runs on Ctrl-C or timeout.
class Session {
public:
    explicit Session(const Options& options);
    ~Session();
    Session(const Session&) = delete;
    const Options& options;
    tegula::Engine engine;

    bool colour_output() const { return colour_; }
    /// Prints diagnostics (text to stderr; with --json as lines on stdout).
    void show(const tegula::Diagnostics& diagnostics) const;
    /// A message of the command itself, in the form of a diagnostic.
    int fail(Exit code, const std::string& message) const;
    /// The same, which does not make the command fail.
    void warn(const std::string& message) const;
    /// What may cure what went wrong.
    void hint(const std::string& message) const;
    int exit_code(tegula_status status) const;
    /// Loads a file ("-": standard input); shows diagnostics. False: `code` is set.
    bool load(const std::string& path, tegula::Module& module, int& code) const;
    tegula::RunOptions run_options() const;
    std::string machine_name() const;  ///< that runs are on
    /// What --set gives. nullopt: one of them is no NAME=VALUE, which has been said.
    std::optional<std::vector<tegula::NamedValue>> generics() const;
    void note(const std::string& line) const;          ///< to stderr, unless --quiet
    const std::string& said() const { return said_; }  ///< diagnostics that were shown, as text

private:
    friend int check_files(Session& session);
    mutable std::string kept_;  ///< diagnostics of `check --format sarif`, which are one document
    /// Diagnostics as JSON lines, in the form that was asked for.
    void show_lines(const std::string& json) const;
    void say(const char* level, const char* colour, const std::string& message) const;
    mutable std::string said_;
    bool colour_ = false;
    std::thread timer_;  ///< --timeout
    std::mutex timer_mutex_;
    std::condition_variable timer_wake_;
    bool timer_stop_ = false;
};

/// NAME=VALUE in two, at the first `=`; false when there is none or the name is empty.
bool split(const std::string& text, std::string& name, std::string& value);
/// A number, integers of 64 bits exactly, or `true` or `false`; false when the text is something else.
bool parse_number(const std::string& text, tegula::Value& value);
std::string json_text(const std::string& text);  ///< as a JSON string literal
/// As printf's %.*g (fixed: %.*f), whatever the locale.
std::string decimal(double v, int precision, std::chars_format format = std::chars_format::general);
/// As "3.5 MiB".
std::string bytes_text(uint64_t bytes);

/// What a report of an internal error needs, in a directory of its own, which is told together with the line that replays the call. Gives the exit
/// code of internal errors.
int leave_bundle(const std::vector<std::string>& words, const Options& options, const std::string& said);

/// The kernel that was launched last by statements; empty: none so far. Signal handlers may call it.
const char* launched_kernel();
bool stop_requested();  ///< by Ctrl-C, SIGTERM or --timeout
int exit_of(tegula_status status);

/// What became of a test or a bench, a line.
std::string result_line(const tegula_test_result& result, const std::string& place = {});
std::string doctor_text(const tegula::Engine& engine);
/// What a task of tegula_cache answered, for people.
std::string cache_text(const std::string& task, const std::string& json);

/// Machine code of a cubin as the CUDA toolkit's nvdisasm shows it; `lines`: with those of the CUDA text. nullopt: `error` says why not.
std::optional<std::string> disassembly(const std::string& cubin, bool lines, Exit& code, std::string& error);
/// `dump --emit=sass`: shows the machine code of a cubin with the CUDA toolkit's nvdisasm.
/// `text`: receives it instead.
int show_sass(const Session& session, const std::string& cubin, std::string* text = nullptr);

// The verbs. Each returns the exit code.
int run_kernel(Session& session);
int pack_file(Session& session);
int check_files(Session& session);
int test_files(Session& session);
int bench_files(Session& session);
int tune_files(Session& session);
int dump_file(Session& session);
int draw_picture(Session& session);
int format_files(Session& session);
int document_file(Session& session);
int explain_code(Session& session);
int doctor(Session& session);
int targets(Session& session);
int tend_cache(Session& session);
int new_project(Session& session);
int reduce_file(Session& session);
int bisect_file(Session& session);
int show_completions(Session& session);
int show_manual(Session& session);
int serve_editor(Session& session);
int start_repl(Session& session);

}  // namespace tegula_tool
