#include "lang/gpu/packed_view.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>

#include "lang/access_operands.h"
#include "lang/decode_bytes.h"
#include "lang/divisor.h"
#include "lang/gpu/wide_access.h"

namespace tegula {

using ir::Access;

namespace {

constexpr int64_t kMostShift = 64;    ///< bits: the word a register begins in, or the next one
constexpr int kMostWords = 256;       ///< of a thread
constexpr int64_t kMostOverhead = 8;  ///< words that a thread reads per word that it needs

/// The parameter number of a load's tensor.
size_t param_of(const ir::Function& form, ir::ValueId tensor) {
    const auto found = std::find_if(form.params.begin(), form.params.end(), [&](const ir::Param& p) { return p.value == tensor; });
    return static_cast<size_t>(found - form.params.begin());
}

/// The lowest bit that may be set; 63 for none.
int lowest(uint64_t bits) { return bits ? std::countr_zero(bits) : 63; }

}  // namespace

std::vector<int> part_dimensions(const Access& access) {
    std::vector<int> out;
    int next = 0;
    for (const Access::Axis& a : access.axes) out.push_back(a.kind == Access::index ? -1 : next++);
    return out;
}

int64_t piece_value(const LayoutPieces& member, LayoutPieces::Part part, std::span<const int> dims, const TileLayout::Point& at) {
    std::vector<int64_t> indices(3 * dims.size(), 0);
    for (size_t a = 0; a < dims.size(); ++a)
        if (dims[a] >= 0) indices[part * dims.size() + a] = at[static_cast<size_t>(dims[a])];
    return member.part[part].eval(indices, {});
}

std::optional<std::vector<LayoutPieces>> access_pieces(const ir::Function& form, const ir::Inst& load, const TileLayout& l) {
    const ir::AccessOperands operands(form, load);
    const Access& access = operands.access;
    if (access.gathers() || access.steps()) return std::nullopt;
    const std::vector<int> dims = part_dimensions(access);
    std::vector<std::array<uint64_t, 3>> bits(dims.size());
    for (size_t a = 0; a < dims.size(); ++a) {
        if (operands.index[a]) bits[a][LayoutPieces::uniform] = ~static_cast<uint64_t>(power_of_two_divisor(form, operands.index[a].value) - 1);
        if (dims[a] < 0) continue;
        if (!is_additive(l, dims[a])) return std::nullopt;
        bits[a][LayoutPieces::thread] = thread_bits(l, dims[a]);
        bits[a][LayoutPieces::register_] = register_bits(l, dims[a]);
    }
    std::vector<LayoutPieces> out;
    for (const LayoutExpr& member : form.types().layout(form.type(operands.object).layout).physical(static_cast<int>(dims.size()))) {
        auto pieces = separate(member, bits);
        if (!pieces) return std::nullopt;
        out.push_back(std::move(*pieces));
    }
    return out;
}

std::optional<PackedView> packed_view(const ir::Function& form, const ir::Inst& load, const TileLayout& l) {
    if (load.op != ir::Op::load || l.shape.rank == 0 || l.has_ghosts()) return std::nullopt;
    const ir::AccessOperands operands(form, load);
    const ir::ValueId tensor = operands.object;
    const size_t param = param_of(form, tensor);
    PackedView view;
    view.bits = form.elem(tensor).bits;
    if (view.bits > 8 || param >= form.gpu->tensors.size() || operands.mask) return std::nullopt;
    if (operands.other) {
        const ir::Inst* other = form.def(operands.other.value);
        if (!other || other->op != ir::Op::constant) return std::nullopt;
        view.outside = static_cast<uint64_t>(form.attrs(*other)[0]) & low_bits(view.bits);
    }
    const GpuTensor& fact = form.gpu->tensors[param];
    const Layout::Kind kind = form.types().layout(form.type(tensor).layout).kind();
    const bool declared = kind != Layout::Kind::row && kind != Layout::Kind::col;
    if (fact.strided || fact.grain < 4 || (view.bits == 8 && !declared)) return std::nullopt;
    const auto members = access_pieces(form, load, l);
    if (!members || members->empty()) return std::nullopt;
    const LayoutPieces& inner = members->back();
    if (!inner.disjoint()) return std::nullopt;
    // The widest access that the start of every thread's part allows, but for what is shifted away: nothing at best, then less than a word.
    const auto period_of = [&](int grain) { return std::lcm<int64_t>(view.bits, 8 * grain) / view.bits; };
    const auto cost = [](int64_t shift) { return (shift + 31) / 32; };
    for (int grain = fact.grain; grain >= 4; grain /= 2) {
        const int64_t period = period_of(grain);
        if (!std::has_single_bit(static_cast<uint64_t>(period)) ||
            lowest(inner.bits[LayoutPieces::uniform]) < std::countr_zero(static_cast<uint64_t>(period)))
            continue;
        const int64_t shift = static_cast<int64_t>(inner.bits[LayoutPieces::thread] & static_cast<uint64_t>(period - 1)) * view.bits;
        if (shift >= kMostShift || (view.grain && cost(shift) >= cost(view.most_shift))) continue;
        view.grain = grain;
        view.period = period;
        view.most_shift = shift;
    }
    if (!view.grain) return std::nullopt;
    const auto moves = inner.bits[LayoutPieces::thread] & static_cast<uint64_t>(view.period - 1);
    for (uint64_t m = moves;; m = (m - 1) & moves) {  // all that have no other bits
        view.moved.insert(view.moved.begin(), static_cast<int>(m) * static_cast<int>(view.bits));
        if (m == 0) break;
    }
    // Runs: registers by what they add to the outer members.
    const std::vector<int> dims = part_dimensions(operands.access);
    const int registers = l.registers();
    std::map<std::vector<int64_t>, std::vector<std::pair<int64_t, int>>> runs;
    for (int r = 0; r < registers; ++r) {
        std::vector<int64_t> key;
        for (size_t m = 0; m + 1 < members->size(); ++m) key.push_back(piece_value((*members)[m], LayoutPieces::register_, dims, l.point(r, 0, 0)));
        const int64_t at = piece_value(inner, LayoutPieces::register_, dims, l.point(r, 0, 0));
        if (at < 0) return std::nullopt;
        runs[key].emplace_back(at * view.bits, r);
    }
    view.bit.resize(static_cast<size_t>(registers));
    const int64_t unit = 8 * int64_t{view.grain};
    for (auto& [key, elements] : runs) {
        std::map<int64_t, size_t> number;  // of an access in the run, and among all
        for (const auto& [at, r] : elements)
            for (int64_t u = at / unit; u <= (at + view.bits - 1 + view.most_shift) / unit; ++u) number[u] = 0;
        for (auto& [u, n] : number) {
            n = view.loads.size();
            view.loads.push_back({elements[0].second, u * view.grain});
        }
        for (const auto& [at, r] : elements)
            view.bit[static_cast<size_t>(r)] = static_cast<int>(static_cast<int64_t>(number[at / unit]) * unit + at % unit);
        if (view.words() > kMostWords) return std::nullopt;
    }
    if (int64_t{view.words()} * 32 > kMostOverhead * registers * view.bits) return std::nullopt;
    return view;
}

std::optional<PackedView> words_of(const ir::Function& form, ir::ValueId tile) {
    if (form.placement(tile).kind != Placement::registers) return std::nullopt;
    const ir::Inst* def = form.def(tile);
    if (def && def->op == ir::Op::load) return packed_view(form, *def, form.placement(tile).regs);
    const ir::InstId owner = def || !form.value(tile).block.valid() ? ir::InstId{} : form.block(form.value(tile).block).owner;
    if (!owner.valid() || form.inst(owner).op != ir::Op::for_loop || form.value(tile).index == 0) return std::nullopt;
    return words_of(form, form.operands(form.inst(owner))[form.value(tile).index + 2]);
}

namespace {

using Places = std::vector<std::array<int, 4>>;  ///< of the codes of a pair (two of them) or of four bytes

constexpr double kLookUpGain = 1.25;  ///< from which on a table in shared memory is worth its room and the time to fill it

std::optional<DecodePlan> plan_of(const Format& from, Fmt to, int words, const Places& places, std::span<const int> moved, bool look_up) {
    if (codes_per_word(to) == 4) return plan_bytes(from, to, words, places, moved);
    std::vector<std::array<int, 2>> pairs;
    for (const auto& p : places) pairs.push_back({p[0], p[1]});
    auto plan = plan_decoding(from, to, words, pairs, moved);
    auto other = look_up ? plan_look_ups(from, to, words, pairs, moved) : std::nullopt;
    const auto cost = [](const DecodePlan& p) { return p.logic() + p.arithmetic(); };
    return other && (!plan || kLookUpGain * cost(*other) < cost(*plan)) ? other : plan;
}

/// Neighbouring groups put together: tables look up codes of several words at once, and shifted words serve their neighbours.
std::map<int, std::vector<int>> joined(std::map<int, std::vector<int>> groups, size_t most) {
    std::map<int, std::vector<int>> out;
    for (auto& [first, group] : groups) {
        if (!out.empty() && out.rbegin()->second.size() + group.size() <= most / 2)
            out.rbegin()->second.insert(out.rbegin()->second.end(), group.begin(), group.end());
        else
            out.emplace(first, std::move(group));
    }
    return out;
}

/// Calls whose plans take words as they are loaded, for threads whose codes lie further, or in place (`moved` is empty then).
std::vector<DecodeCall> calls_of(const PackedView& view, const Format& from, Fmt to, std::span<const int> moved, bool look_up) {
    constexpr size_t kMostPairs = 16;  // of a call, whose operands an asm statement holds
    const int most = moved.empty() ? 0 : moved.back(), per = codes_per_word(to);
    // Pairs that share words belong together.
    std::vector<int> group(static_cast<size_t>(view.words()));
    std::iota(group.begin(), group.end(), 0);
    const auto find = [&](int w) {
        while (group[static_cast<size_t>(w)] != w) w = group[static_cast<size_t>(w)];
        return w;
    };
    const auto words_of = [&](int pair) {
        std::set<int> out;
        for (int i = 0; i < per; ++i) {
            const int at = view.bit[static_cast<size_t>(per * pair + i)], last = at + static_cast<int>(view.bits) - 1 + most;
            for (int w = at / 32; w <= last / 32; ++w) out.insert(w);
        }
        return out;
    };
    const int count = static_cast<int>(view.bit.size()) / per;
    for (int p = 0; p < count; ++p) {
        const std::set<int> words = words_of(p);
        for (const int w : words) group[static_cast<size_t>(find(w))] = find(*words.begin());
    }
    std::map<int, std::vector<int>> pairs;
    for (int p = 0; p < count; ++p) pairs[find(*words_of(p).begin())].push_back(p);
    if (!moved.empty() || (!from.is_int() && from.kind != FormatKind::fixed)) pairs = joined(std::move(pairs), kMostPairs);
    std::map<std::pair<int, Places>, std::shared_ptr<const DecodePlan>> plans;
    std::vector<DecodeCall> out;
    for (const auto& [first, all] : pairs)
        for (size_t begin = 0; begin < all.size(); begin += kMostPairs) {
            DecodeCall call;
            call.pairs.assign(all.begin() + static_cast<std::ptrdiff_t>(begin),
                              all.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kMostPairs, all.size())));
            std::set<int> words;
            for (const int p : call.pairs) words.merge(words_of(p));
            call.words.assign(words.begin(), words.end());
            Places places;
            const auto place = [&](int at) {
                const auto word = std::find(call.words.begin(), call.words.end(), at / 32) - call.words.begin();
                return static_cast<int>(word) * 32 + at % 32;
            };
            for (const int p : call.pairs) {
                places.push_back({});
                for (int i = 0; i < per; ++i) places.back()[static_cast<size_t>(i)] = place(view.bit[static_cast<size_t>(per * p + i)]);
            }
            const auto [plan, added] = plans.try_emplace({static_cast<int>(words.size()), places});
            if (added) {
                auto made = plan_of(from, to, static_cast<int>(words.size()), places, moved, look_up);
                if (!made) return {};
                plan->second = std::make_shared<const DecodePlan>(std::move(*made));
            }
            call.plan = plan->second;
            out.push_back(std::move(call));
        }
    return out;
}

}  // namespace

namespace {
/// That move the words of a view into place.
int64_t word_shifts(const PackedView& view) { return view.words() * ((view.most_shift + 31) / 32); }
}  // namespace

std::vector<explain::Operations> Decoding::operations(const PackedView& view) const {
    std::vector<explain::Operations> out;
    const auto put = [&](const explain::Operations& o) {
        const auto known = std::find_if(out.begin(), out.end(), [&](const auto& x) { return x.name == o.name; });
        if (known == out.end())
            out.push_back(o);
        else
            known->count += o.count;
    };
    if (shifts) put({"shifts", "alu", word_shifts(view)});
    for (const DecodeCall& call : calls)
        for (const explain::Operations& o : call.plan->operations()) put(o);
    return out;
}

int64_t Decoding::logic(const PackedView& view) const {
    int64_t out = shifts ? word_shifts(view) : 0;
    for (const DecodeCall& call : calls) out += call.plan->logic();
    return out;
}

int64_t Decoding::arithmetic() const {
    int64_t out = 0;
    for (const DecodeCall& call : calls) out += call.plan->arithmetic();
    return out;
}

Decoding decode_view(const PackedView& view, const Format& from, Fmt to, bool loaded, bool pairs) {
    Decoding placed{false, calls_of(view, from, to, {}, pairs)};
    if (!loaded || view.most_shift == 0 || placed.calls.empty()) return placed;
    placed.shifts = true;
    Decoding moved{false, calls_of(view, from, to, view.moved, pairs)};
    const auto cost = [&](const Decoding& d) { return d.logic(view) + d.arithmetic(); };
    return moved.calls.empty() || cost(placed) < cost(moved) ? placed : moved;
}

bool PairTable::is_of(const ir::Function& form, const ir::Inst& cast) const {
    return form.type(form.operands(cast)[0]).elem == from && form.type(form.result(cast)).elem == to;
}

std::optional<PairTable> pair_table(const ir::Function& form) {
    constexpr int64_t kBeside = 4 << 10;  // barriers and what else the emitter adds
    if (!form.gpu || form.gpu->shared_bytes + kPairTableBytes + kBeside > form.gpu->arch->shared_bytes) return std::nullopt;
    for (uint32_t b = 0; b < form.block_count(); ++b)
        for (const ir::InstId id : form.block(ir::BlockId{b}).insts) {
            const ir::Inst& cast = form.inst(id);
            if (cast.op != ir::Op::cast || form.type(form.result(cast)).shape.rank == 0) continue;
            const ir::ValueId from = form.operands(cast)[0];
            const std::optional<Fmt> to = decode_target(form.type(form.result(cast)).elem);
            if (to && has_pair_table(form.elem(from), *to) && words_of(form, from)) return PairTable{form.type(from).elem, *to};
        }
    return std::nullopt;
}

}  // namespace tegula
