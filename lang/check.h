// TEGULA_CHECK: an invariant of ours, on in release builds. A failure throws InternalError, which the C ABI turns
// into the internal-error status with this text; it never aborts the host.
#pragma once
#include <stdexcept>
#include <string>

namespace tegula {

struct InternalError : std::logic_error {
    using std::logic_error::logic_error;
};

[[noreturn]] inline void internal_error(const char* file, int line, const char* condition, const std::string& what = {}) {
    throw InternalError(std::string("internal error at ") + file + ":" + std::to_string(line) + ": " + condition +
                        (what.empty() ? "" : ": " + what));
}

}  // namespace tegula

#define TEGULA_CHECK(condition, ...) \
    ((condition) ? void(0) : ::tegula::internal_error(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__))
