// See editor.h.
#include "editor.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "history.h"
#include "lines.h"

namespace tegula_tool::edit {

struct Editor::State {
    Client& client;
    Options options;
    History history;
    LineReader lines;
    State(Client& c, Options o) : client(c), options(std::move(o)), history(options.history), lines(options.in) {}
};

Editor::Editor(Client& client, Options options) : state_(std::make_unique<State>(client, std::move(options))) {}
Editor::~Editor() = default;

bool Editor::edits() const { return false; }
History& Editor::history() { return state_->history; }
std::string Editor::take_note() { return state_->history.take_note(); }

size_t Editor::width() const {
    winsize size{};
    return ::ioctl(state_->options.out, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

Line Editor::read(const std::string& prompt) {
    const Line line = read_plain(state_->lines, state_->client, prompt, ::isatty(state_->options.in) ? state_->options.out : -1);
    if (line.kind == Line::Kind::text) state_->history.add(line.text);
    return line;
}

void restore_terminal() {}

}  // namespace tegula_tool::edit
