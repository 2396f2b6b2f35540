// Steps of control flow and copies between tiles.
#include <cstring>

#include "jit/interp/machine.h"

namespace tegula::interp {

void step_jump(Machine& m, const Step& s) {
    const bool back = s.target < m.pc;
    m.pc = s.target;
    if (!back) return;
    m.at_back_edge();
    if (m.shared.watches) m.watch_loop();
}

void step_jump_if_false(Machine& m, const Step& s) {
    if (m.scalar<uint8_t>(s.info->in[0]) == 0) m.pc = s.target;
}

void step_for_begin(Machine& m, const Step& s) {
    const int64_t lo = m.scalar<int64_t>(s.info->in[0]), hi = m.scalar<int64_t>(s.info->in[1]), step = m.scalar<int64_t>(s.info->in[2]);
    if (step <= 0 || lo >= hi) {
        m.pc = s.target;
        return;
    }
    const uint64_t trips = (static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo) - 1) / static_cast<uint64_t>(step) + 1;
    std::memcpy(m.at(s.info->out[0]), &lo, 8);
    std::memcpy(m.at(s.info->out[1]), &trips, 8);
}

void step_for_next(Machine& m, const Step& s) {
    const uint64_t left = m.scalar<uint64_t>(s.info->out[1]) - 1;
    if (left == 0) return;
    const int64_t next = m.scalar<int64_t>(s.info->out[0]) + m.scalar<int64_t>(s.info->in[0]);
    std::memcpy(m.at(s.info->out[0]), &next, 8);
    std::memcpy(m.at(s.info->out[1]), &left, 8);
    m.pc = s.target;
    m.at_back_edge();
}

void step_copy(Machine& m, const Step& s) {
    const Tile &from = s.info->in[0], &to = s.info->out[0];
    const uint8_t* in = m.at(from);
    uint8_t* out = m.at(to);
    const int64_t n = m.count(to);
    if (!from.splat || n == 1) {
        std::memmove(out, in, static_cast<size_t>(n) * to.width);
        return;
    }
    switch (to.width) {
        case 1:
            std::memset(out, *in, static_cast<size_t>(n));
            break;
        case 2:
            std::fill_n(reinterpret_cast<uint16_t*>(out), n, *reinterpret_cast<const uint16_t*>(in));
            break;
        case 4:
            std::fill_n(reinterpret_cast<uint32_t*>(out), n, *reinterpret_cast<const uint32_t*>(in));
            break;
        default:
            std::fill_n(reinterpret_cast<uint64_t*>(out), n, *reinterpret_cast<const uint64_t*>(in));
            break;
    }
}

}  // namespace tegula::interp
