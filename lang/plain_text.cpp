// Texts without a locale (plain_text.h).
#include "lang/plain_text.h"

#include <cmath>
#include <cstring>

namespace tegula {

std::string decimal_text(double v, int precision, std::chars_format format) {
    char text[400];  // 309 digits before the point, and few behind it
    return {text, std::to_chars(text, text + sizeof text, v, format, std::min(precision, 60)).ptr};
}

std::string hex_float_text(double v) {
    char text[40];
    if (!std::isfinite(v)) return decimal_text(v, 6);
    const std::string digits(text, std::to_chars(text, text + sizeof text, std::fabs(v), std::chars_format::hex).ptr);
    return (std::signbit(v) ? "-0x" : "0x") + digits;
}

std::string hex_text(uint64_t v) {
    char text[20];
    return {text, std::to_chars(text, text + sizeof text, v, 16).ptr};
}

bool read_number(const std::string& text, double& v) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    return error == std::errc() && end == text.data() + text.size();
}

std::string error_text(int code) {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 32)
    const char* const text = strerrordesc_np(code);  // untranslated
#else
    const char* const text = std::strerror(code);
#endif
    return text ? text : "error " + std::to_string(code);
}

}  // namespace tegula
