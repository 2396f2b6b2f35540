// `tegula cache`: the files of compiled code, and what to do with them.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "terminal.h"
#include "tool.h"

namespace tegula_tool {

namespace {

/// YYYY-MM-DD hh:mm of a clock that is the same everywhere.
std::string time_text(int64_t seconds) {
    const std::time_t at = static_cast<std::time_t>(seconds);
    struct tm utc {};
    ::gmtime_r(&at, &utc);
    char text[80];
    std::snprintf(text, sizeof text, "%04d-%02d-%02d %02d:%02d", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min);
    return text;
}

}  // namespace

int tend_cache(Session& session) {
    const std::string& task = session.options.task;
    auto text = session.engine.cache(task);
    session.show(text.diagnostics());
    if (!text) return session.exit_code(text.status());
    if (session.options.json) return std::fputs(text.value().c_str(), stdout), ok;
    const auto cache = nlohmann::json::parse(text.value());
    if (const std::string problem = cache["problem"]; !problem.empty()) {
        const std::string directory = cache["directory"];
        return session.note((directory.empty() ? "" : directory + ": ") + problem), ok;
    }
    std::fputs(cache_text(task, text.value()).c_str(), stdout);
    return ok;
}

std::string cache_text(const std::string& task, const std::string& json) {
    const auto cache = nlohmann::json::parse(json);
    const auto& entries = cache["entries"];
    const std::string directory = visible(cache["directory"].get<std::string>());
    if (const std::string problem = cache["problem"]; !problem.empty()) return (directory.empty() ? "" : directory + ": ") + visible(problem) + "\n";
    std::string out;
    if (task == "list")
        for (const auto& e : entries) {
            const std::string bytes = bytes_text(e["bytes"]);
            out += e["name"].get<std::string>() + "  " + time_text(e["used"]) + " UTC  " + std::string(10 - std::min<size_t>(bytes.size(), 10), ' ') +
                   bytes + "  " + (e["damaged"].get<bool>() ? "damaged" : visible(e["what"].get<std::string>())) + "\n";
        }
    if (task == "verify" || task == "trim" || task == "clear")
        out += std::to_string(cache["removed"].get<uint64_t>()) + (task == "verify" ? " damaged" : "") + " entries removed, " +
               bytes_text(cache["removed_bytes"]) + "\n";
    return out + directory + ": " + std::to_string(entries.size()) + " entries, " + bytes_text(cache["bytes"]) + " of " + bytes_text(cache["limit"]) +
           "\n";
}

}  // namespace tegula_tool
