// Liveness and placement of tile storage (plan.h, Slots). Times are step numbers; a storage is live from its first to its last touch,
// whole loops included. Small storages are never shared: they are what every step reads, and keep their cache lines.
#include <algorithm>

#include "jit/interp/plan.h"

namespace tegula::interp {

namespace {
constexpr uint64_t kSmall = 64;
uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }
}  // namespace

uint32_t Slots::add(uint64_t bytes, bool permanent) {
    Slot s;
    s.bytes = bytes;
    s.permanent = permanent;
    slots_.push_back(s);
    return static_cast<uint32_t>(slots_.size() - 1);
}

uint32_t Slots::find(uint32_t slot) const {
    while (slots_[slot].parent != UINT32_MAX) slot = slots_[slot].parent;
    return slot;
}

void Slots::read(uint32_t slot, uint32_t at) {
    Slot& s = slots_[find(slot)];
    s.first = std::min(s.first, at);
    s.last = std::max(s.last, at);
    s.last_read = std::max(s.last_read, at);
}

void Slots::write(uint32_t slot, uint32_t at) {
    Slot& s = slots_[find(slot)];
    s.first = std::min(s.first, at);
    s.last = std::max(s.last, at);
}

void Slots::close_loop(uint32_t begin, uint32_t end) {
    for (Slot& s : slots_)
        if (s.parent == UINT32_MAX && s.first < begin && s.last >= begin) s.last = std::max(s.last, end);
}

bool Slots::merge(uint32_t from, uint32_t into, bool in_place) {
    from = find(from);
    into = find(into);
    Slot &f = slots_[from], &t = slots_[into];
    if (from == into || f.permanent || t.permanent || f.bytes != t.bytes) return false;
    if (in_place ? t.last_read > f.first : t.last_read >= f.first) return false;
    t.first = std::min(t.first, f.first);
    t.last = std::max(t.last, f.last);
    t.last_read = std::max(t.last_read, f.last_read);
    f.parent = into;
    return true;
}

uint64_t Slots::place() {
    uint64_t small = 0;
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        Slot& s = slots_[i];
        if (s.parent != UINT32_MAX) continue;
        if (s.bytes <= kSmall || s.permanent) {
            small = round_up(small, s.bytes >= kSmall ? 64 : 8);
            s.offset = small;
            small += s.bytes;
        } else {
            order.push_back(i);
        }
    }
    const uint64_t base = round_up(small, 64);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return slots_[a].first != slots_[b].first ? slots_[a].first < slots_[b].first : a < b; });
    std::vector<uint32_t> live;  // by offset
    uint64_t end = base;
    for (uint32_t id : order) {
        Slot& s = slots_[id];
        std::erase_if(live, [&](uint32_t other) { return slots_[other].last < s.first; });
        uint64_t at = base;
        size_t where = 0;
        const uint64_t need = round_up(s.bytes, 64);
        for (; where < live.size(); ++where) {
            const Slot& other = slots_[live[where]];
            if (at + need <= other.offset) break;
            at = other.offset + round_up(other.bytes, 64);
        }
        s.offset = at;
        live.insert(live.begin() + static_cast<std::ptrdiff_t>(where), id);
        end = std::max(end, at + need);
    }
    return end + 64;
}

}  // namespace tegula::interp
