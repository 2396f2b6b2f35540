// Steps of channels (channels.h) and the scheduler of `specialise`: the two sides take turns of random length, copies land at random moments
// between their start and the wait for them, memory is read when they land, and a stage's bytes turn to garbage when it is released. Whatever
// order the seed gives, a right kernel has the result of the plain one; a wrong one is told with the two places that meet.
#include "jit/interp/channels.h"

#include <algorithm>
#include <cstring>

namespace tegula::interp {

namespace {

constexpr uint8_t kGarbage = 0xa5;
constexpr uint64_t kLongestTurn = 48;  ///< steps of one side before the other may run

void fail(Machine& m, const Info& info, Diag id, std::initializer_list<std::string> args, Span other, const char* what) {
    report(m, info, id, args);
    {
        std::lock_guard lock(m.shared.errors_mutex);
        if (!m.shared.errors.empty() && m.shared.errors.back().id == id && m.shared.errors.back().labels.empty())
            m.shared.errors.back().labels.push_back({other, what});
    }
    m.shared.end(RunResult::failed);
    m.stopped = true;
}

Ring& ring_of(Machine& m, const Tile& channel) { return m.rings->rings[static_cast<size_t>(channel.param)]; }

/// The step cannot run yet: it will be tried again when its side has its next turn.
void wait(Machine& m) {
    --m.pc;
    m.waiting = true;
}

}  // namespace

void Rings::land(Ring& ring, size_t f) {
    const Flight flight = std::move(ring.flying[f]);
    ring.flying.erase(ring.flying.begin() + static_cast<std::ptrdiff_t>(f));
    Machine& m = *flight.machine;
    const Info& info = *flight.put;
    std::vector<int64_t> now(flight.indices.size());
    const auto swap_in = [&](const std::vector<int64_t>& values) {
        for (size_t i = 0; i < values.size(); ++i) std::memcpy(m.at(info.in[i + 1]), &values[i], 8);
    };
    for (size_t i = 0; i < now.size(); ++i) now[i] = m.scalar<int64_t>(info.in[i + 1]);
    swap_in(flight.indices);
    step_load(m, Step{step_load, &info, 0});
    swap_in(now);
    const size_t at = flight.number % ring.stages;
    std::memcpy(ring.stage[at].data(), m.at(info.out[0]), ring.stage[at].size());
    ring.landed[at] = true;
}

bool Rings::land_any() {
    std::vector<Ring*> busy;
    for (Ring& r : rings)
        if (!r.flying.empty()) busy.push_back(&r);
    if (busy.empty()) return false;
    Ring& r = *busy[random.below(busy.size())];
    land(r, random.below(r.flying.size()));
    return true;
}

void step_channel(Machine& m, const Step& s) {
    const Info& info = *s.info;
    const Tile& tile = info.out[0];
    Ring& ring = m.rings->rings[static_cast<size_t>(tile.param)];
    ring = {};
    ring.made = &info;
    ring.stages = static_cast<uint64_t>(info.attrs[0]);
    ring.stage.assign(ring.stages, std::vector<uint8_t>(static_cast<size_t>(tile.n) * tile.width, kGarbage));
    ring.landed.assign(ring.stages, false);
    if (tile.param == 0) m.rings->random.state = (m.shared.options.order_seed + 1) * 0xd1342543de82ef95u + m.linear;
}

void step_channel_put(Machine& m, const Step& s) {
    const Info& info = *s.info;
    Ring& ring = ring_of(m, info.in.back());
    if (ring.put - ring.released >= ring.stages) {
        if (m.rings->two_sides) return wait(m);
        const Span user = ring.taken.empty() ? ring.last_put->span : ring.taken.front().get->span;
        return fail(m, info, Diag::stage_not_free, {}, user, ring.taken.empty() ? "the copy that was not taken" : "the tile that was not released");
    }
    Flight flight{&m, &info, {}, ring.put++};
    for (size_t i = 1; i < info.access->first; ++i) flight.indices.push_back(m.scalar<int64_t>(info.in[i]));
    ring.landed[flight.number % ring.stages] = false;
    ring.last_put = &info;
    ring.flying.push_back(std::move(flight));
    while (m.rings->random.below(3) == 0 && m.rings->land_any()) {
    }
}

void step_channel_get(Machine& m, const Step& s) {
    const Info& info = *s.info;
    Ring& ring = ring_of(m, info.in[0]);
    const uint64_t number = ring.taken_count;
    const size_t at = number % ring.stages;
    if (number == ring.put) {
        if (m.rings->two_sides) return wait(m);
        return fail(m, info, Diag::channel_deadlock, {"`channel_get`"}, ring.made->span, "no copy into this channel is on its way");
    }
    if (!ring.landed[at]) {
        if (m.rings->two_sides) return wait(m);
        for (size_t f = 0; f < ring.flying.size(); ++f)
            if (ring.flying[f].number == number) {
                m.rings->land(ring, f);
                break;
            }
    }
    std::memcpy(m.at(info.out[0]), ring.stage[at].data(), ring.stage[at].size());
    ++ring.taken_count;
    if (!info.attrs[0]) return ring.taken.push_back({&info, number});
    ++ring.released;
    std::ranges::fill(ring.stage[at], kGarbage);
}

void step_channel_release(Machine& m, const Step& s) {
    const Info& info = *s.info;
    Ring& ring = ring_of(m, info.in[0]);
    if (ring.taken.empty()) return fail(m, info, Diag::stage_not_taken, {}, ring.made->span, "the channel");
    const Taken taken = ring.taken.front();
    ring.taken.pop_front();
    ++ring.released;
    std::vector<uint8_t>& bytes = ring.stage[taken.number % ring.stages];
    std::fill(bytes.begin(), bytes.end(), kGarbage);
    std::memset(m.at(taken.get->out[0]), kGarbage, bytes.size());
    ring.released_at[taken.get->id.v] = info.span;
}

/// Attributes: pairs of ring and get. Every one must be taken and not released.
void step_stage_use(Machine& m, const Step& s) {
    const Info& info = *s.info;
    for (size_t i = 0; i < info.attrs.size(); i += 2) {
        const Ring& ring = m.rings->rings[static_cast<size_t>(info.attrs[i])];
        const auto get = static_cast<uint32_t>(info.attrs[i + 1]);
        if (std::any_of(ring.taken.begin(), ring.taken.end(), [&](const Taken& t) { return t.get->id.v == get; })) continue;
        const auto at = ring.released_at.find(get);
        return fail(m, info, Diag::stage_use_after_release, {}, at == ring.released_at.end() ? ring.made->span : at->second, "released here");
    }
}

void step_channels_end(Machine& m, const Step&) {
    for (const Ring& ring : m.rings->rings) {
        if (ring.put != ring.taken_count)
            return fail(m, *ring.made, Diag::channel_not_empty, {"copies into this channel were not taken"}, ring.last_put->span, "a copy");
        if (!ring.taken.empty())
            return fail(m, *ring.made, Diag::channel_not_empty, {"a stage of this channel is not released"}, ring.taken.front().get->span,
                        "taken here");
    }
}

void step_specialise(Machine& m, const Step& s) {
    const Info& info = *s.info;
    Machine producer(m.plan, m.shared);
    std::memcpy(producer.arena, m.arena, m.plan.arena_bytes);
    std::copy(std::begin(m.program), std::end(m.program), std::begin(producer.program));
    producer.linear = m.linear;
    producer.position = m.position;
    producer.rings = m.rings;
    producer.pc = info.begin;
    m.pc = info.end;
    Rings& rings = *m.rings;
    rings.two_sides = true;
    const uint64_t favour = rings.random.below(3);  ///< who is fast in this program: nobody, the producer, the consumer
    while (!m.stopped && !producer.stopped) {
        const bool producing = producer.pc < info.end, consuming = m.pc < s.target;
        if (!producing && !consuming) break;
        uint64_t done = 0;
        const bool first = rings.random.below(4) < 1 + favour;
        for (const bool producers_turn : {first, !first}) {
            const uint64_t length = 1 + rings.random.below(kLongestTurn);
            if (producers_turn ? producing : consuming) done += producers_turn ? producer.advance(info.end, length) : m.advance(s.target, length);
        }
        while (rings.random.below(4) == 0 && rings.land_any()) ++done;
        if (done || m.stopped || producer.stopped || rings.land_any()) continue;
        const Info& here = *m.plan.steps[consuming ? m.pc : producer.pc].info;
        const uint32_t other = consuming ? std::min(producer.pc, info.end - 1) : std::min(m.pc, s.target - 1);
        fail(m, here, Diag::channel_deadlock, {consuming ? "the consumer" : "the producer"}, m.plan.steps[other].info->span,
             consuming ? "the producer stands here" : "the consumer stands here");
    }
    rings.two_sides = false;
    if (producer.stopped) m.stopped = true;
    m.shared.steps_taken.fetch_sub(producer.steps_left);
    m.pc = s.target;
}

}  // namespace tegula::interp
