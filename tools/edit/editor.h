// The editor of what people type into the console: text of several lines on a terminal, with colour, completion, history and search. What reads a
// terminal, and how text looks there, is here; what the text means is its client's. Where there is no terminal that can do it, lines are read plainly
// and no escape sequence is written.
//
// Invariant: outside of `read` the terminal is as it was found. The parts that decide (keys.h, buffer.h, screen.h, dialogue.h) know no terminal.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tegula_tool::edit {

enum class Colour : uint8_t { plain, keyword, type, number, string, comment, operation, function, attribute, error };
struct Span {
    size_t begin, end;  ///< bytes of the text
    Colour colour;
};
struct Candidate {
    std::string text;  ///< what stands instead of the bytes of the completion
    std::string note;  ///< kind, type or signature, shown with the documentation
    std::string doc;
};
struct Completion {
    size_t begin = 0, end = 0;  ///< the bytes that a candidate replaces
    std::vector<Candidate> candidates;
};
struct Completeness {
    bool complete = true;  ///< or wrong in a way that more text does not mend: Enter ends the input
    size_t indent = 0;     ///< of the next line, in columns
};

/// What the text means. Every function but the last two is called between a key and the screen: a few milliseconds at most. They never throw.
class Client {
public:
    virtual ~Client() = default;
    /// In order and disjoint; what is in no span is plain.
    virtual std::vector<Span> colours(std::string_view text) { return (void)text, std::vector<Span>{}; }
    virtual Completion complete(std::string_view text, size_t at) { return (void)text, Completion{at, at, {}}; }
    /// Shown in grey behind the end of the text, e.g. the signature of the function whose arguments are being typed.
    virtual std::string hint(std::string_view text, size_t at) { return (void)text, (void)at, std::string(); }
    virtual Completeness is_complete(std::string_view text) { return (void)text, Completeness{}; }
    /// After so many milliseconds without a key `is_due` is asked; negative: never. It tells whether something else is to be done first.
    virtual int idle_after() { return -1; }
    virtual bool is_due() { return false; }
    /// Does that, with the terminal as it was found and nothing of the text on it; the prompt from then on. Then the text is shown again as it was.
    virtual std::string idle() { return {}; }
    /// Has the text edited by another program, which has the terminal meanwhile; an error message, or empty.
    virtual std::string edit_outside(std::string& text) { return (void)text, "there is no other editor"; }
};

struct Options {
    int in = 0, out = 1;  ///< where keys come from, and where the screen is
    bool plain = false;   ///< lines are read plainly even on a terminal
    bool colour = true;
    std::string history;  ///< path of the file (default_history()); empty: this session only
};

struct Line {
    enum class Kind { text, interrupted, ended };
    Kind kind = Kind::ended;
    std::string text;  ///< without the newline that ended it
};

class History;  // history.h

class Editor {
public:
    Editor(Client& client, Options options);
    ~Editor();
    Editor(const Editor&) = delete;
    /// One input. The prompt has the form `name[3]> `. `interrupted`: Ctrl-C took the text away (nothing is left of it on the screen);
    /// `ended`: Ctrl-D on an empty line, or no more input. What was read goes to the history.
    Line read(const std::string& prompt);
    /// `read` edits: the input is a terminal that can move its cursor. Else it reads lines, and shows the prompt where these come from a terminal.
    bool edits() const;
    /// Columns of the terminal; 80 where there is none.
    size_t width() const;
    History& history();
    /// What there is to say once: why the history is not kept. Empty from then on.
    std::string take_note();

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// Gives the terminal back as it was before `read`. Signal handlers may call it, at any time.
void restore_terminal();

/// $XDG_STATE_HOME/tegula/history, else ~/.local/state/tegula/history; without either a path of which `take_note` says so.
std::string default_history();

}  // namespace tegula_tool::edit
