// Messages of the language server protocol on two file descriptors: headers, lengths, JSON.
#pragma once
#include <cstdint>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

namespace tegula_tool::lsp {

using nlohmann::json;

/// JSON-RPC's and the protocol's own numbers of errors.
enum Error : int {
    parse_error = -32700,
    invalid_request = -32600,
    unknown_method = -32601,
    invalid_params = -32602,
    internal_error = -32603,
    not_initialized = -32002,
    request_failed = -32803,
    content_modified = -32801,
    request_cancelled = -32800
};

class Transport {
public:
    /// `log`: a file that takes a copy of every message; empty: none.
    Transport(int in, int out, const std::string& log);
    ~Transport();
    Transport(const Transport&) = delete;
    /// The next message that is JSON; what is none is answered with an error. False: there are no more.
    bool read(json& message);
    /// Ends a `read` in progress, and those that come. From any thread.
    void stop();
    /// From any thread.
    void write(const json& message);
    void reply(const json& id, json result);
    void fail(const json& id, int code, const std::string& why);
    void notify(const char* method, json params);
    /// A request to the client, whose answer says nothing.
    void ask(const std::string& id, const char* method);

private:
    const int in_, out_;
    int log_ = -1, stop_[2] = {-1, -1};
    std::string buffer_;
    size_t at_ = 0;  ///< of what has not been read
    std::mutex mutex_;

    bool fill();
    bool line(std::string& out);
    bool skip(uint64_t bytes);
    void log(const char* direction, const std::string& text);
};

}  // namespace tegula_tool::lsp
