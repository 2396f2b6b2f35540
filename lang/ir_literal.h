// Spellings that the IR printer and parser share: attribute names and values, constants, quoted text, and which ops have a syntax of their own.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lang/ir.h"

namespace tegula::ir {

std::string_view attr_name(Attr attr);
/// Names of its values 0, 1, ..; empty for plain integers.
std::span<const std::string_view> attr_value_names(Attr attr);

/// Is the first attribute of the op a string of the function, which stands before its operands?
inline bool has_text(Op op) { return op_row(op).attrs.count && op_row(op).attrs.all[0] == Attr::text; }
/// load, store, atomic, extract, deposit: object[axes], and where their first axis attribute stands.
bool is_indexed(Op op);
inline size_t first_axis_attr(Op op) { return op == Op::atomic ? 4 : 1; }
/// Does the op carry a value after the indices (store, deposit, atomic)?
inline bool access_has_value(Op op) { return op == Op::store || op == Op::deposit || op == Op::atomic; }

/// A constant of a format: decimal where that reads back to the same code, else the code in hex. Pointers print as hex codes.
std::string code_text(const Format& format, bool pointer, uint64_t code);
/// The code of such a text; nullopt when it is none or does not fit.
std::optional<uint64_t> parse_code(const Format& format, bool pointer, std::string_view text);

/// Letters, digits and `_`, not starting with a digit.
bool is_identifier(std::string_view s);
/// "text" with \n \t \\ \" and \xHH escapes for what is not printable ASCII; and back (without the quotes), nullopt when malformed.
std::string quote_text(std::string_view text);
std::optional<std::string> unquote_text(std::string_view text);

}  // namespace tegula::ir
