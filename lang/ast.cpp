// Spellings of the operators of the syntax tree, as written in source.
#include "lang/ast.h"

namespace tegula::ast {

const char* spelling(UnaryOp op) {
    static constexpr const char* kText[] = {"-", "!", "~"};
    return kText[size_t(op)];
}

const char* spelling(BinaryOp op) {
    static constexpr const char* kText[] = {"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">=", "&&", "||"};
    return kText[size_t(op)];
}

BinaryOp binary_of(AssignOp op) {
    static_assert(int(AssignOp::add) == int(BinaryOp::add) + 1 && int(AssignOp::shr) == int(BinaryOp::shr) + 1);  // one order, behind `set`
    return static_cast<BinaryOp>(int(op) - 1);
}

const char* spelling(AssignOp op) {
    static constexpr const char* kText[] = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="};
    return kText[size_t(op)];
}

}  // namespace tegula::ast
