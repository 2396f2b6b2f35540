// Vector clocks as tries, and the table of stretches (history.h).
#include "jit/interp/history.h"

#include <algorithm>

namespace tegula::interp {

uint32_t Clock::of(uint32_t program) const {
    const Node* node = root_.get();
    for (int shift = kTop; node && shift > 0; shift -= kBits) node = node->below[program >> shift & (kFan - 1)].get();
    return node ? node->times[program & (kFan - 1)] : 0;
}

void Clock::set(uint32_t program, uint32_t time) { root_ = with(root_, kTop, program, time); }

Clock::Ref Clock::with(const Ref& node, int shift, uint32_t program, uint32_t time) {
    auto out = node ? std::make_shared<Node>(*node) : std::make_shared<Node>();
    const size_t at = program >> shift & (kFan - 1);
    if (shift == 0)
        out->times[at] = time;
    else
        out->below[at] = with(out->below[at], shift - kBits, program, time);
    return out;
}

/// Where one side holds nothing that the other lacks, it is the result itself, so that equal parts are found to be the same ones later.
Clock::Ref Clock::joined(const Ref& a, const Ref& b) {
    if (a == b || !b) return a;
    if (!a) return b;
    Node out;
    bool is_a = true, is_b = true;
    for (size_t i = 0; i < kFan; ++i) {
        out.below[i] = joined(a->below[i], b->below[i]);
        out.times[i] = std::max(a->times[i], b->times[i]);
        is_a = is_a && out.below[i] == a->below[i] && out.times[i] == a->times[i];
        is_b = is_b && out.below[i] == b->below[i] && out.times[i] == b->times[i];
    }
    return is_a ? a : is_b ? b : std::make_shared<const Node>(std::move(out));
}

uint32_t History::add(const Strand& strand) {
    if (stretches_.size() < kMost) stretches_.push_back({strand.program, strand.time});
    return static_cast<uint32_t>(stretches_.size());
}

Strand History::begin(uint64_t program) {
    Strand out;
    out.program = static_cast<uint32_t>(program % kMost);
    out.stretch = ordered_ ? add(out) : out.program + 1;
    return out;
}

Clock History::released(const Strand& strand) {
    Clock out = strand.seen;
    out.set(strand.program, strand.time);
    return out;
}

void History::go_on(Strand& strand) {
    ++strand.time;
    strand.stretch = add(strand);
}

bool History::precedes(uint32_t stretch, const Strand& strand) const {
    if (program_of(stretch) == strand.program) return true;
    return ordered_ && strand.seen.of(program_of(stretch)) >= stretches_[stretch - 1].time;
}

}  // namespace tegula::interp
