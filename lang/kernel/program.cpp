// Resolves the names of a kernel and looks at what single statements may not do (program.h).
#include "lang/kernel/program.h"

#include <algorithm>

#include "lang/kernel/text.h"

namespace tegula::kernel {

namespace {

bool is_name(std::string_view text) {
    if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
    return std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
}

bool is_integer(Type type) { return type == Type::i32 || type == Type::u32 || type == Type::i64 || type == Type::u64; }
bool is_word(Type type) { return type == Type::i32 || type == Type::u32; }

/// A variable, an element, or what lies some elements behind the start of an array.
bool is_place(Ex e) {
    switch (e->op) {
        case Op::text:
        case Op::index:
        case Op::pointee:
            return true;
        case Op::add:
            return is_place(Ex(e->operands[0]));
        default:
            return false;
    }
}

const char* fault(Operand operand, Ex e, Queue queue) {
    switch (operand) {
        case Operand::number:
            return is_word(e.type()) ? nullptr : "is no 32-bit integer";
        case Operand::wide:
            return is_integer(e.type()) ? nullptr : "is no integer";
        case Operand::newer:
            if (queue == Queue::copy) return is_word(e.type()) ? nullptr : "is no 32-bit integer";
            [[fallthrough]];
        case Operand::constant:
        case Operand::count:
        case Operand::results:
            return e.constant() && is_integer(e.type()) ? nullptr : "is no constant";
        case Operand::result:
        case Operand::sum:
            return is_place(e) ? nullptr : "is nothing that can be written";
        case Operand::function:
        case Operand::named:
            return e->op == Op::text && is_name(e->text) ? nullptr : "is no name";
        case Operand::counter:
            return e->op == Op::text && is_name(e->text) && is_word(e.type()) ? nullptr : "is no counter";
        case Operand::area_from:
        case Operand::area_to:
        case Operand::barrier:
        case Operand::peer:
            return e.constant() || e.type() == Type::pred ? "is no address" : nullptr;
        case Operand::map:
        case Operand::type:
            return e->op == Op::text ? nullptr : "is no text";
        case Operand::form:
            return e->op == Op::call ? nullptr : "is no form of an instruction";
        case Operand::any:
            break;
    }
    return nullptr;
}

bool moves(const Row& row) {
    return row.queue != Queue::none || row.has(INITIALISES) || row.has(ARRIVES) || row.has(WAITS) || row.has(COUNTS) ||
           row.has(MEETS) || row.has(SHOWS) || row.op == KernelOp::wgmma_fence;
}

/// Walks the kernel with the names that are in scope.
class Scopes {
public:
    explicit Scopes(Program& program) : p_(program) {}

    void run() {
        enter();
        make(p_.kernel.thread).agreement = 1;
        make("threadIdx").agreement = 1;
        for (const NamedRegisters& r : p_.kernel.named) make(r.stem).named = true;
        p_.body = body(p_.kernel.body, nullptr);
        for (const auto& [item, name] : unknown_) {
            const auto typed = typed_.find(name);
            if (typed == typed_.end() || in_text_.count(name)) continue;
            p_.problem(item, std::string(p_.name(name)) + (typed->second <= item
                                                               ? " is used outside of the block that declares it"
                                                               : " is used before it is declared"));
        }
    }

private:
    struct Undo {
        int name, variable, level;
    };

    void enter(bool unconditional = false) {
        marks_.push_back(undo_.size());
        unconditional_.push_back(unconditional);
    }
    /// The variables that end.
    void leave(std::vector<int>* ended) {
        while (undo_.size() > marks_.back()) {
            const Undo& u = undo_.back();
            if (ended) ended->push_back(current_[static_cast<size_t>(u.name)].first);
            current_[static_cast<size_t>(u.name)] = {u.variable, u.level};
            undo_.pop_back();
        }
        marks_.pop_back();
        unconditional_.pop_back();
    }
    std::pair<int, int>& current(int name) {
        if (current_.size() <= static_cast<size_t>(name)) current_.resize(static_cast<size_t>(name) + 64, {kNone, 0});
        return current_[static_cast<size_t>(name)];
    }

    Variable& make(std::string_view name) {
        const int number = p_.number(name);
        auto& now = current(number);
        undo_.push_back({number, now.first, now.second});
        now = {static_cast<int>(p_.variables.size()), static_cast<int>(marks_.size())};
        return p_.variables.emplace_back(Variable{name, number});
    }

    Variable& declare(int item, std::string_view name, int64_t size, bool constant = false, Ex value = {}) {
        const int number = p_.number(name);
        const auto& now = current(number);
        if (now.first != kNone && now.second == static_cast<int>(marks_.size()) &&
            p_.variables[static_cast<size_t>(now.first)].typed)
            p_.problem(item, std::string(name) + " is declared twice in a block");
        typed_.emplace(number, item);
        Variable& v = make(name);
        v.typed = true;
        v.constant = constant;
        v.size = size;
        v.value = value;
        v.item = item;
        p_.items[static_cast<size_t>(item)].touches.push_back({number, current(number).first, true, false});
        return v;
    }

    void touch(int item, const Mention& m, bool written) {
        const int v = current(m.name).first;
        if (v == kNone) {
            unknown_.push_back({item, m.name});
        } else {
            const Variable& variable = p_.variables[static_cast<size_t>(v)];
            if (variable.size > 0 && m.index != kUnknown && (m.index < 0 || m.index >= variable.size))
                p_.problem(item, std::string(variable.name) + " has " + std::to_string(variable.size) +
                                     " registers, none is number " + std::to_string(m.index));
            if (written && variable.constant && !m.indexed) p_.problem(item, std::string(variable.name) + " is const");
        }
        p_.items[static_cast<size_t>(item)].touches.push_back({m.name, v, written, m.indexed});
    }
    void read(int item, Ex e) {
        if (!e) return;
        for (const Mention& m : p_.mentions(e)) touch(item, m, false);
    }
    /// The variable that the place begins with is written, the others are read. `anew`: it has another value then.
    void write(int item, Ex place, bool anew) {
        const int root = p_.root(place);
        for (const Mention& m : p_.mentions(place)) touch(item, m, m.name == root);
        if (anew && place->op == Op::text && is_name(place->text)) renew(item, root);
    }
    /// A scalar that gets another value wherever its declaration is executed is another variable from there on.
    void renew(int item, int name) {
        auto& now = current(name);
        if (now.first == kNone) return;
        const auto unconditional = unconditional_.begin() + now.second;
        if (std::find(unconditional, unconditional_.end(), false) != unconditional_.end()) return;
        Variable next = p_.variables[static_cast<size_t>(now.first)];
        if (next.size || next.named || next.constant) return;
        std::vector<Touch>& touches = p_.items[static_cast<size_t>(item)].touches;
        for (Touch& t : touches)
            if (t.variable == now.first && t.written) t.ends = true;
        next.value = {};
        now.first = static_cast<int>(p_.variables.size());
        p_.variables.push_back(next);
        touches.push_back({name, now.first, true, false});
    }
    void text(int item, std::string_view line) {
        const std::vector<Mention> all = mentions_of(p_, line, true);
        for (const Mention& m : all) {
            if (m.declared) continue;
            touch(item, m, m.written);
            if (m.written) p_.text_written.insert(m.name);
            if (m.anew) renew(item, m.name);
        }
        for (const Mention& m : all) {
            if (!m.declared) continue;
            in_text_.insert(m.name);
            make(p_.name(m.name));
            p_.items[static_cast<size_t>(item)].touches.push_back({m.name, current(m.name).first, true, false});
        }
    }

    Range body(const Body& statements, std::vector<int>* ended) {
        Range out{static_cast<int>(p_.items.size()), 0};
        for (const Statement& s : statements) {
            const int item = static_cast<int>(p_.items.size());
            p_.items.push_back({&s});
            std::visit([&](const auto& is) { visit(item, is); }, s.is);
            p_.items[static_cast<size_t>(item)].end = static_cast<int>(p_.items.size());
        }
        out.end = static_cast<int>(p_.items.size());
        leave(ended);
        return out;
    }
    /// A body whose scope has been entered.
    void nested(int item, const Body& statements) {
        std::vector<int> ended;
        const Range range = body(statements, &ended);
        Item& it = p_.items[static_cast<size_t>(item)];
        it.bodies.push_back(range);
        it.declared.insert(it.declared.end(), ended.begin(), ended.end());
        for (int i = range.first; i < range.end; i = p_.items[static_cast<size_t>(i)].end)
            it.asynchronous = it.asynchronous || p_.items[static_cast<size_t>(i)].asynchronous;
    }
    void shape(int item, Shape shape) { p_.items[static_cast<size_t>(item)].shape = shape; }

    void visit(int item, const Text& s) { text(item, s.line); }
    void visit(int, const Mark&) {}
    void visit(int item, const Let& s) {
        read(item, s.value);
        declare(item, s.name, 0, s.constant, s.value);
    }
    void visit(int item, const Declare& s) {
        for (const Mention& m : mentions_of(p_, s.initial, true)) touch(item, m, false);
        declare(item, s.name, s.size).uniform = s.uniform;
    }
    void visit(int item, const Assign& s) {
        read(item, s.value);
        if (!is_place(s.place)) return p_.problem(item, "the left side is nothing that can be written");
        write(item, s.place, s.op == AssignOp::set);
    }
    void visit(int item, const For& s) {
        shape(item, Shape::loop);
        enter();
        read(item, s.start);
        if (!s.counter.empty()) declare(item, s.counter, 0);
        read(item, s.test);
        for (const Assign& a : s.next) visit(item, a);
        ++loops_;
        nested(item, s.body);
        --loops_;
    }
    void visit(int item, const If& s) {
        shape(item, Shape::choice);
        read(item, s.condition);
        enter();
        nested(item, s.yes);
        enter();
        nested(item, s.no);
    }
    void visit(int item, const Block& s) {
        enter(true);
        nested(item, s.body);
    }
    void visit(int item, const Roles& s) {
        shape(item, Shape::roles);
        for (size_t i = 0; i < s.parts.size(); ++i) {
            const Roles::Part& part = s.parts[i];
            if (part.first < 0 || part.end > p_.kernel.threads || part.first >= part.end || part.first % 32 ||
                part.end % 32)
                p_.problem(item, part.name + ": threads " + std::to_string(part.first) + " to " +
                                     std::to_string(part.end) + " are no warps of the kernel");
            for (size_t k = 0; k < i; ++k)
                if (part.first < s.parts[k].end && s.parts[k].first < part.end)
                    p_.problem(item, part.name + " and " + s.parts[k].name + " share threads");
            read(item, part.condition);
            enter();
            nested(item, part.body);
        }
    }
    void visit(int item, const Call& s) {
        const Row& row = *s.row;
        const size_t count = s.operands.size();
        p_.items[static_cast<size_t>(item)].asynchronous = moves(row);
        if (row.first > p_.kernel.arch || (row.last && row.last < p_.kernel.arch))
            p_.problem(item, "architecture " + std::to_string(p_.kernel.arch) + " has no " + std::string(row.name));
        if (!row.operands.takes(count))
            return p_.problem(item, std::to_string(count) + " operands are not those of " + std::string(row.name));
        int64_t results = 0;  // that come next
        for (size_t i = 0; i < count; ++i) {
            const Operand operand = results-- > 0 ? Operand::result : row.operands.of(i, count);
            if (const char* what = fault(operand, s.operands[i], row.queue)) {
                p_.problem(item, "operand " + std::to_string(i) + " " + what);
                continue;
            }
            if (operand == Operand::results) results = *s.operands[i].constant();
            if (operand == Operand::function || operand == Operand::type) continue;
            const bool writes = operand == Operand::result || operand == Operand::sum || operand == Operand::counter;
            writes ? write(item, s.operands[i], operand == Operand::result) : read(item, s.operands[i]);
        }
        if (results > 0) p_.problem(item, std::to_string(results) + " results are missing");
    }
    void visit(int item, const Break& s) {
        Item& it = p_.items[static_cast<size_t>(item)];
        it.leaves = it.asynchronous = true;
        if (!loops_) p_.problem(item, "no loop to leave");
        read(item, s.when);
    }
    void visit(int item, const Return&) {
        Item& it = p_.items[static_cast<size_t>(item)];
        it.returns = it.asynchronous = true;
    }

    Program& p_;
    std::vector<std::pair<int, int>> current_;  ///< by name: variable, level of its scope
    std::vector<Undo> undo_;
    std::vector<size_t> marks_;
    std::vector<bool> unconditional_;     ///< by scope: executed wherever what is around it is
    std::unordered_map<int, int> typed_;  ///< name, item of its first declaration
    std::unordered_set<int> in_text_;
    std::vector<std::pair<int, int>> unknown_;
    int loops_ = 0;
};

}  // namespace

Program::Program(const Kernel& k) : kernel(k), text_queues(kQueues, false) {
    for (const Row& r : all_rows())
        if (!r.cuda.empty() && r.cuda.front() != '$')
            functions.emplace(r.cuda.substr(0, r.cuda.find_first_of("(<")), &r);
}

int Program::number(std::string_view name) {
    const auto [it, added] = numbers_.try_emplace(name, static_cast<int>(names_.size()));
    if (added) names_.push_back(name);
    return it->second;
}

void Program::problem(int item, std::string reason) {
    std::string where = item < 0 || static_cast<size_t>(item) >= items.size()
                            ? "end"
                            : first_line(*items[static_cast<size_t>(item)].statement, call_text);
    if (seen_.insert(std::to_string(item) + reason).second) problems_.push_back({std::move(where), std::move(reason)});
}

const std::vector<Mention>& Program::mentions(Ex e) {
    if (const auto it = mentions_.find(e.node()); it != mentions_.end()) return it->second;
    std::vector<Mention> out;
    const auto add = [&](const std::vector<Mention>& more) {
        for (const Mention& m : more)
            if (std::none_of(out.begin(), out.end(), [&](const Mention& o) {
                    return o.name == m.name && o.indexed == m.indexed && o.index == m.index;
                }))
                out.push_back(m);
    };
    if (e->op == Op::text) {
        if (is_name(e->text))
            out.push_back({number(e->text)});
        else
            out = mentions_of(*this, e->text, false);
    } else if (e->op == Op::index) {
        const Ex array(e->operands[0]), at(e->operands[1]);
        if (array->op == Op::text && is_name(array->text)) {
            Mention m{number(array->text)};
            m.indexed = true;
            m.index = at.constant().value_or(kUnknown);
            out.push_back(m);
        } else {
            add(mentions(array));
            if (!out.empty()) out.front().indexed = true;
        }
        add(mentions(at));
    } else if (e->op == Op::pointee) {
        add(mentions(Ex(e->operands[0])));
        if (!out.empty()) out.front().indexed = true;
    } else {
        for (const Node* o : e->operands) add(mentions(Ex(o)));
    }
    return mentions_.emplace(e.node(), std::move(out)).first->second;
}

int Program::variable(const Item& item, int name) const {
    for (const Touch& t : item.touches)
        if (t.name == name) return t.variable;
    return kNone;
}

int Program::root(Ex e) {
    const std::vector<Mention>& all = mentions(e);
    return all.empty() ? kNone : all.front().name;
}

Area Program::area(const Item& item, Ex e) {
    while (((e->op == Op::call || e->op == Op::uniform) && e->operands.size() == 1) || e->op == Op::cast ||
           e->op == Op::pointee)
        e = Ex(e->operands[0]);
    Area out;
    out.name = root(e);
    if (out.name == kNone) return out;
    out.variable = variable(item, out.name);
    const auto named = [](Ex at) { return at->op == Op::text && is_name(at->text); };
    if (e->op == Op::index && named(Ex(e->operands[0]))) {
        out.offset = e->operands[1];
        return out;
    }
    Ex at = e, added;
    for (; at->op == Op::add; at = Ex(at->operands[0])) {
        const Ex by(at->operands[1]);
        if (const auto constant = by.constant())
            out.constant += *constant;
        else
            added = added ? e : by;
    }
    out.offset = named(at) ? added.node() : e.node();
    return out;
}

void check_names(Program& program) { Scopes(program).run(); }

}  // namespace tegula::kernel
