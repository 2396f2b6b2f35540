// Spellings of the operators of the syntax tree, as written in source, and questions about statements.
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

size_t assignments(std::span<const Stmt* const> stmts, std::string_view variable) {
    const auto assigns = [variable](const Expr* target) {
        for (;;) {
            if (target->kind == ExprKind::annotated)
                target = as<AnnotatedExpr>(target).base;
            else if (target->kind == ExprKind::index)
                target = as<IndexExpr>(target).base;
            else if (target->kind == ExprKind::member)
                target = as<MemberExpr>(target).base;
            else
                return target->kind == ExprKind::name && as<NameExpr>(target).name == variable;
        }
    };
    size_t count = 0;
    for (const Stmt* s : stmts) {
        if (s->kind == StmtKind::assign) {
            const Expr* target = as<AssignStmt>(s).target;
            if (target->kind == ExprKind::tuple)
                for (const Expr* item : as<TupleExpr>(target).items) count += assigns(item);
            else
                count += assigns(target);
        }
        if (s->kind == StmtKind::if_) {
            count += assignments(as<IfStmt>(s).then_block.stmts, variable);
            if (as<IfStmt>(s).has_else) count += assignments(as<IfStmt>(s).else_block.stmts, variable);
        }
        if (s->kind == StmtKind::for_) count += assignments(as<ForStmt>(s).body.stmts, variable);
        if (s->kind == StmtKind::while_) count += assignments(as<WhileStmt>(s).body.stmts, variable);
        if (s->kind == StmtKind::block) count += assignments(as<BlockStmt>(s).block.stmts, variable);
    }
    return count;
}

}  // namespace tegula::ast
