// The terminal's state: raw while keys are read, given back whatever happens then. There is one terminal.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace tegula_tool::edit {

/// What happened besides keys.
struct Events {
    bool resized = false, stopped = false, continued = false;
};

/// While it lives the terminal is raw, pastes are marked, and signals that concern the screen are collected. Others end the process as before, with
/// the terminal given back.
class RawTerminal {
public:
    RawTerminal(int in, int out);
    ~RawTerminal();
    RawTerminal(const RawTerminal&) = delete;
    void enter();
    void enter_again();  ///< somebody else has changed it meanwhile
    /// Waits for input, a signal, or the end of the time (-1: none). False: input has come to its end.
    bool wait(int milliseconds, std::string& bytes, Events& events);

private:
    int in_;
};

std::string error_text(int code);  ///< what errno says
bool write_all(int fd, std::string_view bytes);
struct Size {
    size_t width = 80, height = 24;
    bool operator==(const Size&) const = default;
};
Size size_of(int fd);
/// Stops the process as Ctrl-Z does elsewhere; returns when it goes on.
void stop_process();

}  // namespace tegula_tool::edit
