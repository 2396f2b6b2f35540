// Keys -> text, and what is to be seen of it: the map of keys, completion, history and search. Knows no terminal.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "buffer.h"
#include "editor.h"
#include "history.h"
#include "keys.h"
#include "screen.h"

namespace tegula_tool::edit {

/// What a key asks of the one that holds the terminal.
enum class Action : uint8_t { none, submit, interrupt, end, suspend, external, clear };

class Dialogue {
public:
    Dialogue(Client& client, const History& history, bool colour) : client_(client), history_(history), colour_(colour) {}

    /// A new input: empty, or the next one of a transcript that was pasted.
    void begin(std::string prompt);
    void set_prompt(std::string prompt) { prompt_ = std::move(prompt); }
    Action press(const Press& press);
    View view(size_t width, size_t height);
    /// The input as it stays on the screen.
    View submitted();
    const std::string& text() const { return buffer_.text(); }
    /// What an external editor made of the text.
    void take(std::string_view text) { buffer_.set(text, text.size()); }
    /// Shown under the text until the next key.
    void say(std::string message) { message_ = std::move(message); }

private:
    struct Listing {
        Completion completion;
        std::optional<size_t> chosen;
        std::string typed;  ///< instead of which candidates stand
        size_t length = 0;  ///< of what stands there now
    };
    struct Search {
        std::string query, text;  ///< text: what was there before
        size_t cursor = 0, entry = 0, at = 0;
        bool older = true, found = true;
    };
    using Command = Action (Dialogue::*)();
    struct Binding {
        char letter;
        bool alt;
        Command command;
    };
    static const Binding kBindings[];

    Client& client_;
    const History& history_;
    const bool colour_;
    Buffer buffer_;
    std::string prompt_, message_;
    std::vector<std::string> further_;  ///< inputs of a transcript that come next, the first one last
    std::optional<Listing> listing_;
    std::optional<Search> search_;
    bool tab_ = false, after_x_ = false;  ///< what the key before was
    // Walking through the history: entries that begin with what stood before the cursor.
    size_t entry_ = 0, recalled_cursor_ = 0;
    std::string draft_, prefix_, recalled_;
    bool walks_ = false;
    std::optional<std::string> coloured_, hinted_;  ///< of what `colours_` and `hint_` were made
    std::vector<Span> colours_;
    std::string hint_;

    Action named(const Press& press);
    Action character(const Press& press);
    Action enter();
    Action newline();
    Action up();
    Action down();
    Action backspace();
    Action tab();
    Action start_search();
    Action interrupt();
    Action end_of_input();
    template <auto function>
    Action edit();
    template <Action action>
    Action ask();
    Action prefix_x();

    void paste(std::string text);
    void insert_closer(char closer);
    void set_indent(size_t columns);
    void walk(bool older);
    void choose(size_t candidate);
    bool list_press(const Press& press);
    bool search_press(const Press& press);
    void seek(size_t from, bool older);
    std::vector<Row> list_rows(size_t width, size_t height) const;
    void mark_bracket(View& view) const;
    View plain_view();
};

/// The inputs of a transcript whose prompts have the name and form of `prompt`, `name[3]> `; empty: the text is none.
std::vector<std::string> transcript_inputs(std::string_view text, std::string_view prompt);

}  // namespace tegula_tool::edit
