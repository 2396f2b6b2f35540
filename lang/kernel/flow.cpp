// Follows asynchronous work, barriers and rings through a kernel (verify.h).
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "lang/kernel/facts.h"
#include "lang/kernel/program.h"

namespace tegula::kernel {

namespace {

constexpr size_t kMostGroups = 8;  ///< of a queue that are told apart; older ones are one
constexpr size_t kMostStates = 64;
constexpr int kMostTrips = 8;  ///< of a loop that are followed one by one
constexpr int kMostPasses = 40;

/// What is on its way: the work of an item, or its reading of a stage.
struct Work {
    int item;
    bool blurred = false;       ///< the variables that say where have changed
    int ring = kNone, age = 0;  ///< the stage that it reads; the oldest one that is taken has age 0
    friend auto operator<=>(const Work&, const Work&) = default;
};
using Group = std::vector<Work>;  ///< in order

struct Line {
    std::vector<Group> groups;  ///< committed, the oldest first
    Group open;
    bool empty() const { return groups.empty() && open.empty(); }
};

struct RingState {
    bool ready = false, filled = false;    ///< the stage to be filled: it is empty, it has been filled
    bool taken = false, released = false;  ///< since the counter moved on
    int outstanding = 0;                   ///< stages taken and not given back
    friend bool operator==(const RingState&, const RingState&) = default;
    bool fills() const { return ready || filled; }
    bool idle() const { return !fills() && !taken && !released && outstanding == 0; }
};

struct State {
    std::array<Line, kQueues> lines;
    std::vector<RingState> rings;
    uint64_t waited = 0;       ///< rings, by bit, whose copies by this thread have come
    bool met = false;          ///< and by all threads
    bool fenced = false;       ///< since registers of products were touched
    bool uncommitted = false;  ///< copies of rings are in no group
    std::vector<std::pair<const Node*, bool>> known;

    Line& line(Queue q) { return lines[static_cast<size_t>(q)]; }
    bool quiet() const {
        return std::all_of(lines.begin(), lines.end(), [](const Line& l) { return l.empty(); });
    }
    bool same_shape(const State& o) const {
        for (size_t q = 0; q < lines.size(); ++q)
            if (lines[q].groups.size() != o.lines[q].groups.size()) return false;
        return rings == o.rings && waited == o.waited && met == o.met && uncommitted == o.uncommitted;
    }
};
using States = std::vector<State>;

bool join(Group& into, const Group& from) {
    Group out;
    std::set_union(into.begin(), into.end(), from.begin(), from.end(), std::back_inserter(out));
    const bool grown = out.size() != into.size();
    into = std::move(out);
    return grown;
}

/// Returns whether that adds anything.
bool join(State& into, const State& from) {
    bool grown = false;
    for (size_t q = 0; q < into.lines.size(); ++q) {
        grown |= join(into.lines[q].open, from.lines[q].open);
        for (size_t g = 0; g < into.lines[q].groups.size(); ++g)
            grown |= join(into.lines[q].groups[g], from.lines[q].groups[g]);
    }
    grown |= into.fenced && !from.fenced;
    into.fenced = into.fenced && from.fenced;
    const size_t before = into.known.size();
    std::erase_if(into.known, [&](const auto& k) {
        return std::find(from.known.begin(), from.known.end(), k) == from.known.end();
    });
    return grown || into.known.size() != before;
}

struct RingNames {
    int full, empty, peer, put, put_phase, get, get_phase, release, ahead;
    bool in_text = false;
};

/// What an item that issues work keeps busy until it is done.
struct Busy {
    std::vector<int> registers;  ///< variables
    std::vector<Area> read, written;
    std::vector<int> where;  ///< variables that say where these are
    int barrier = kNone;
};
struct Access {
    Area area;
    bool written;
};

class Flow {
public:
    explicit Flow(Program& program) : p_(program) {
        for (const Ring& r : p_.kernel.rings) {
            const auto name = [&](const std::string& s) { return s.empty() ? kNone : p_.number(s); };
            RingNames n{name(r.full), name(r.empty),     name(r.peer_empty), name(r.put),  name(r.put_phase),
                        name(r.get),  name(r.get_phase), name(r.release),    name(r.ahead)};
            n.in_text = !r.full.empty() && p_.text_barriers;
            for (const int counter : {n.put, n.put_phase, n.get, n.get_phase, n.release, n.ahead})
                n.in_text = n.in_text || p_.text_written.count(counter);
            rings_.push_back(n);
            by_threads_ = by_threads_ || (r.full.empty() && !n.in_text);
        }
        for (size_t i = 0; i < p_.items.size(); ++i)
            if (const Call* call = p_.call(p_.items[i]))
                copies_ = copies_ || (call->row->queue == Queue::copy && call->row->has(ISSUES));
        find_product_registers();
    }

    void run() {
        if (!p_.text_barriers) barriers();
        State start;
        start.rings.resize(rings_.size());
        States end = walk(p_.body, {start});
        for (State& s : end) finish(s);
    }

private:
    /// Items that touch registers of products, those that issue them left out.
    void find_product_registers() {
        std::unordered_set<int> registers;
        const auto issues = [&](size_t i) {
            const Call* call = p_.call(p_.items[i]);
            return call && call->row->queue == Queue::wgmma && call->row->has(ISSUES);
        };
        for (size_t i = 0; i < p_.items.size(); ++i)
            if (issues(i))
                registers.insert(busy(static_cast<int>(i)).registers.begin(),
                                 busy(static_cast<int>(i)).registers.end());
        touches_product_.resize(p_.items.size());
        for (size_t i = 0; i < p_.items.size() && !registers.empty(); ++i)
            touches_product_[i] =
                !issues(i) && std::any_of(p_.items[i].touches.begin(), p_.items[i].touches.end(),
                                          [&](const Touch& t) { return registers.count(t.variable); });
    }

    // ---- barriers, in the order of the text ----

    void barriers() {
        enum Step : uint8_t { initialised, shown, met };
        std::unordered_map<int, Step> known;
        for (const Item& item : p_.items) {
            const Call* call = p_.call(item);
            if (call && call->row->has(INITIALISES) && call->row->operands.takes(call->operands.size()))
                inits_.insert(p_.root(call->operands[0]));
        }
        std::set<int> awaited;
        std::vector<std::pair<int, int>> loads;
        for (size_t i = 0; i < p_.items.size(); ++i) {
            const Item& item = p_.items[i];
            const int at = static_cast<int>(i);
            const Call* call = p_.call(item);
            if (!call || !call->row->operands.takes(call->operands.size())) continue;
            const Row& row = *call->row;
            if (row.has(INITIALISES)) known.emplace(p_.root(call->operands[0]), initialised);
            if (row.has(SHOWS))
                for (auto& [name, step] : known) step = std::max(step, shown);
            if (row.op == KernelOp::meet_cta || row.op == KernelOp::cluster_wait)
                for (auto& [name, step] : known) step = step == shown ? met : step;
            const int barrier = row.has(INITIALISES) ? kNone : barrier_of(item, *call);
            if (barrier == kNone) continue;
            const auto it = known.find(barrier);
            if (it == known.end()) {
                if (begins_with_variable(item, *call)) p_.problem(at, "the barrier has not been initialised");
                continue;
            }
            if (it->second == initialised)
                p_.problem(at, "bulk copies may not see yet that the barrier is initialised");
            else if (it->second == shown)
                p_.problem(at, "threads have not met since the barrier was initialised");
            if (row.has(WAITS) || row.has(AWAITS)) awaited.insert(barrier);
            if (row.has(ISSUES)) loads.push_back({at, barrier});
        }
        for (const auto& [at, barrier] : loads)
            if (!awaited.count(barrier)) p_.problem(at, "nobody waits for the barrier of this copy");
    }

    /// The name that a barrier's address begins with: one that is initialised or of a ring, if any.
    int barrier_of(const Item& item, const Call& call) {
        for (size_t i = 0; i < call.operands.size(); ++i)
            if (call.row->operands.of(i, call.operands.size()) == Operand::barrier)
                return barrier_name(item, call.operands[i]);
        return kNone;
    }
    /// Does the address of the barrier begin with a variable of the kernel? What surrounds it initialises its own.
    bool begins_with_variable(const Item& item, const Call& call) {
        for (size_t i = 0; i < call.operands.size(); ++i)
            if (call.row->operands.of(i, call.operands.size()) == Operand::barrier)
                return p_.variable(item, p_.root(call.operands[i])) != kNone;
        return false;
    }
    int barrier_name(const Item& item, Ex e) {
        const Item* at = &item;
        int name = kNone;
        for (int depth = 0; depth < 4 && e; ++depth) {
            name = p_.root(e);
            if (name == kNone || inits_.count(name)) return name;
            for (const RingNames& r : rings_)
                if (name == r.full || name == r.empty) return name;
            const int v = p_.variable(*at, name);
            if (v == kNone || !p_.variables[static_cast<size_t>(v)].constant) return name;
            e = p_.variables[static_cast<size_t>(v)].value;
            if (e) at = &p_.items[static_cast<size_t>(p_.variables[static_cast<size_t>(v)].item)];
        }
        return name;
    }

    // ---- what work keeps busy ----

    void areas_of(const Item& item, Ex e, std::vector<Area>& out) {
        const Item* at = &item;
        for (int depth = 0; depth < 3 && e; ++depth) {
            const Area area = p_.area(*at, e);
            if (area.name == kNone) return;
            out.push_back(area);
            if (area.variable == kNone || area.offset) return;
            const Variable& v = p_.variables[static_cast<size_t>(area.variable)];
            if (!v.constant || !v.value) return;
            e = v.value;
            at = &p_.items[static_cast<size_t>(v.item)];
        }
    }

    const Busy& busy(int i) {
        const auto [it, added] = busy_.try_emplace(i);
        Busy& out = it->second;
        if (!added) return out;
        const Item& item = p_.items[static_cast<size_t>(i)];
        const Call& call = *p_.call(item);
        for (size_t k = 0; k < call.operands.size(); ++k) {
            const Ex e = call.operands[k];
            const Operand operand = call.row->operands.of(k, call.operands.size());
            if (operand == Operand::area_to) areas_of(item, e, out.written);
            if (operand == Operand::area_from) areas_of(item, e, out.read);
            if (call.row->queue != Queue::wgmma || operand == Operand::function) continue;
            const int v = p_.variable(item, p_.root(e));
            if (v != kNone && (operand == Operand::sum || p_.variables[static_cast<size_t>(v)].size ||
                               p_.variables[static_cast<size_t>(v)].named))
                out.registers.push_back(v);
        }
        out.barrier = barrier_of(item, call);
        for (const Touch& t : item.touches)
            if (t.variable != kNone) out.where.push_back(t.variable);
        return out;
    }

    static bool is_memory(Ex e) { return e->op == Op::index || e->op == Op::pointee; }
    void read_memory(const Item& item, Ex e, std::vector<Access>& out, int& budget) {
        if (!e || --budget < 0) return;
        if (is_memory(e)) {
            const Area area = p_.area(item, e);
            if (area.name != kNone &&
                (area.variable == kNone || !p_.variables[static_cast<size_t>(area.variable)].size))
                out.push_back({area, false});
        }
        for (const Node* o : e->operands) read_memory(item, Ex(o), out, budget);
    }
    const std::vector<Access>& accesses(int i) {
        const auto [it, added] = accesses_.try_emplace(i);
        std::vector<Access>& out = it->second;
        if (!added) return out;
        const Item& item = p_.items[static_cast<size_t>(i)];
        int budget = 2000;
        if (const auto* let = std::get_if<Let>(&item.statement->is)) read_memory(item, let->value, out, budget);
        if (const auto* assign = std::get_if<Assign>(&item.statement->is)) {
            read_memory(item, assign->value, out, budget);
            const size_t first = out.size();
            read_memory(item, assign->place, out, budget);
            if (out.size() > first && is_memory(assign->place)) out[first].written = true;
        }
        if (const Call* call = p_.call(item)) {
            std::vector<Area> areas;
            for (size_t k = 0; k < call->operands.size(); ++k) {
                const Operand operand = call->row->operands.of(k, call->operands.size());
                areas.clear();
                if (operand == Operand::area_to || operand == Operand::area_from)
                    areas_of(item, call->operands[k], areas);
                for (const Area& a : areas) out.push_back({a, operand == Operand::area_to});
                if (areas.empty()) read_memory(item, call->operands[k], out, budget);
            }
        }
        if (std::holds_alternative<Text>(item.statement->is))
            for (const Touch& t : item.touches)
                if (t.indexed) out.push_back({{t.name, t.variable, 0, nullptr, true}, t.written});
        return out;
    }
    static bool overlap(const Area& a, const Area& b) {
        if (a.name != b.name || a.variable != b.variable || a.constant != b.constant) return false;
        const bool whole_a = !a.offset && !a.somewhere, whole_b = !b.offset && !b.somewhere;
        if (whole_a && whole_b) return true;
        if (whole_a || whole_b) return a.variable != kNone;
        return !a.somewhere && !b.somewhere && a.offset == b.offset;
    }

    /// Does the item touch what is busy?
    void check(int i, const State& s) {
        const Item& item = p_.items[static_cast<size_t>(i)];
        const Call* call = p_.call(item);
        const Queue issued = call && call->row->has(ISSUES) ? call->row->queue : Queue::none;
        for (size_t q = 0; q < s.lines.size(); ++q) {
            const auto queue = static_cast<Queue>(q);
            const auto each = [&](const Group& group) {
                for (const Work& w : group)
                    if (w.ring == kNone && queue != issued && !w.blurred) check(i, item, w, queue);
            };
            for (const Group& g : s.lines[q].groups) each(g);
            each(s.lines[q].open);
        }
    }
    void check(int i, const Item& item, const Work& w, Queue queue) {
        if (queue == Queue::columns || queue == Queue::cluster || p_.text_queues[static_cast<size_t>(queue)]) return;
        const Busy& b = busy(w.item);
        for (const Touch& t : item.touches)
            if (t.variable != kNone &&
                std::find(b.registers.begin(), b.registers.end(), t.variable) != b.registers.end())
                p_.problem(i, std::string(p_.name(t.name)) + " belongs to a product that is on its way");
        if (b.read.empty() && b.written.empty()) return;
        for (const Access& a : accesses(i)) {
            for (const Area& area : b.written)
                if (overlap(a.area, area))
                    p_.problem(i, std::string(p_.name(area.name)) + " is filled by work that is on its way");
            for (const Area& area : b.read)
                if (a.written && overlap(a.area, area))
                    p_.problem(i, std::string(p_.name(area.name)) + " is read by work that is on its way");
        }
    }

    /// The variable has another value now, or has ended.
    void change(State& s, int variable) {
        for (Line& line : s.lines) {
            const auto each = [&](Group& group) {
                bool changed = false;
                for (Work& w : group) {
                    if (w.blurred || w.ring != kNone) continue;
                    const Busy& b = busy(w.item);
                    if (!b.registers.empty() || std::find(b.where.begin(), b.where.end(), variable) == b.where.end())
                        continue;
                    w.blurred = changed = true;
                }
                if (!changed) return;
                std::sort(group.begin(), group.end());
                group.erase(std::unique(group.begin(), group.end()), group.end());
            };
            for (Group& g : line.groups) each(g);
            each(line.open);
        }
        if (s.known.empty()) return;
        const int name = p_.variables[static_cast<size_t>(variable)].number;
        std::erase_if(s.known, [&](const auto& k) {
            const std::vector<Mention>& all = p_.mentions(Ex(k.first));
            return std::any_of(all.begin(), all.end(), [&](const Mention& m) { return m.name == name; });
        });
    }
    void change(State& s, const Item& item) {
        for (const Touch& t : item.touches)
            if (t.written && t.variable != kNone) change(s, t.variable);
    }
    void end_scope(int i, States& states) {
        const Item& item = p_.items[static_cast<size_t>(i)];
        for (State& s : states) {
            if (s.quiet() && s.known.empty()) continue;
            for (const int v : item.declared) {
                for (const Group& g : s.line(Queue::wgmma).groups)
                    for (const Work& w : g)
                        if (w.ring == kNone && !p_.text_queues[static_cast<size_t>(Queue::wgmma)])
                            if (const Busy& b = busy(w.item);
                                std::find(b.registers.begin(), b.registers.end(), v) != b.registers.end())
                                p_.problem(w.item, std::string(p_.variables[static_cast<size_t>(v)].name) +
                                                       " ends while the product is on its way");
                change(s, v);
            }
        }
    }

    // ---- statements ----

    void watch(int name) {
        if (name == kNone) return;
        if (watched_.size() <= static_cast<size_t>(name)) watched_.resize(static_cast<size_t>(name) + 64);
        watched_[static_cast<size_t>(name)] = watch_;
        watches_ = true;
    }
    /// Notes the names that matter to what is on its way and to conditions that are known.
    void watch(const States& states) {
        ++watch_;
        watches_ = false;
        const auto work = [&](const Group& group) {
            for (const Work& w : group) {
                if (w.ring != kNone) continue;
                const Busy& b = busy(w.item);
                for (const int v : b.registers) watch(p_.variables[static_cast<size_t>(v)].number);
                if (b.read.empty() && b.written.empty()) continue;
                for (const int v : b.where) watch(p_.variables[static_cast<size_t>(v)].number);
                for (const auto* areas : {&b.read, &b.written})
                    for (const Area& area : *areas) watch(area.name);
            }
        };
        for (const State& s : states) {
            for (const Line& line : s.lines) {
                for (const Group& g : line.groups) work(g);
                work(line.open);
            }
            for (const auto& [node, value] : s.known)
                for (const Mention& m : p_.mentions(Ex(node))) watch(m.name);
        }
    }
    /// Operations may reach an area by other names.
    bool is_watched(const Item& item) const {
        if (p_.call(item)) return true;
        return std::any_of(item.touches.begin(), item.touches.end(), [&](const Touch& t) {
            return static_cast<size_t>(t.name) < watched_.size() && watched_[static_cast<size_t>(t.name)] == watch_;
        });
    }

    void add(States& set, State s) {
        for (State& known : set)
            if (known.same_shape(s)) {
                join(known, s);
                return;
            }
        if (set.size() < kMostStates) set.push_back(std::move(s));
    }
    bool grow(States& set, const State& s) {
        for (State& known : set)
            if (known.same_shape(s)) return join(known, s);
        if (set.size() >= kMostStates) return false;
        set.push_back(s);
        return true;
    }

    States walk(Range range, States states) {
        bool changed = true;  // since names were watched
        for (int i = range.first; i < range.end; i = p_.items[static_cast<size_t>(i)].end) {
            const Item& item = p_.items[static_cast<size_t>(i)];
            if (!item.asynchronous) {
                if (std::find(touches_product_.begin() + i, touches_product_.begin() + item.end, true) !=
                    touches_product_.begin() + item.end)
                    for (State& s : states) s.fenced = false;
                if (std::exchange(changed, false)) watch(states);
                for (int k = i; k < item.end && watches_; ++k) {
                    if (!is_watched(p_.items[static_cast<size_t>(k)])) continue;
                    changed = true;
                    for (State& s : states) {
                        check(k, s);
                        change(s, p_.items[static_cast<size_t>(k)]);
                    }
                }
                continue;
            }
            changed = true;
            States out;
            switch (item.shape) {
                case Shape::choice:
                    out = choice(i, item, states);
                    break;
                case Shape::loop:
                    out = loop(i, item, std::move(states));
                    break;
                case Shape::roles:
                    for (const Range& body : item.bodies) {
                        States part = walk(body, states);
                        for (State& s : part) {
                            idle(i, s);
                            add(out, std::move(s));
                        }
                    }
                    break;
                case Shape::plain:
                    out = std::move(states);
                    for (State& s : out) plain(i, item, s);
                    if (item.leaves && !breaks_.empty())
                        for (const State& s : out) add(breaks_.back(), s);
                    for (size_t k = 0; item.returns && k < out.size(); ++k) finish(out[k], true);
                    if (item.returns) out.clear();
                    for (const Range& body : item.bodies) out = walk(body, std::move(out));
                    break;
            }
            states = std::move(out);
            end_scope(i, states);
        }
        return states;
    }

    void plain(int i, const Item& item, State& s) {
        check(i, s);
        if (const Call* call = p_.call(item); call && call->row->operands.takes(call->operands.size()))
            move(i, item, *call, s);
        change(s, item);
        if (touches_product_[static_cast<size_t>(i)]) s.fenced = false;
    }

    States choice(int i, const Item& item, const States& states) {
        const auto* typed = std::get_if<If>(&item.statement->is);
        const Node* condition = typed ? typed->condition.node() : nullptr;
        const bool varies = item.condition < kEverybody;
        States out;
        for (const State& s : states) {
            check(i, s);
            bool yes = true, no = true;
            if (const auto value = condition ? known(s, Ex(condition)) : std::nullopt) (*value ? no : yes) = false;
            const bool of_others = varies && !yes && moves_rings(item.bodies[0]);
            if (typed && !typed->ring.empty()) {
                const int taken = outstanding(s, typed->ring);
                yes = taken > typed->beyond;
                no = !yes;
            }
            const auto way = [&](size_t body, bool value) {
                State in = s;
                if (condition && yes && no) in.known.push_back({condition, value});
                return body < item.bodies.size() ? walk(item.bodies[body], {std::move(in)}) : States{std::move(in)};
            };
            States first = yes ? way(0, true) : States{}, second = no ? way(1, false) : States{};
            if (yes && no) agree(i, s, first, second, varies);
            if (const States done = of_others ? walk(item.bodies[0], {s}) : States{}; !done.empty())
                for (State& o : second) o.rings = done[0].rings;  // threads that go there do it for these, too
            for (States* part : {&first, &second})
                for (State& o : *part) add(out, std::move(o));
        }
        return out;
    }

    /// What the conditions that are known say of another one: it is the same, or one of the same number.
    static std::optional<bool> known(const State& s, Ex condition) {
        const auto compares = [](Ex e) { return e->operands.size() == 2 && e->operands[1]->op == Op::constant; };
        Facts facts = compares(condition) ? condition->operands[0]->facts : Facts{};
        for (const auto& [node, value] : s.known) {
            if (node == condition.node()) return value;
            const Ex e(node);
            if (!compares(e) || !compares(condition) || e->operands[0] != condition->operands[0]) continue;
            const int64_t c = e->operands[1]->value;
            if (e->op == Op::eq && value) facts.least = facts.most = c;
            if (e->op == (value ? Op::lt : Op::ge)) facts.most = std::min(facts.most, c - 1);
            if (e->op == (value ? Op::ge : Op::lt)) facts.least = std::max(facts.least, c);
        }
        if (!compares(condition)) return std::nullopt;
        return decided(condition->op, condition->operands[0]->type, facts, condition->operands[1]->facts);
    }

    bool moves_rings(Range range) const {
        return std::any_of(p_.items.begin() + range.first, p_.items.begin() + range.end, [&](const Item& item) {
            const Call* call = p_.call(item);
            return call && (call->row->has(ARRIVES) || call->row->has(WAITS) || call->row->has(COUNTS));
        });
    }

    int outstanding(const State& s, const std::string& ring) const {
        for (size_t r = 0; r < rings_.size(); ++r)
            if (p_.kernel.rings[r].name == ring) return s.rings[r].outstanding;
        return 0;
    }

    /// Branches leave rings alike. Where threads go different ways, those of one branch do it for all.
    void agree(int i, const State& before, States& yes, States& no, bool varies) {
        if (yes.empty() || no.empty()) return;
        for (size_t r = 0; r < rings_.size(); ++r) {
            const RingState &a = yes[0].rings[r], &b = no[0].rings[r];
            if (a == b || rings_[r].in_text) continue;
            const bool one = varies && (a == before.rings[r] || b == before.rings[r]);
            if (!one) p_.problem(i, "branches leave the ring " + p_.kernel.rings[r].name + " at different places");
            const RingState joint = a == before.rings[r] ? b : a;
            for (States* part : {&yes, &no})
                for (State& s : *part) s.rings[r] = joint;
        }
    }

    /// Trips of a loop that counts from a constant to a constant; kNone: nobody knows.
    static int64_t trips(const For& loop) {
        if (!loop.test || !loop.start || loop.test->op != Op::lt || loop.next.size() != 1) return kNone;
        const Ex limit(loop.test->operands[1]), counter = loop.next[0].place;
        const bool counts = loop.next[0].op == AssignOp::increment && counter->op == Op::text &&
                            counter->text == loop.counter && Ex(loop.test->operands[0]) == counter;
        if (!counts || !limit.constant() || !loop.start.constant()) return kNone;
        return std::max<int64_t>(0, *limit.constant() - *loop.start.constant());
    }

    States loop(int i, const Item& item, States states) {
        const For& loop = std::get<For>(item.statement->is);
        const int64_t count = trips(loop);
        const bool endless = !loop.test;
        const auto trip = [&](States s) {
            for (State& one : s) {
                check(i, one);
                change(one, item);
            }
            for (const Range& body : item.bodies) s = walk(body, std::move(s));
            end_scope(i, s);
            return s;
        };
        breaks_.emplace_back();
        States out;
        if (count != kNone && count <= kMostTrips) {
            for (int64_t k = 0; k < count; ++k) states = trip(std::move(states));
            out = std::move(states);
        } else {
            if (count == kNone && !endless) out = states;
            for (int pass = 0; pass < kMostPasses; ++pass) {
                const States behind = trip(states);
                bool grown = false;
                for (const State& s : behind) {
                    if (!endless) add(out, s);
                    grown |= grow(states, s);
                }
                if (!grown) break;
            }
        }
        for (State& s : breaks_.back()) add(out, std::move(s));
        breaks_.pop_back();
        return out;
    }

    // ---- operations ----

    void move(int i, const Item& item, const Call& call, State& s) {
        const Row& row = *call.row;
        if (row.op == KernelOp::wgmma_fence) s.fenced = true;
        const bool followed = row.queue != Queue::none && !p_.text_queues[static_cast<size_t>(row.queue)];
        if (followed && row.queue != Queue::barrier) {
            Line& line = s.line(row.queue);
            if (row.has(ISSUES)) issue(i, row, line, s);
            // Rings do not ask which group their copies are in.
            if (row.has(COMMITS) && !(row.queue == Queue::copy && by_threads_ && line.open.empty())) commit(line);
            if (row.has(AWAITS)) wait(i, call, line);
        }
        if (row.queue == Queue::copy) {
            if (row.has(ISSUES) || row.has(AWAITS)) s.met = false;
            if (row.has(ISSUES)) s.waited = 0;
            if (row.has(AWAITS)) s.waited |= awaited(call);
            if (row.has(AWAITS) && s.uncommitted) p_.problem(i, "waits for work that has not been committed");
            if (row.has(COMMITS)) s.uncommitted = false;
        }
        if (row.has(MEETS)) s.met = true;
        const int barrier = p_.text_barriers ? kNone : barrier_of(item, call);
        if (row.queue == Queue::barrier && followed) insert(s.line(row.queue).open, {i});
        if (row.has(WAITS))
            std::erase_if(s.line(Queue::barrier).open, [&](const Work& w) { return busy(w.item).barrier == barrier; });
        for (size_t r = 0; r < rings_.size(); ++r)
            if (!rings_[r].in_text) in_ring(i, call, barrier, r, s);
    }

    /// Rings whose oldest stage a wait for copies is for: those that it counts the stages of, or all.
    uint64_t awaited(const Call& call) {
        const Ex newer = call.operands[0];
        uint64_t out = newer.constant() ? ~uint64_t{0} : 0;
        for (const Mention& m : p_.mentions(newer))
            for (size_t r = 0; r < rings_.size(); ++r)
                if (rings_[r].ahead == m.name) out |= uint64_t{1} << r % 64;
        return out;
    }

    static void insert(Group& group, Work w) {
        const auto at = std::lower_bound(group.begin(), group.end(), w);
        if (at == group.end() || *at != w) group.insert(at, w);
    }
    void issue(int i, const Row& row, Line& line, const State& s) {
        if (row.queue == Queue::cluster && !line.groups.empty()) p_.problem(i, "arrives twice");
        if (row.queue == Queue::columns && !line.groups.empty()) p_.problem(i, "takes tensor memory twice");
        if (row.queue == Queue::wgmma && !s.fenced)
            p_.problem(i, "no fence stands behind what its registers were used for");
        insert(line.open, {i});
        for (size_t r = 0; r < rings_.size() && row.queue == Queue::wgmma; ++r)
            if (const int n = s.rings[r].outstanding) insert(line.open, {i, false, static_cast<int>(r), n - 1});
    }
    static void commit(Line& line) {
        line.groups.push_back(std::move(line.open));
        line.open.clear();
        if (line.groups.size() <= kMostGroups) return;
        join(line.groups[1], line.groups[0]);
        line.groups.erase(line.groups.begin());
    }
    void wait(int i, const Call& call, Line& line) {
        const Row& row = *call.row;
        size_t newer = 0;
        for (size_t k = 0; k < call.operands.size(); ++k)
            if (row.operands.of(k, call.operands.size()) == Operand::newer) {
                const int64_t n = call.operands[k].constant().value_or(0);
                if (n < 0) return;
                newer = static_cast<size_t>(n);
            }
        const bool alone = !row.has(ISSUES);
        if (alone && line.groups.empty() && (row.queue == Queue::cluster || row.queue == Queue::columns))
            p_.problem(
                i, row.queue == Queue::cluster ? "waits without having arrived" : "gives back what has not been taken");
        if (!line.open.empty() && row.queue != Queue::tensor)
            p_.problem(i, "waits for work that has not been committed");
        if (row.queue == Queue::tensor) line.open.clear();
        if (line.groups.size() > newer)
            line.groups.erase(line.groups.begin(), line.groups.end() - static_cast<std::ptrdiff_t>(newer));
    }

    void in_ring(int i, const Call& call, int barrier, size_t r, State& s) {
        const Row& row = *call.row;
        const RingNames& n = rings_[r];
        const Ring& ring = p_.kernel.rings[r];
        RingState& state = s.rings[r];
        const auto says = [&](const char* what) { p_.problem(i, std::string(what) + " (ring " + ring.name + ")"); };
        if (row.has(COUNTS)) return count(call, r, s, says);
        const int peer = row.op == KernelOp::mbarrier_arrive_at ? p_.root(call.operands[0]) : kNone;
        const bool is_full = barrier != kNone && barrier == n.full, is_empty = barrier != kNone && barrier == n.empty;
        if (row.has(WAITS) && is_full) {
            if (state.taken) says("takes a stage twice");
            take(state, ring, says);
        } else if (row.has(WAITS) && is_empty) {
            if (state.ready) says("waits twice for an empty stage");
            state.ready = true;
        } else if (is_full && (row.has(ARRIVES) || row.has(ISSUES))) {
            if (!state.ready) says("fills a stage that may not be empty");
            state.filled = true;
        } else if (row.has(ARRIVES) && (is_empty || (peer != kNone && peer == n.peer))) {
            give_back(call, r, s, says);
        }
    }

    template <class Says>
    static void take(RingState& state, const Ring& ring, const Says& says) {
        state.taken = true;
        if (state.outstanding == ring.stages)
            says("takes more stages than there are");
        else
            ++state.outstanding;
    }

    template <class Says>
    void give_back(const Call& call, size_t r, State& s, const Says& says) {
        RingState& state = s.rings[r];
        if (state.released) return says("gives a stage back twice");
        if (!state.outstanding) return says("gives back a stage that has not been taken");
        --state.outstanding;
        state.released = p_.kernel.rings[r].stages > 1 || p_.kernel.rings[r].release.empty();
        if (call.row->queue == Queue::tensor) return;  // that happens when products are done
        for (Group& g : s.line(Queue::wgmma).groups) {
            for (const Work& w : g)
                if (w.ring == static_cast<int>(r) && w.age == 0) says("gives back a stage that a product still reads");
            std::erase_if(g, [&](const Work& w) { return w.ring == static_cast<int>(r) && w.age == 0; });
            for (Work& w : g)
                if (w.ring == static_cast<int>(r)) --w.age;
            std::sort(g.begin(), g.end());
        }
    }

    template <class Says>
    void count(const Call& call, size_t r, State& s, const Says& says) {
        const Ring& ring = p_.kernel.rings[r];
        const RingNames& n = rings_[r];
        RingState& state = s.rings[r];
        const int counter = p_.root(call.operands[0]);
        const bool by_threads = ring.full.empty(), paired = ring.release.empty();
        if (counter == kNone) return;
        const bool moves = counter == n.put || counter == n.get || counter == n.release;
        if (moves && !call.operands[1].is(ring.stages)) says("counts to another number of stages");
        if (call.row->op == KernelOp::count_put && counter == n.ahead) {
            if (state.filled) says("fills a stage twice");
            state.filled = ring.stages > 1;  // where no counter says that threads move on, they have
            s.met = false;
            Group& copies = s.line(Queue::copy).open;  // of the ring, which knows on from here what becomes of them
            s.uncommitted = s.uncommitted || !copies.empty();
            copies.clear();
        } else if (call.row->op == KernelOp::count_get && counter == n.ahead) {
            if (copies_ && !(s.waited >> r % 64 & 1) && !p_.text_queues[static_cast<size_t>(Queue::copy)])
                says("takes a stage whose copies are not awaited");
            if (!ring.own && !s.met) says("takes a stage before threads have met");
            if (state.taken) says("takes a stage twice");
            take(state, ring, says);
            if (ring.own) state.outstanding = 0;  // a thread reads its stage at once
            if (ring.stages == 1) state = {};
        } else if (counter == n.put || counter == n.put_phase) {
            if (!state.filled) says("moves on from a stage that is not filled");
            state.ready = state.filled = false;
        } else if (counter == n.get || counter == n.get_phase) {
            if (!state.taken) return says("moves on from a stage that is not taken");
            if (paired && !by_threads && !state.released) says("moves on before the stage is given back");
            if (paired && by_threads && !ring.own) --state.outstanding;
            state.taken = false;
            if (paired) state.released = false;
        } else if (counter == n.release && !ring.own) {
            if (by_threads ? state.outstanding == 0 : !state.released)
                return says("moves on before the stage is given back");
            if (by_threads) --state.outstanding;
            state.released = false;
        }
    }

    // ---- ends ----

    /// Before a thread ends `early`, only other CTAs ask for the stages that it has taken.
    void idle(int i, const State& s, bool early = false) {
        for (size_t r = 0; r < rings_.size(); ++r) {
            const Ring& ring = p_.kernel.rings[r];
            const RingState& state = s.rings[r];
            const bool done = early && ring.peer_empty.empty() ? !state.fills() : state.idle();
            if (!rings_[r].in_text && !done)
                p_.problem(i, "ends with a stage of the ring " + ring.name + " that is waited for, filled or taken");
        }
    }
    void finish(const State& s, bool early = false) {
        idle(kNone, s, early);
        for (size_t q = 0; q < s.lines.size(); ++q) {
            if (static_cast<Queue>(q) == Queue::barrier) continue;
            for (const Group& g : s.lines[q].groups)
                for (const Work& w : g) p_.problem(w.item, "is not awaited before the kernel ends");
            for (const Work& w : s.lines[q].open) p_.problem(w.item, "is never committed");
        }
    }

    Program& p_;
    std::vector<RingNames> rings_;
    std::unordered_set<int> inits_;
    std::unordered_map<int, Busy> busy_;
    std::unordered_map<int, std::vector<Access>> accesses_;
    std::vector<States> breaks_;
    std::vector<bool> touches_product_;  ///< by item
    std::vector<uint32_t> watched_;      ///< by name: the last `watch` that noted it
    uint32_t watch_ = 0;
    bool watches_ = false;
    bool copies_ = false;
    bool by_threads_ = false;  ///< do threads fill a ring?
};

}  // namespace

void check_flow(Program& program) { Flow(program).run(); }

std::vector<Problem> verify(const Kernel& kernel) {
    Program program(kernel);
    check_names(program);
    check_threads(program);
    check_flow(program);
    return program.take();
}

}  // namespace tegula::kernel
