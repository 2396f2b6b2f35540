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

#include "tegula/tegula.hpp"

namespace tegula_tool {

/// Exit codes of the command, documented in docs/command.md.
enum Exit : int { ok = 0, source = 1, usage = 2, run_failed = 3, unavailable = 4, io = 5, internal = 70, timeout = 124, interrupted = 130 };

struct Options {
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
    uint64_t seed = 0, memory = 0, compile_budget = 0;
    std::optional<uint64_t> steps;  ///< not given: none, for tests 10^9
    unsigned threads = 0;
    std::string disable_passes;
    std::string in, out, with, type, layout;  // pack
    // others
    std::vector<std::string> files;
    std::string filter, emit = "ir", code;
    bool check_only = false, in_place = false;
};

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
    int exit_code(tegula_status status) const;
    /// Loads a file ("-": standard input); shows diagnostics. False: `code` is set.
    bool load(const std::string& path, tegula::Module& module, int& code) const;
    tegula::RunOptions run_options() const;
    /// What --set gives. nullopt: one of them is no NAME=VALUE, which has been said.
    std::optional<std::vector<tegula::NamedValue>> generics() const;
    void note(const std::string& line) const;  ///< to stderr, unless --quiet

private:
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

int run_kernel(Session& session);
int pack_file(Session& session);
int check_files(Session& session);
int test_files(Session& session, bool bench);
int dump_file(Session& session);
/// Disassembles a cubin to standard output with nvdisasm; exit code 4 when there is none.
int show_sass(const Session& session, const std::string& cubin);
int format_files(Session& session);
int document_file(Session& session);
int explain_code(Session& session);
int doctor(Session& session);
int targets(Session& session);

}  // namespace tegula_tool
