// Writes statements (text.h).
#include "lang/kernel/text.h"

namespace tegula::kernel {

namespace {

std::string assignment(const Assign& a) {
    static constexpr const char* kSigns[] = {" = ", " += ", " *= ", " /= ", " >>= ", " &= ", " ^= "};
    if (a.op == AssignOp::increment) return "++" + a.place.text();
    return a.place.text() + kSigns[static_cast<size_t>(a.op)] + a.value.text();
}

class Writer {
public:
    Writer(CallText call, std::vector<Stretch>* marks) : call_(call), marks_(marks) {}
    void body(const Body& statements, int depth) {
        for (const Statement& s : statements) std::visit([&](const auto& is) { write(is, depth); }, s.is);
    }
    std::string take() { return std::move(out_); }

private:
    void line(std::string_view text, int depth) {
        out_.append(static_cast<size_t>(depth) * 4, ' ');
        out_ += text;
        out_ += '\n';
    }
    void nest(const Body& inner, int depth) { body(inner, depth + 1); }

    void write(const Text& s, int depth) { line(s.line, depth); }
    void write(const Mark& s, int) {
        const size_t begin = out_.size();
        line(s.directive, 0);
        if (marks_) marks_->push_back({begin, out_.size()});
    }
    void write(const Let& s, int depth) { line(s.type + " " + s.name + " = " + s.value.text() + ";", depth); }
    void write(const Declare& s, int depth) {
        line(s.type + " " + s.name + (s.size ? "[" + std::to_string(s.size) + "]" : "") + s.initial + ";", depth);
    }
    void write(const Assign& s, int depth) { line(assignment(s) + ";", depth); }
    void write(const For& s, int depth) {
        if (s.unroll == kUnrollAll) line("#pragma unroll", depth);
        if (s.unroll > 0) line("#pragma unroll " + std::to_string(s.unroll), depth);
        const std::string test = s.test ? " " + s.test.text() : "";
        std::string next;
        for (const Assign& a : s.next) next += (next.empty() ? " " : ", ") + assignment(a);
        if (!s.counter.empty())
            line("for (" + s.type + " " + s.counter + " = " + s.start.text() + ";" + test + ";" + next + ") {", depth);
        else if (s.test && s.next.empty())
            line("while (" + s.test.text() + ") {", depth);
        else
            line("for (;" + test + ";" + next + ") {", depth);
        nest(s.body, depth);
        line("}", depth);
    }
    void write(const If& s, int depth) {
        const std::string head = "if (" + s.condition.text() + ") ";
        if (s.brief) {
            Writer inner(call_, nullptr);
            inner.body(s.yes, 0);
            std::string under = inner.take();
            if (!under.empty()) under.pop_back();
            return line(head + under, depth);
        }
        line(head + "{", depth);
        nest(s.yes, depth);
        if (s.has_else) {
            line("} else {", depth);
            nest(s.no, depth);
        }
        line("}", depth);
    }
    void write(const Block& s, int depth) {
        line("{", depth);
        nest(s.body, depth);
        line("}", depth);
    }
    void write(const Roles& s, int depth) {
        for (size_t i = 0; i < s.parts.size(); ++i) {
            const Roles::Part& part = s.parts[i];
            line((i ? std::string("} else ") : std::string()) +
                     (part.condition ? "if (" + part.condition.text() + ") {" : std::string("{")),
                 depth);
            nest(part.body, depth);
        }
        line("}", depth);
    }
    void write(const Call& s, int depth) { line(call_(s) + ";", depth); }
    void write(const Break& s, int depth) { line("if (" + s.when.text() + ") break;", depth); }
    void write(const Return&, int depth) { line("return;", depth); }

    CallText call_;
    std::vector<Stretch>* marks_;
    std::string out_;
};

}  // namespace

std::string text(const Body& body, int depth, CallText call, std::vector<Stretch>* marks) {
    Writer writer(call, marks);
    writer.body(body, depth);
    return writer.take();
}

std::string first_line(const Statement& statement, CallText call) {
    std::string all;
    if (const auto* roles = std::get_if<Roles>(&statement.is)) {
        all = "roles";
        for (const Roles::Part& part : roles->parts) all += " " + part.name;
    } else if (const auto* choice = std::get_if<If>(&statement.is); choice && !choice->brief) {
        all = "if (" + choice->condition.text() + ") {";
    } else if (const auto* loop = std::get_if<For>(&statement.is)) {
        For head{loop->type, loop->counter, loop->start, loop->test, loop->next, kNoPragma, {}};
        Body alone;
        alone.push_back({std::move(head)});
        all = text(alone, 0, call);
    } else {
        Body alone;
        alone.push_back(statement);
        all = text(alone, 0, call);
    }
    return all.substr(0, all.find('\n'));
}

}  // namespace tegula::kernel
