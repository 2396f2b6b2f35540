// See terminal.h.
#include "terminal.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <mutex>

namespace tegula_tool {

namespace {

std::atomic<bool> g_progress{false};  ///< a line of progress stands on standard error; there is one terminal

/// The length of the character at `at` when it is UTF-8 that a terminal shows where it stands, else 0.
size_t shown_length(std::string_view text, size_t at) {
    const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
    const uint8_t first = byte(at);
    if (first < 0x80) return first >= 0x20 && first != 0x7f;
    const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    uint32_t point = first & (0x7fu >> length);
    for (size_t i = 1; i < length; ++i) {
        if ((byte(at + i) & 0xc0) != 0x80) return 0;
        point = point << 6 | (byte(at + i) & 0x3fu);
    }
    const uint32_t smallest = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
    if (first < 0xc2 || first > 0xf4 || point < smallest || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return 0;
    const bool control = point < 0xa0 || point == 0xad || point == 0x61c || point == 0x180e || (point >= 0x200b && point <= 0x200f) ||
                         (point >= 0x2028 && point <= 0x202e) || (point >= 0x2060 && point <= 0x206f) || point == 0xfeff ||
                         (point >= 0xfff9 && point <= 0xfffb) || (point >= 0xe0000 && point <= 0xe007f);
    return control ? 0 : length;
}

}  // namespace

std::string visible(std::string_view text, bool keep_lines) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
        const bool kept = keep_lines && (text[at] == '\n' || text[at] == '\t');
        if (const size_t length = kept ? 1 : shown_length(text, at)) {
            out += text.substr(at, length);
            at += length;
            continue;
        }
        static constexpr char kHex[] = "0123456789abcdef";
        const auto byte = static_cast<uint8_t>(text[at++]);
        ((out += "\\x") += kHex[byte >> 4]) += kHex[byte & 15];
    }
    return out;
}

bool wants_colour(const std::string& mode, int fd) {
    if (mode != "auto") return mode == "always";
    const char* force = std::getenv("CLICOLOR_FORCE");
    if (force && *force && std::string_view(force) != "0") return true;
    const char* no = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    return !(no && *no) && ::isatty(fd) && !(term && std::string_view(term) == "dumb");
}

void print_lines(std::string_view text, std::FILE* to) {
    erase_progress();
    const std::string shown = visible(text, true);
    std::fwrite(shown.data(), 1, shown.size(), to);
}

void print_artifact(std::string_view text) {
    if (::isatty(STDOUT_FILENO)) return print_lines(text, stdout);
    std::fwrite(text.data(), 1, text.size(), stdout);
}

void show_progress(const std::string& line) {
    g_progress = true;
    std::fprintf(stderr, "\r%s\033[K", line.c_str());
}

void show_count(uint64_t done, uint64_t all, const char* what) {
    using Clock = std::chrono::steady_clock;
    constexpr double kBetweenLines = 10;
    static std::mutex mutex;
    static uint64_t before = 0, of = 0;
    static Clock::time_point start, said;
    const std::lock_guard lock(mutex);
    const Clock::time_point now = Clock::now();
    if (all != of || done < before) start = said = now;
    before = done, of = all;
    if (done == all) return erase_progress();
    const double seconds = std::chrono::duration<double>(now - start).count();
    std::string line = std::to_string(done) + " of " + std::to_string(all) + " " + what;
    if (done && seconds > 0.5) {
        const double rate = static_cast<double>(done) / seconds;
        line += ", " + std::to_string(static_cast<uint64_t>(rate)) + " a second, " +
                std::to_string(static_cast<uint64_t>(static_cast<double>(all - done) / rate) + 1) + " s left";
    }
    if (::isatty(STDERR_FILENO)) return show_progress(line);
    if (std::chrono::duration<double>(now - said).count() < kBetweenLines) return;
    said = now;
    std::fprintf(stderr, "%s\n", line.c_str());
}

void erase_progress() {
    if (!g_progress.exchange(false)) return;
    constexpr std::string_view kErase = "\r\033[K";
    if (::write(STDERR_FILENO, kErase.data(), kErase.size()) < 0) g_progress = false;  // nobody sees it
}

}  // namespace tegula_tool
