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
    using A = AssignOp;
    using B = BinaryOp;
    switch (op) {
        case A::add:
            return B::add;
        case A::sub:
            return B::sub;
        case A::mul:
            return B::mul;
        case A::div:
            return B::div;
        case A::rem:
            return B::rem;
        case A::bit_and:
            return B::bit_and;
        case A::bit_or:
            return B::bit_or;
        case A::bit_xor:
            return B::bit_xor;
        case A::shl:
            return B::shl;
        default:
            return B::shr;
    }
}

const char* spelling(AssignOp op) {
    static constexpr const char* kText[] = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="};
    return kText[size_t(op)];
}

}  // namespace tegula::ast
