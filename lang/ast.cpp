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

const char* spelling(AssignOp op) {
    static constexpr const char* kText[] = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="};
    return kText[size_t(op)];
}

}  // namespace tegula::ast
