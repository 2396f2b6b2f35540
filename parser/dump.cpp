// AST -> S-expressions, without positions: one statement or clause per line, expressions inline. Two sources with equal dumps mean the
// same. Left-deep operator chains are written in a loop; everything else nests at most as deep as the parser's limit.
#include "lang/ast.h"
#include "lang/diag.h"
#include "parser/parse.h"

namespace tegula {

using namespace ast;

namespace {

class Dump {
public:
    std::string take() { return std::move(out_); }
    void expr(const Expr* e);
    void item(const Item* item);
    void line(std::string_view head);
    void block(const char* head, const Block& block);

private:
    std::string out_;
    size_t indent_ = 0;

    void open(std::string_view head) {
        line(head);
        ++indent_;
    }
    void close() {
        --indent_;
        out_ += ')';
    }
    void text(std::string_view s) { out_ += s; }
    void tail(const Expr* e) {
        out_ += ' ';
        expr(e);
    }
    void tail(std::span<const Expr* const> items) {
        for (const Expr* item : items) tail(item);
    }
    void tail(std::span<const Arg> args) {
        for (const Arg& arg : args) {
            if (arg.name.text.empty()) {
                tail(arg.value);
            } else {
                out_ += " (= " + std::string(arg.name.text);
                tail(arg.value);
                out_ += ')';
            }
        }
    }
    void list(const char* head, std::span<const Expr* const> items) {
        out_ += head;
        tail(items);
        out_ += ')';
    }
    void binary(const Expr* e);
    void index(const IndexExpr& e);
    void form(const IndexFormExpr& e);
    void binders(std::span<const IndexBinder> binders);
    void pattern(const Pattern& pattern);
    void names(std::span<const Name> names);
    void attributes(std::span<const Attribute> attributes);
    void stmt(const Stmt* stmt);
    void if_stmt(const IfStmt& stmt);
    void generics(std::span<const GenericParam> generics);
    void params(std::span<const Param> params);
    void choices(const char* head, std::span<const TuneChoice> choices);
    void layout(const LayoutItem& layout);
    void fn(const FnItem& fn);
    void kernel(const KernelItem& kernel);
    void bench(const BenchItem& bench);
    void import(const ImportItem& import);
};

void Dump::line(std::string_view head) {
    if (!out_.empty()) out_ += '\n';
    out_.append(2 * indent_, ' ');
    out_ += head;
}

void Dump::binary(const Expr* e) {
    std::vector<const BinaryExpr*> chain;
    for (; e->kind == ExprKind::binary; e = as<BinaryExpr>(e).lhs) chain.push_back(&as<BinaryExpr>(e));
    for (const BinaryExpr* b : chain) {
        out_ += '(';
        out_ += spelling(b->op);
        out_ += ' ';
    }
    expr(e);
    for (size_t i = chain.size(); i-- > 0;) {
        tail(chain[i]->rhs);
        out_ += ')';
    }
}

void Dump::index(const IndexExpr& e) {
    out_ += "(index";
    tail(e.base);
    for (const IndexItem& item : e.items) {
        switch (item.kind) {
            case IndexItem::value:
                tail(item.start);
                break;
            case IndexItem::all:
                out_ += " :";
                break;
            case IndexItem::new_axis:
                out_ += " none";
                break;
            case IndexItem::slice:
                out_ += " (+:";
                tail(item.start);
                tail(item.extent);
                if (item.step != nullptr) tail(item.step);
                out_ += ')';
                break;
        }
    }
    out_ += ')';
}

void Dump::binders(std::span<const IndexBinder> binders) {
    out_ += '(';
    for (size_t i = 0; i < binders.size(); ++i) {
        out_ += i > 0 ? " (" : "(";
        out_ += binders[i].name.text;
        tail(binders[i].extent);
        out_ += ')';
    }
    out_ += ')';
}

void Dump::form(const IndexFormExpr& e) {
    out_ += e.reducer != nullptr ? "(reduce" : "(form";
    if (e.reducer != nullptr) tail(e.reducer);
    out_ += ' ';
    binders(e.binders);
    tail(e.body);
    out_ += ')';
}

void Dump::names(std::span<const Name> names) {
    out_ += '(';
    for (size_t i = 0; i < names.size(); ++i) {
        if (i > 0) out_ += ' ';
        out_ += names[i].text;
    }
    out_ += ')';
}

void Dump::expr(const Expr* e) {
    switch (e->kind) {
        case ExprKind::int_lit:
            return text(std::to_string(as<IntLit>(e).value));
        case ExprKind::float_lit:
            return text(as<FloatLit>(e).text);
        case ExprKind::bool_lit:
            return text(as<BoolLit>(e).value ? "true" : "false");
        case ExprKind::string_lit:
            return text(json_quote(as<StringLit>(e).value));
        case ExprKind::none_lit:
            return text("none");
        case ExprKind::name:
            return text(as<NameExpr>(e).name);
        case ExprKind::binary:
            return binary(e);
        case ExprKind::index:
            return index(as<IndexExpr>(e));
        case ExprKind::index_form:
            return form(as<IndexFormExpr>(e));
        case ExprKind::tuple:
            return list("(tuple", as<TupleExpr>(e).items);
        case ExprKind::array:
            return list("(array", as<ArrayExpr>(e).items);
        case ExprKind::set:
            return list("(set", as<SetExpr>(e).items);
        case ExprKind::member:
            out_ += "(.";
            tail(as<MemberExpr>(e).base);
            out_ += " " + std::string(as<MemberExpr>(e).member.text);
            break;
        case ExprKind::instantiate:
            out_ += "(inst";
            tail(as<InstantiateExpr>(e).base);
            tail(as<InstantiateExpr>(e).args);
            break;
        case ExprKind::call:
            out_ += "(call";
            tail(as<CallExpr>(e).callee);
            tail(as<CallExpr>(e).args);
            break;
        case ExprKind::unary:
            out_ += std::string("(") + spelling(as<UnaryExpr>(e).op);
            tail(as<UnaryExpr>(e).operand);
            break;
        case ExprKind::else_value:
            out_ += "(else";
            tail(as<ElseExpr>(e).access);
            tail(as<ElseExpr>(e).value);
            break;
        case ExprKind::range:
            out_ += "(..";
            tail(as<RangeExpr>(e).lo);
            tail(as<RangeExpr>(e).hi);
            if (as<RangeExpr>(e).step != nullptr) tail(as<RangeExpr>(e).step);
            break;
        case ExprKind::lambda:
            out_ += "(lambda ";
            names(as<LambdaExpr>(e).params);
            tail(as<LambdaExpr>(e).body);
            break;
        case ExprKind::annotated:
            out_ += "(@";
            tail(as<AnnotatedExpr>(e).base);
            tail(as<AnnotatedExpr>(e).layout);
            break;
    }
    out_ += ')';
}

// ---- statements ----

void Dump::pattern(const Pattern& pattern) {
    if (!pattern.is_tuple) {
        out_ += pattern.names[0].text;
        return;
    }
    out_ += '(';
    for (size_t i = 0; i < pattern.items.size(); ++i) {
        if (i > 0) out_ += ' ';
        this->pattern(pattern.items[i]);
    }
    out_ += ')';
}

void Dump::attributes(std::span<const Attribute> attributes) {
    for (const Attribute& attribute : attributes) {
        line("(attribute ");
        out_ += attribute.name.text;
        tail(attribute.args);
        out_ += ')';
    }
}

void Dump::block(const char* head, const Block& block) {
    open(head);
    for (const Stmt* s : block.stmts) stmt(s);
    close();
}

/// `else if` chains are as long as the nesting limit at most, but stay on one level of the text.
void Dump::if_stmt(const IfStmt& s) {
    open(s.is_const ? "(if const " : "(if ");
    expr(s.condition);
    block("(then", s.then_block);
    if (s.has_else) block("(else", s.else_block);
    close();
}

void Dump::stmt(const Stmt* stmt) {
    switch (stmt->kind) {
        case StmtKind::let: {
            const LetStmt& s = as<LetStmt>(stmt);
            line(s.is_const ? "(const" : s.is_var ? "(var" : "(let");
            out_ += ' ';
            pattern(s.pattern);
            if (s.type != nullptr) {
                out_ += " :";
                tail(s.type);
                out_ += " =";
            }
            tail(s.init);
            break;
        }
        case StmtKind::assign:
            line("(");
            out_ += spelling(as<AssignStmt>(stmt).op);
            tail(as<AssignStmt>(stmt).target);
            tail(as<AssignStmt>(stmt).value);
            break;
        case StmtKind::expr:
            line("(do");
            tail(as<ExprStmt>(stmt).expr);
            break;
        case StmtKind::if_:
            return if_stmt(as<IfStmt>(stmt));
        case StmtKind::for_: {
            const ForStmt& s = as<ForStmt>(stmt);
            open(s.is_const ? "(for const" : "(for");
            out_ += ' ';
            pattern(s.pattern);
            tail(s.iterable);
            attributes(s.attributes);
            block("(body", s.body);
            return close();
        }
        case StmtKind::while_:
            open("(while ");
            expr(as<WhileStmt>(stmt).condition);
            attributes(as<WhileStmt>(stmt).attributes);
            block("(body", as<WhileStmt>(stmt).body);
            return close();
        case StmtKind::break_:
            return line("(break)");
        case StmtKind::continue_:
            return line("(continue)");
        case StmtKind::return_:
            line("(return");
            if (as<ReturnStmt>(stmt).value != nullptr) tail(as<ReturnStmt>(stmt).value);
            break;
        case StmtKind::block:
            return block("(block", as<BlockStmt>(stmt).block);
    }
    out_ += ')';
}

// ---- items ----

void Dump::generics(std::span<const GenericParam> generics) {
    for (const GenericParam& g : generics) {
        line("(generic ");
        out_ += g.name.text;
        if (g.bound != nullptr) tail(g.bound);
        if (g.default_value != nullptr) {
            out_ += " =";
            tail(g.default_value);
        }
        out_ += ')';
    }
}

void Dump::params(std::span<const Param> params) {
    static constexpr const char* kModes[] = {"(in ", "(out ", "(inout "};
    for (const Param& p : params) {
        line(kModes[size_t(p.mode)]);
        out_ += p.name.text;
        tail(p.type);
        if (p.default_value != nullptr) {
            out_ += " =";
            tail(p.default_value);
        }
        out_ += ')';
    }
}

void Dump::choices(const char* head, std::span<const TuneChoice> choices) {
    for (const TuneChoice& choice : choices) {
        line(head);
        out_ += choice.name.text;
        tail(choice.values);
        out_ += ')';
    }
}

void Dump::kernel(const KernelItem& k) {
    generics(k.generics);
    params(k.params);
    if (!k.grid.empty()) {
        line("");
        list("(grid", k.grid);
    }
    for (const Expr* e : k.where) {
        line("(where ");
        expr(e);
        out_ += ')';
    }
    choices("(tune ", k.tune);
    choices("(dispatch ", k.dispatch);
    if (k.schedule != nullptr) {
        line("(schedule ");
        expr(k.schedule);
        out_ += ')';
    }
    attributes(k.attributes);
    block("(body", k.body);
}

void Dump::bench(const BenchItem& b) {
    if (b.iterable != nullptr) {
        line("(for");
        out_ += ' ';
        pattern(b.pattern);
        tail(b.iterable);
        out_ += ')';
    }
    for (const Arg& metric : b.metrics) {
        line("(metric ");
        out_ += metric.name.text;
        tail(metric.value);
        out_ += ')';
    }
    block("(body", b.body);
}

void Dump::import(const ImportItem& i) {
    out_ += " from ";
    out_ += i.is_path ? json_quote(i.path) : std::string(i.path);
}

void Dump::layout(const LayoutItem& l) {
    generics(l.generics);
    if (!l.dims.empty()) {
        line("(dims ");
        binders(l.dims);
        out_ += ')';
    }
    line("");
    expr(l.value);
    if (l.extents == nullptr) return;
    line("(extents ");
    expr(l.extents);
    out_ += ')';
}

void Dump::fn(const FnItem& f) {
    generics(f.generics);
    params(f.params);
    if (f.result != nullptr) {
        line("(result ");
        expr(f.result);
        out_ += ')';
    }
    attributes(f.attributes);
    block("(body", f.body);
}

void Dump::item(const Item* item) {
    static constexpr const char* kKinds[] = {"import", "const", "type", "struct", "layout", "fn", "kernel", "test", "bench"};
    bool named = item->kind != ItemKind::test && item->kind != ItemKind::bench;
    open(std::string("(") + kKinds[size_t(item->kind)] + " " + (named ? std::string(item->name.text) : json_quote(item->name.text)));
    if (item->kind == ItemKind::import) import(as<ImportItem>(item));
    if (!item->docs.empty()) line("(docs " + json_quote(item->docs) + ")");
    switch (item->kind) {
        case ItemKind::import:
            break;
        case ItemKind::const_: {
            const ConstItem& c = as<ConstItem>(item);
            if (c.type != nullptr) {
                line("(type ");
                expr(c.type);
                out_ += ')';
            }
            line("");
            expr(c.value);
            break;
        }
        case ItemKind::type:
            generics(as<TypeItem>(item).generics);
            line("");
            expr(as<TypeItem>(item).value);
            break;
        case ItemKind::struct_:
            generics(as<StructItem>(item).generics);
            for (const Field& field : as<StructItem>(item).fields) {
                line("(field " + std::string(field.name.text));
                tail(field.type);
                out_ += ')';
            }
            break;
        case ItemKind::layout:
            layout(as<LayoutItem>(item));
            break;
        case ItemKind::fn:
            fn(as<FnItem>(item));
            break;
        case ItemKind::kernel:
            kernel(as<KernelItem>(item));
            break;
        case ItemKind::test:
            block("(body", as<TestItem>(item).body);
            break;
        case ItemKind::bench:
            bench(as<BenchItem>(item));
            break;
    }
    close();
}

}  // namespace

std::string dump_ast(const Module& module) {
    Dump dump;
    if (module.edition != 0) dump.line("(edition " + std::to_string(module.edition) + ")");
    if (!module.docs.empty()) dump.line("(docs " + json_quote(module.docs) + ")");
    for (const Item* item : module.items) dump.item(item);
    return dump.take() + (module.items.empty() && module.edition == 0 && module.docs.empty() ? "" : "\n");
}

std::string dump_ast(const Expr& expr) {
    Dump dump;
    dump.expr(&expr);
    return dump.take();
}

}  // namespace tegula
