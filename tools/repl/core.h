// What answers the console: a session, its settings, and the commands that begin with `:`. Requests and the events that answer them are JSON objects
// (tools/schema/repl.json); who shows the events, and whether that is another process, is no matter here.
#pragma once
#include <functional>
#include <mutex>
#include <set>

#include "tools/tool.h"
#include "values.h"

namespace tegula_tool::repl {

constexpr uint64_t kMostFile = uint64_t{16} << 20;  ///< bytes of a file that is loaded, as of every source file
int64_t now();                                      ///< milliseconds of a clock that only goes on
/// When a file was changed, in nanoseconds; -1: there is none.
int64_t changed_at(const std::string& path);

using Hear = std::function<void(Json event)>;  // tokens of a long text are thousands of objects: they are handed on, not copied

class Evaluator {
public:
    virtual ~Evaluator() = default;
    /// Answers by events, of which the last one is `done`; returns that without its `result`. One at a time.
    virtual Json request(const Json& request, const Hear& hear) = 0;
    /// Ends the request in progress. Signal handlers call it.
    virtual void interrupt() = 0;
};

struct Settings {
    std::string machine, model, checked = "off";
    bool colour = false;
    uint64_t digits = 0, edge = 3, threshold = 1000, threads = 0, seed = 0, steps = 0, memory = 0;
};

class Core : public Evaluator {
public:
    /// Throws where the library cannot begin.
    explicit Core(Session& tool);
    Json request(const Json& request, const Hear& hear) override;
    void interrupt() override;

    // For commands (commands.h), while a request is answered.
    Session& tool() { return tool_; }
    tegula::Session& session() { return session_; }
    Settings& settings() { return settings_; }
    tegula::RunOptions run_options();
    std::string machine_name();
    Style style() const;
    void event(Json event);
    void say(const std::string& text);                                       ///< a command's own words, ended by a newline
    int fail(Exit code, const std::string& message);                         ///< a diagnostic of the console itself
    int show(const tegula::Diagnostics& diagnostics, tegula_status status);  ///< the exit code of the status
    /// Evaluates a text as an input; `name` as diagnostics show it, empty: its number.
    int evaluate(const std::string& text, const std::string& name = {});
    /// The answer of the session's verb, or nothing where there was an error, which has been shown; `code` says which.
    std::optional<Json> ask(const std::string& verb, const std::string& text, int& code, size_t at = 0);
    std::optional<Json> look(const std::string& text, int& code);  ///< the value of an expression with codes and places, changing nothing
    void value(const Json& value, double seconds, const Style& style, const std::string& name = {});
    tegula::Module module(int& code);
    /// Names of the items of one kind, in the order in which they were given; empty: of all.
    std::vector<std::string> names(std::string_view kind);
    int load(const std::string& path);
    void watch(const std::string& path);
    const std::vector<std::string>& loaded() const { return loaded_; }
    const Json& last_diagnostics() const { return last_; }
    void forget_files() { loaded_.clear(), watched_.clear(); }

private:
    int answer(const std::string& op, const Json& request);
    Json complete(const std::string& text, size_t at);
    Json is_complete(const std::string& text);
    void reload_changed();
    void note_colon(std::string_view input);
    void report(const std::string& level, const std::string& message);
    void hear_of(const char* text, size_t size);

    Session& tool_;
    tegula::Session session_;
    Settings settings_;
    const Hear* hear_ = nullptr;
    std::mutex hear_mutex_;  ///< programs print and report progress from several threads
    size_t width_ = 80;
    uint64_t next_ = 1;  ///< number of the next input
    Json result_, last_ = Json::array();
    std::string machine_;  ///< that launches run on by themselves, once asked for
    std::vector<std::string> loaded_;
    std::map<std::string, int64_t> watched_;  ///< with the time of the last change
    Json reloaded_;                           ///< files that the request in progress has found changed, and whether they are good
};

/// Is it blank?
bool is_blank(std::string_view text);

}  // namespace tegula_tool::repl
