// The console that a person or a script sees: reads inputs, has them evaluated, shows the events.
#pragma once
#include "core.h"
#include "tools/edit/editor.h"

namespace tegula_tool::repl {

class Front : public edit::Client {
public:
    Front(Session& tool, Evaluator& evaluator, bool colour);
    /// Inputs from a file or stream, as typed. The exit code: that of the first one that failed, 0 where a person types.
    int read(int fd, bool person);
    /// One text, with a prompt in front of each of its inputs where it is a transcript.
    int run(const std::string& text);
    /// A file of the command line: one input, or read as typed where it has commands or prompts in it.
    int run_file(const std::string& path);
    bool quitting() const { return quitting_; }
    bool going_on(int code) const { return !quitting_ && (code == ok || keeps_going_); }

    // What the editor asks.
    std::vector<edit::Span> colours(std::string_view text) override;
    edit::Completion complete(std::string_view text, size_t at) override;
    std::string hint(std::string_view text, size_t at) override;
    edit::Completeness is_complete(std::string_view text) override;
    std::string edit_outside(std::string& text) override;
    int idle_after() override;
    bool is_due() override;
    std::string idle() override;

private:
    int evaluate(const std::string& text);
    /// Commands that need the console itself; false: `text` is none.
    bool own(const std::string& text, int& code);
    int edit_item(const std::string& name);
    int shell(const std::string& command);
    int fail(Exit code, const std::string& message);
    void show(const Json& event);
    /// The result of a question that changes nothing; null: there is none.
    Json ask(const char* op, std::string_view text, size_t at);
    void note_interrupt();

    Session& tool_;
    Evaluator& evaluator_;
    const bool colour_, keeps_going_;
    edit::Editor* editor_ = nullptr;  ///< of the person
    bool json_ = false, quitting_ = false, transcript_ = false;
    bool others_ = false;  ///< what is read is typed by nobody
    uint64_t next_ = 1;
    int64_t interrupted_at_ = 0;
    std::vector<Json> later_;  ///< events that came while the editor had the screen
    std::string hint_text_, hint_;
    std::map<std::string, int64_t> watched_;  ///< files of :watch, and when they were changed last
    std::string seen_;                        ///< of a script: the text that was incomplete last
    int64_t open_ = 0;                        ///< brackets that it leaves open; 0: that is not known
};

}  // namespace tegula_tool::repl
