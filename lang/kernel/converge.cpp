// Which threads go the same way, and whether those that an operation needs together do (verify.h).
#include <algorithm>
#include <bit>

#include "lang/kernel/program.h"

namespace tegula::kernel {

namespace {

int multiple(int64_t n) {
    return n <= 0 ? kEverybody
                  : static_cast<int>(
                        std::min<int64_t>(kEverybody, int64_t{1} << std::countr_zero(static_cast<uint64_t>(n))));
}

/// Threads that come to a statement: of those numbers, groups of so many consecutive ones together.
struct Path {
    int agreement = kEverybody;
    int first = 0, end = 0;
    const Roles::Part* role = nullptr;
    int spread = kEverybody;  ///< groups of the role, or of all, that come or do not come together
    int threads() const { return end - first; }
};

class Threads {
public:
    explicit Threads(Program& program) : p_(program) {}

    void run() {
        const Path all{kEverybody, 0, p_.kernel.threads, nullptr};
        for (int pass = 0; changed_ && pass < kMostPasses; ++pass) {
            changed_ = false;
            walk(p_.body, all);
        }
        final_ = true;
        walk(p_.body, all);
    }

private:
    static constexpr int kMostPasses = 16;
    static constexpr int kMostNodes = 4000;  ///< of a condition that is looked at

    // ---- what an expression differs by ----

    bool is_thread(Ex e) const { return e->op == Op::text && e->text == p_.kernel.thread; }

    int of_name(const Item& item, const Mention& m) const {
        const int v = p_.variable(item, m.name);
        if (v == kNone) return kEverybody;
        const Variable& variable = p_.variables[static_cast<size_t>(v)];
        return (m.indexed && variable.size > 0) || variable.named ? 1 : variable.agreement;
    }
    int of_mentions(const Item& item, const std::vector<Mention>& all) const {
        int out = kEverybody;
        for (const Mention& m : all) out = std::min(out, of_name(item, m));
        return out;
    }
    /// Of a text or a call: whatever it names.
    int of_touches(const Item& item) const {
        int out = kEverybody;
        for (const Touch& t : item.touches) {
            if (t.variable == kNone || t.ends) continue;
            const Variable& v = p_.variables[static_cast<size_t>(t.variable)];
            out = std::min(out, (t.indexed && v.size > 0) || v.named ? 1 : v.agreement);
        }
        return out;
    }
    int of(const Item& item, Ex e) {
        budget_ = kMostNodes;
        return e ? visit(item, e) : kEverybody;
    }
    int visit(const Item& item, Ex e) {
        if (--budget_ < 0) return 1;
        if (e->op == Op::text || e->op == Op::index || e->op == Op::pointee) return of_mentions(item, p_.mentions(e));
        if (e->op == Op::uniform) return 32;
        if (e->operands.size() == 2 && is_thread(Ex(e->operands[0])) && e->operands[1]->op == Op::constant)
            if (const int known = of_thread(e->op, e->operands[1]->value)) return known;
        int out = kEverybody;
        for (const Node* o : e->operands) out = std::min(out, visit(item, Ex(o)));
        return out;
    }
    /// Of the number of a thread and a constant.
    static int of_thread(Op op, int64_t c) {
        switch (op) {
            case Op::shr:
                return 1 << std::clamp<int64_t>(c, 0, 20);
            case Op::div:
            case Op::bit_and:
            case Op::lt:
            case Op::ge:
                return multiple(c);
            case Op::le:
            case Op::gt:
                return multiple(c + 1);
            default:
                return 0;
        }
    }

    void define(int variable, int agreement) {
        if (variable == kNone) return;
        Variable& v = p_.variables[static_cast<size_t>(variable)];
        if (v.uniform || agreement >= v.agreement) return;
        v.agreement = agreement;
        changed_ = true;
    }
    void define_written(const Item& item, int agreement) {
        for (const Touch& t : item.touches)
            if (t.written && !t.indexed && !t.ends) define(t.variable, agreement);
    }
    void decide(Item& item, int agreement) {
        if (agreement >= item.condition) return;
        item.condition = agreement;
        changed_ = true;
    }

    // ---- threads of a branch ----

    /// Those for which `t OP c` holds, and the others.
    static std::optional<std::pair<Path, Path>> cut(const Path& path, Op op, int64_t c) {
        if (path.agreement < kEverybody) return std::nullopt;
        if (op == Op::le || op == Op::gt) ++c;
        const auto at = static_cast<int>(std::clamp<int64_t>(c, path.first, path.end));
        Path below = path, above = path;
        below.spread = above.spread = std::min(path.spread, op == Op::eq ? 1 : multiple(c));
        below.end = above.first = at;
        if (op == Op::lt || op == Op::le) return std::pair(below, above);
        if (op == Op::ge || op == Op::gt) return std::pair(above, below);
        if (op != Op::eq || c < path.first || c >= path.end) return std::nullopt;
        Path one = below, others = below;
        one.first = at;
        one.end = at + 1;
        others.end = path.end;
        others.agreement = 1;
        return std::pair(one, others);
    }
    std::pair<Path, Path> branches(const Item& item, const Path& path, Ex condition) const {
        const Ex c = condition;
        if (c->operands.size() == 2 && is_thread(Ex(c->operands[0])) && c->operands[1]->op == Op::constant)
            if (const auto parts = cut(path, c->op, c->operands[1]->value)) return *parts;
        return together(path, item.condition);
    }
    static std::pair<Path, Path> together(Path path, int agreement) {
        path.agreement = std::min(path.agreement, agreement);
        path.spread = std::min(path.spread, agreement);
        return {path, path};
    }

    // ---- statements ----

    void walk(Range range, const Path& path) {
        for (int i = range.first; i < range.end; i = p_.items[static_cast<size_t>(i)].end) {
            at_ = i;
            Item& item = p_.items[static_cast<size_t>(i)];
            std::visit([&](const auto& is) { visit(item, path, is); }, item.statement->is);
        }
    }
    /// The condition of a `break`, for the loop around it.
    void leave(const Path& path, int agreement) {
        if (loops_.empty()) return;
        const auto& [loop, around] = loops_.back();
        decide(*loop, std::min(path.spread < around ? path.spread : kEverybody, agreement));
    }

    void visit(Item& item, const Path& path, const Text&) {
        define_written(item, std::min(of_touches(item), path.spread));
    }
    void visit(Item&, const Path&, const Mark&) {}
    void visit(Item& item, const Path&, const Let& s) { define_written(item, of(item, s.value)); }
    void visit(Item&, const Path&, const Declare&) {}
    void visit(Item& item, const Path& path, const Assign& s) {
        if (s.place->op == Op::text) define_written(item, std::min(of(item, s.value), path.spread));
    }
    void visit(Item& item, const Path& path, const For& s) {
        define_written(item, of_touches(item));
        decide(item, of(item, s.test));
        loops_.push_back({&item, path.spread});
        walk(item.bodies[0], together(path, item.condition).first);
        loops_.pop_back();
    }
    void visit(Item& item, const Path& path, const If& s) {
        decide(item, of(item, s.condition));
        const auto [yes, no] = branches(item, path, s.condition);
        walk(item.bodies[0], yes);
        walk(item.bodies[1], no);
    }
    void visit(Item& item, const Path& path, const Block&) { walk(item.bodies[0], path); }
    void visit(Item& item, const Path& path, const Roles& s) {
        const int here = at_;
        for (size_t i = 0; i < s.parts.size(); ++i) {
            Path own = path;
            own.first = s.parts[i].first;
            own.end = s.parts[i].end;
            own.role = &s.parts[i];
            own.spread = kEverybody;
            exchanged_ = s.parts[i].registers == 0;
            walk(item.bodies[i], own);
            if (final_ && !exchanged_) p_.problem(here, s.parts[i].name + " does not exchange its registers");
        }
        if (final_ && path.spread < kEverybody) p_.problem(here, "threads have gone different ways before");
    }
    void visit(Item& item, const Path& path, const Call& s) {
        const Row& row = *s.row;
        if (gives(row) || row.has(COUNTS))
            define_written(item, row.has(VARIES) ? 1 : std::min(of_touches(item), path.spread));
        if (final_ && row.operands.takes(s.operands.size())) check(path, s);
    }
    void visit(Item& item, const Path& path, const Break& s) { leave(path, of(item, s.when)); }
    void visit(Item&, const Path&, const Return&) {}

    static bool gives(const Row& row) {
        return std::ranges::any_of(row.operands.word, [](Operand o) {
            return o == Operand::result || o == Operand::results || o == Operand::sum;
        });
    }
    bool is_group(const Path& path) const {
        return (path.first == 0 && path.end == p_.kernel.threads) ||
               (path.role && path.role->first == path.first && path.role->end == path.end);
    }

    void check(const Path& path, const Call& call) {
        const Row& row = *call.row;
        const std::string come = std::to_string(path.threads()) + " threads";
        const auto says = [&](std::string text) { p_.problem(at_, std::move(text)); };
        if (row.has(EXCHANGES)) {
            const auto count = call.operands[0].constant();
            if (!path.role || (count && *count != path.role->registers))
                return says("the role has another number of registers");
            exchanged_ = true;
        }
        if (row.threads == 0) return;
        if (row.threads == kAll) {
            if (path.agreement < kEverybody) return says("threads that have to meet have gone different ways");
            if (row.op == KernelOp::meet_group) {
                const auto count = call.operands[0].constant();
                if (count && *count != path.threads()) says(come + " come here");
            } else if (row.op == KernelOp::meet_cta ? path.threads() != p_.kernel.threads
                                                    : !is_group(path) && path.threads() % 128) {
                says("only " + come + " come here");
            }
            return;
        }
        if (path.agreement < row.threads || path.first % row.threads || path.threads() % row.threads)
            says("needs " + std::to_string(row.threads) + " threads together, which have gone different ways");
    }

    Program& p_;
    std::vector<std::pair<Item*, int>> loops_;  ///< and Path::spread around them
    int at_ = 0, budget_ = 0;
    bool changed_ = true, final_ = false, exchanged_ = true;
};

}  // namespace

void check_threads(Program& program) { Threads(program).run(); }

}  // namespace tegula::kernel
