// The race check of one element: a plain write races with every access of another program that nothing orders before it, a read or an atomic with
// every plain write, a read with every atomic. Behind a plain write that is ordered behind all others of its element those need not be kept.
#include "jit/interp/access.h"

namespace tegula::interp {

namespace {

constexpr size_t kFewAccesses = 16;  ///< of one element that are kept without a look at which of them still matter

std::string program_text(const Machine& m, uint64_t linear) {
    const uint64_t* g = m.shared.grid;
    return "(" + std::to_string(linear % g[0]) + ", " + std::to_string(linear / g[0] % g[1]) + ", " + std::to_string(linear / g[0] / g[1]) + ")";
}

/// What would order the two accesses, in a kernel whose programs tell each other things.
std::string missing_order(const Machine& m) {
    if (!m.plan.order.atomics) return {};
    return m.shared.history->ordered()
               ? "no atomics order the two: the first program must release (`order = release`) behind its access, and the second acquire (`order = "
                 "acquire`) in front of its own, at the same element, at a later update of it, with `scope = gpu` or `sys`"
               : "the atomics of this kernel are `relaxed` and order nothing: release (`order = release`) behind the first access, and acquire "
                 "(`order = acquire`) in front of the second";
}

}  // namespace

uint64_t Memory::cell_of(int64_t bit) const { return static_cast<uint64_t>((view_.data - view_.shadow->data) * 8 + bit) / view_.shadow->unit; }

void Memory::trace_race(int64_t bit, int64_t element) {
    Shadow& shadow = *view_.shadow;
    const uint64_t at = cell_of(bit);
    if (at >= shadow.cells) return;
    Cell* page = shadow.pages[at / Shadow::kPage].get();
    if (!page) page = m_.page_of(shadow, at, param_name(m_, view_));
    if (!page) return;
    Cell& cell = page[at % Shadow::kPage];
    const History& history = *m_.shared.history;
    const auto tell = [&](Diag id, uint64_t first, uint64_t second) {
        report(m_, info_, id, {element_text(view_, bit), param_name(m_, view_), program_text(m_, first), program_text(m_, second)}, element, nullptr,
               missing_order(m_));
    };
    const uint64_t me = m_.linear;
    const auto before = [&](uint32_t access) { return history.precedes(access & ~kAtomicAccess, m_.strand); };
    const auto program = [&](uint32_t access) { return uint64_t{history.program_of(access & ~kAtomicAccess)}; };
    if (cell.writer && !before(cell.writer)) {
        writes_ ? tell(Diag::write_race, program(cell.writer), me) : tell(Diag::read_write_race, me, program(cell.writer));
        cell.writer = 0;  // told once
    }
    const bool plain_write = writes_ && !atomic_;
    const auto meet = [&](uint32_t access) {
        const bool was_atomic = access & kAtomicAccess;
        if (!access || (was_atomic == atomic_ && !plain_write) || before(access)) return;
        if (plain_write && was_atomic) return tell(Diag::write_race, program(access), me);
        was_atomic ? tell(Diag::read_write_race, me, program(access)) : tell(Diag::read_write_race, program(access), me);
    };
    for (const uint32_t access : cell.others) meet(access);
    const auto more = shadow.more.empty() ? shadow.more.end() : shadow.more.find(at);
    if (more != shadow.more.end())
        for (const uint32_t access : more->second) meet(access);
    if (!plain_write) return note(cell, at, m_.strand.stretch | (atomic_ ? kAtomicAccess : 0));
    cell = {m_.strand.stretch, {0, 0}};
    if (more != shadow.more.end()) shadow.more.erase(more);
    if (!shadow.released.empty()) shadow.released.erase(at);
}

/// Keeps a read or an atomic. Without order two of different programs are enough: whatever races with a third one races with one of them.
void Memory::note(Cell& cell, uint64_t at, uint32_t access) {
    const History& history = *m_.shared.history;
    const auto needless = [&](uint32_t old) { return ((old ^ access) & kAtomicAccess) == 0 && history.precedes(old & ~kAtomicAccess, m_.strand); };
    for (uint32_t& old : cell.others)
        if (!old || needless(old)) {
            old = access;
            return;
        }
    if (!history.ordered()) return;
    std::vector<uint32_t>& more = view_.shadow->more[at];
    if (!more.empty() && needless(more.back())) {
        more.back() = access;
        return;
    }
    if (more.size() >= kFewAccesses && (more.size() & (more.size() - 1)) == 0) std::erase_if(more, needless);
    more.push_back(access);
    m_.count_shadow(sizeof access, param_name(m_, view_));
}

void Memory::acquire(int64_t bit) {
    if (!view_.shadow) return;
    const auto& released = view_.shadow->released;
    if (const auto found = released.find(cell_of(bit)); found != released.end()) m_.strand.seen.join(found->second);
}

void Memory::release(int64_t bit, const Clock& what) {
    if (view_.shadow) view_.shadow->released[cell_of(bit)].join(what);
}

}  // namespace tegula::interp
