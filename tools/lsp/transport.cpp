#include "transport.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

namespace tegula_tool::lsp {

namespace {

constexpr uint64_t kLongestMessage = uint64_t{64} << 20;
constexpr size_t kLongestLine = 4096;
constexpr int kDeepest = 200;  ///< of nested values: what comes deeper is no message of ours

bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = ::write(fd, text.data(), text.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        text.remove_prefix(static_cast<size_t>(n));
    }
    return true;
}

/// Do brackets nest deeper than messages do? Asked before parsing, which recurses where values are destroyed.
bool too_deep(std::string_view text) {
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted && c == '\\')
            ++i;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '[' || c == '{') && ++depth > kDeepest)
            return true;
        else if (!quoted && (c == ']' || c == '}'))
            --depth;
    }
    return false;
}

bool same_word(std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i)
        if (lower(a[i]) != lower(b[i])) return false;
    return true;
}

}  // namespace

Transport::Transport(int in, int out, const std::string& log) : in_(in), out_(out) {
    if (!log.empty()) log_ = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (::pipe2(stop_, O_CLOEXEC) != 0) stop_[0] = stop_[1] = -1;
}

void Transport::stop() {
    if (stop_[1] >= 0) write_all(stop_[1], "x");
}

Transport::~Transport() {
    for (const int fd : {log_, stop_[0], stop_[1]})
        if (fd >= 0) ::close(fd);
}

void Transport::log(const char* direction, const std::string& text) {
    if (log_ >= 0) write_all(log_, direction + text + "\n");
}

bool Transport::fill() {
    if (at_ > 0) buffer_.erase(0, at_), at_ = 0;
    struct pollfd waits[2] = {{in_, POLLIN, 0}, {stop_[0], POLLIN, 0}};
    while (::poll(waits, 2, -1) < 0 && errno == EINTR) {
    }
    if (waits[1].revents & POLLIN) return false;
    char block[1 << 16];
    ssize_t n = 0;
    do n = ::read(in_, block, sizeof block);
    while (n < 0 && errno == EINTR);
    if (n <= 0) return false;
    buffer_.append(block, static_cast<size_t>(n));
    return true;
}

/// A line without its end; longer ones are cut.
bool Transport::line(std::string& out) {
    size_t end = 0;
    while ((end = buffer_.find('\n', at_)) == buffer_.npos && buffer_.size() - at_ <= kLongestLine)
        if (!fill()) return false;
    if (end == buffer_.npos) end = at_ + kLongestLine;
    out = buffer_.substr(at_, end - at_);
    at_ = std::min(end + 1, buffer_.size());
    if (!out.empty() && out.back() == '\r') out.pop_back();
    return true;
}

bool Transport::skip(uint64_t bytes) {
    for (;;) {
        const size_t have = static_cast<size_t>(std::min<uint64_t>(bytes, buffer_.size() - at_));
        at_ += have;
        bytes -= have;
        if (bytes == 0) return true;
        if (!fill()) return false;
    }
}

bool Transport::read(json& message) {
    for (;;) {
        uint64_t length = 0;
        bool known = false, wrong = false;
        std::string header;
        for (size_t lines = 0;; ++lines) {
            if (!line(header)) return false;
            if (header.empty()) {
                if (lines == 0) continue;
                break;
            }
            const size_t colon = header.find(':');
            std::string_view value = colon == header.npos ? std::string_view() : std::string_view(header).substr(colon + 1);
            while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
            if (colon == header.npos) {
                wrong = true;
            } else if (same_word(std::string_view(header).substr(0, colon), "Content-Length")) {
                const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
                known = error == std::errc() && end == value.data() + value.size();
                wrong |= !known;
            }
            // What is no header may be followed by a good message: it is looked for from here on.
            if (wrong) break;
        }
        if (wrong || !known) {
            fail(nullptr, parse_error, "a message begins with `Content-Length: N` and an empty line");
            continue;
        }
        if (length > kLongestMessage) {
            fail(nullptr, invalid_request, "a message of " + std::to_string(length) + " bytes is too long");
            if (!skip(length)) return false;
            continue;
        }
        while (buffer_.size() - at_ < length)
            if (!fill()) return false;
        const std::string text = buffer_.substr(at_, static_cast<size_t>(length));
        at_ += static_cast<size_t>(length);
        log("<- ", text);
        message = too_deep(text) ? json(json::value_t::discarded) : json::parse(text, nullptr, false);
        if (!message.is_discarded()) return true;
        fail(nullptr, parse_error, "the message is no JSON, or nests too deep");
    }
}

void Transport::write(const json& message) {
    const std::string text = message.dump(-1, ' ', false, json::error_handler_t::replace);
    const std::lock_guard lock(mutex_);
    log("-> ", text);
    write_all(out_, "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text);
}

void Transport::reply(const json& id, json result) { write({{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}}); }

void Transport::fail(const json& id, int code, const std::string& why) {
    write({{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", why}}}});
}

void Transport::notify(const char* method, json params) { write({{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}}); }

void Transport::ask(const std::string& id, const char* method) { write({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}}); }

}  // namespace tegula_tool::lsp
