// Small helpers on C++ text, shared by the files of Formats.
#pragma once
#include <string>
#include <string_view>

#include "lang/ir.h"

namespace tegula::lower::text {

constexpr bool is_identifier(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
void replace_all(std::string& s, std::string_view from, std::string_view to);
/// Only where `word` stands alone.
void replace_word(std::string& s, std::string_view word, std::string_view to);
/// The expression, in parentheses unless it is a name, a literal, an index or a call.
std::string atom(const std::string& e);
/// f32 or f64 as IEEE has them, however declared.
bool is_native_float(const Format& f);
/// Is a code sign-extended where its container is wider?
inline bool extends_sign(const Format& f) { return f.is_signed && (f.is_int() || f.kind == FormatKind::fixed); }
/// The section of device text that has the format's conversions; null: there is none.
const char* own_section(const Format& f);
/// Does that section have this op as an instruction?
bool has_instruction(ir::Op op, const Format& f);
/// "0x1234u", or with "ull".
std::string hex(uint64_t v, bool wide);

}  // namespace tegula::lower::text
