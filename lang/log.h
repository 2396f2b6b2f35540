// What a library tells its host beside results: lines of text, from any thread.
#pragma once
#include <functional>
#include <string>

namespace tegula {

enum class LogLevel : int { warning = 1, info = 2, launch = 3 };
/// May be empty. Must not throw.
using Log = std::function<void(LogLevel, const std::string&)>;

}  // namespace tegula
