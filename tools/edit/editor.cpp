// See editor.h.
#include "editor.h"

#include <unistd.h>

#include <cstdlib>

#include "dialogue.h"
#include "history.h"
#include "lines.h"
#include "tty.h"

namespace tegula_tool::edit {

namespace {

/// How long what follows an escape may take: slow lines break sequences in two.
constexpr int kEscapeWait = 1000;

bool can_edit(const Options& options) {
    const char* term = std::getenv("TERM");
    return !options.plain && ::isatty(options.in) && ::isatty(options.out) && term && *term && std::string_view(term) != "dumb";
}

}  // namespace

struct Editor::State {
    Client& client;
    const Options options;
    const bool edits;
    History history;
    LineReader lines;
    Dialogue dialogue;
    Decoder decoder;
    std::vector<Press> presses;  ///< that came in and were not looked at yet
    Painter painter;
    Layout layout;
    Size size;

    State(Client& c, Options o)
        : client(c),
          options(std::move(o)),
          edits(can_edit(options)),
          history(options.history),
          lines(options.in),
          dialogue(client, history, options.colour),
          painter(options.colour) {}

    Line edit(const std::string& prompt);
    /// What the keys that have come ask for; `none`: more keys.
    Action take_presses();
    void act(Action action, RawTerminal& terminal);
    void show() { put(painter.paint(layout.frame(dialogue.view(size.width, size.height), size.width, size.height))); }
    void put(const std::string& bytes) { write_all(options.out, bytes); }
    void resize(bool cleared);
};

Editor::Editor(Client& client, Options options) : state_(std::make_unique<State>(client, std::move(options))) {}
Editor::~Editor() = default;

bool Editor::edits() const { return state_->edits; }
History& Editor::history() { return state_->history; }
std::string Editor::take_note() { return state_->history.take_note(); }
size_t Editor::width() const { return size_of(state_->options.out).width; }

Line Editor::read(const std::string& prompt) {
    State& state = *state_;
    const Line line =
        state.edits ? state.edit(prompt) : read_plain(state.lines, state.client, prompt, ::isatty(state.options.in) ? state.options.out : -1);
    if (line.kind == Line::Kind::text) state.history.add(line.text);
    return line;
}

Action Editor::State::take_presses() {
    for (size_t i = 0; i < presses.size(); ++i)
        if (const Action action = dialogue.press(presses[i]); action != Action::none) {
            presses.erase(presses.begin(), presses.begin() + static_cast<std::ptrdiff_t>(i) + 1);
            return action;
        }
    presses.clear();
    return Action::none;
}

void Editor::State::resize(bool cleared) {
    const Size now = size_of(options.out);
    if (!cleared && now == size) return;
    size = now;
    if (cleared)
        painter.forget();
    else
        put(painter.resized(size.width, size.height));
    show();
}

void Editor::State::act(Action action, RawTerminal& terminal) {
    if (action == Action::clear) {
        painter.forget();
        put("\x1b[H\x1b[2J");
    } else if (action == Action::suspend) {
        put(painter.leave());
        restore_terminal();
        stop_process();
        terminal.enter();
    } else {
        put(painter.leave());
        restore_terminal();
        std::string text = dialogue.text();
        const std::string why = client.edit_outside(text);
        terminal.enter();
        if (why.empty())
            dialogue.take(text);
        else
            dialogue.say(why);
    }
    size = size_of(options.out);
}

Line Editor::State::edit(const std::string& prompt) {
    RawTerminal terminal(options.in, options.out);
    dialogue.begin(prompt);
    layout.reset();
    painter.forget();
    size = size_of(options.out);
    // A line that somebody has left open is ended: these blanks reach the next row unless they begin in the first column.
    put(std::string(size.width, ' ') + "\r\x1b[K");
    for (bool changed = true;;) {
        // Keys that have come together are shown together.
        switch (const Action action = take_presses()) {
            case Action::none:
                if (changed) show();
                break;
            case Action::submit: {
                const View view = dialogue.submitted();
                put(painter.paint(layout.frame(view, size.width, size.height)));
                put(painter.leave());
                return {Line::Kind::text, std::string(view.text)};
            }
            case Action::interrupt:
                put(painter.erase());
                return {Line::Kind::interrupted, {}};
            case Action::end:
                put(painter.leave());
                return {};
            case Action::suspend:
            case Action::external:
            case Action::clear:
                act(action, terminal);
                changed = true;
                continue;
        }
        std::string bytes;
        Events events;
        const int idle_after = decoder.waits() ? -1 : client.idle_after();
        const bool more = terminal.wait(decoder.waits() ? kEscapeWait : idle_after, bytes, events);
        if (events.stopped) act(Action::suspend, terminal), show();
        if (events.continued) terminal.enter_again(), resize(true);  // stopped by a signal that nobody can see
        if (events.resized) resize(false);
        if (!more) {  // the terminal has gone
            put(painter.leave());
            return {};
        }
        if (bytes.empty() && idle_after >= 0 && client.is_due()) {
            put(painter.erase());
            restore_terminal();
            dialogue.set_prompt(client.idle());
            terminal.enter();
            resize(true);
        }
        if (bytes.empty() && decoder.waits() && !events.resized && !events.continued && !events.stopped) decoder.settle(presses);
        decoder.feed(bytes, presses);
        changed = !presses.empty();
    }
}

}  // namespace tegula_tool::edit
