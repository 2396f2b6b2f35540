// `tegula cache`: the files of compiled code, and what to do with them.
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "terminal.h"
#include "tool.h"

namespace tegula_tool {

namespace {

std::string bytes_text(uint64_t bytes) {
    constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB"};
    double value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1024 && unit < 3) value /= 1024, ++unit;
    return (unit ? decimal(value, 1, std::chars_format::fixed) : std::to_string(bytes)) + " " + kUnits[unit];
}

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
    const auto& entries = cache["entries"];
    if (const std::string problem = cache["problem"]; !problem.empty()) {
        const std::string directory = cache["directory"];
        return session.note((directory.empty() ? "" : directory + ": ") + problem), ok;
    }
    if (task == "list")
        for (const auto& e : entries)
            std::printf("%s  %s UTC  %10s  %s\n", e["name"].get<std::string>().c_str(), time_text(e["used"]).c_str(), bytes_text(e["bytes"]).c_str(),
                        e["damaged"].get<bool>() ? "damaged" : visible(e["what"].get<std::string>()).c_str());
    const uint64_t removed = cache["removed"];
    if (task == "verify" || task == "trim" || task == "clear")
        std::printf("%llu%s entries removed, %s\n", static_cast<unsigned long long>(removed), task == "verify" ? " damaged" : "",
                    bytes_text(cache["removed_bytes"]).c_str());
    std::printf("%s: %zu entries, %s of %s\n", visible(cache["directory"].get<std::string>()).c_str(), entries.size(),
                bytes_text(cache["bytes"]).c_str(), bytes_text(cache["limit"]).c_str());
    return ok;
}

}  // namespace tegula_tool
