// Numbers and the system's errors as text that does not depend on the locale of the process. A host may have a decimal comma, digits in groups and
// messages in its own language; what the library writes is read by compilers, by other hosts and by tests. Integers are std::to_string's, numbers are
// read with std::from_chars: printf, strtod, <cctype> and streams follow the locale and are not used (tests/house/no_locale.py).
#pragma once
#include <charconv>
#include <cstdint>
#include <string>

namespace tegula {

/// As printf writes it with %.*g (general), %.*f (fixed) or %.*e (scientific) in the C locale.
std::string decimal_text(double v, int precision, std::chars_format format = std::chars_format::general);
/// As printf's %a: "0x1.8p+1", exact.
std::string hex_float_text(double v);
/// Digits without "0x".
std::string hex_text(uint64_t v);
/// The number that the whole of `text` is; false: it is none.
bool read_number(const std::string& text, double& v);
/// What errno says: "No such file or directory".
std::string error_text(int code);

}  // namespace tegula
