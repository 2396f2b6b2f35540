// Tiles of narrow codes that are loaded by whole words (lang/packed_view.h). Where every use takes codes one by one or
// casts them, the words are all that there is of the tile: `unsigned v12[words]`, also around loops; else its elements
// are taken out behind the load. Casts to 16-bit floats decode words by the operations that lang/decode.h finds.
#include <algorithm>
#include <numeric>
#include <set>

#include "lang/decode_bytes.h"
#include "lang/gpu/wide_access.h"
#include "lang/type.h"
#include "lower/kernel/access/access.h"
#include "lower/kernel/access/part.h"
#include "lower/kernel/control/control.h"
#include "lower/kernel/elementwise/elementwise.h"
#include "lower/kernel/move/move.h"
#include "lower/kernel/packed/packed.h"
#include "lower/kernel/product/product.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

using ir::Op;

namespace {

constexpr int kConvertsFp8 = 89;  ///< architecture from which on there are conversions of two f8e4m3
/// Architecture from which on a load says how much of a line the second cache is to fetch.
constexpr int kPrefetchingLoads = 80;

// The bits of an element among words; constant places fold.
constexpr const char* kField = R"(template <int width>
__device__ __forceinline__ unsigned $(const unsigned* words, int at) {
    const int shift = at & 31;
    const unsigned low = words[at >> 5] >> shift;
    return (shift + width > 32 ? low | words[(at >> 5) + 1] << (32 - shift & 31) : low) & ((1u << width) - 1);
}
)";

std::string hex(uint32_t v) {
    constexpr const char* kDigits = "0123456789abcdef";
    std::string out = "0x";
    for (int shift = 28; shift >= 0; shift -= 4) out += kDigits[v >> shift & 15];
    return out;
}

/// Word w of an array of them.
Ex word(Lowering& ctx, const std::string& array, int w) { return element(ctx, array, ctx.pool.number(w)); }

/// What PTX calls a step's value, its operands and the number of the thread that it takes.
struct StepNames {
    std::string to, a, b, c, thread_number;
};

/// PTX of a step; `arch` decides how sums of bf16 are spelt.
std::string ptx_text(const DecodeStep& s, Fmt target, int arch, const StepNames& names,
                     const std::function<std::string(uint32_t)>& constant) {
    const auto& [to, a, b, c, thread_number] = names;
    const std::string head = " " + to + ", " + a + ", ", x = hex(s.x);
    // Only sums of products are there: a * 1 + x and a * x - 0 round as the operations do.
    const bool fused = target == Fmt::bf16 && arch < 90;
    const std::string type = target == Fmt::f16 ? "f16x2" : "bf16x2";
    switch (s.op) {
        case DecodeStep::shift_left:
            return "shl.b32" + head + number(s.x) + ";";
        case DecodeStep::shift_right:
            return "shr.u32" + head + number(s.x) + ";";
        case DecodeStep::funnel:
            return "shf.r.wrap.b32" + head + b + ", " + number(s.x) + ";";
        case DecodeStep::pick:
            return "prmt.b32" + head + b + ", " + x + ";";
        case DecodeStep::funnel_by:
            return "shf.r.wrap.b32" + head + b + ", " + thread_number + ";";
        case DecodeStep::pick_by:
            return "prmt.b32" + head + b + ", " + thread_number + ";";
        case DecodeStep::and_xor:
            return "lop3.b32" + head + x + ", " + hex(s.y) + ", 0x6a;";
        case DecodeStep::and_or:
            return "lop3.b32" + head + x + ", " + b + ", 0xea;";
        case DecodeStep::select:
            return "lop3.b32" + head + b + ", " + x + ", 0xe4;";
        case DecodeStep::table: {
            const std::string upper = constant(s.y);
            return "prmt.b32 " + to + ", " + constant(s.x) + ", " + upper + ", " + a + ";";
        }
        case DecodeStep::choose:
            return "prmt.b32" + head + b + ", " + c + ";";
        case DecodeStep::look_up:
            return "mad.lo.u32" + head + number(4 * kPairCopies) + ", " + thread_number + "; ld.shared.u32 " + to +
                   ", [" + to + "];";
        case DecodeStep::halves:
            return "cvt.u16.u32 l, " + a + "; cvt.rn.f16x2.e4m3x2 " + to + ", l;";
        case DecodeStep::brains:
            return "shr.u32 " + to + ", " + a + ", 16; cvt.u16.u32 l, " + a + "; cvt.u16.u32 h, " + to +
                   "; cvt.f32.f16 x, l; cvt.f32.f16 y, h; cvt.rn.bf16x2.f32 " + to + ", y, x;";
        case DecodeStep::add: {
            const std::string added = constant(s.x);
            return fused ? "fma.rn.bf16x2" + head + constant(0x3f803f80) + ", " + added + ";"
                         : "add.rn." + type + head + added + ";";
        }
        case DecodeStep::mul: {
            const std::string minus_zero = fused ? constant(0x80008000) : "", factor = constant(s.x);
            return fused ? "fma.rn.bf16x2" + head + factor + ", " + minus_zero + ";"
                         : "mul.rn." + type + head + factor + ";";
        }
    }
    return {};
}

}  // namespace

/// Which loads are made of words, and which tiles are nothing else: what loops carry, too.
void find_words(Lowering& ctx) {
    ctx.packed.pair_table = pair_table(ctx.fn);
    ctx.fn.walk([&](ir::InstId id) {
        const ir::Inst& inst = ctx.fn.inst(id);
        if (inst.op != Op::load || !in_registers(ctx, ctx.fn.result(inst))) return;
        if (auto view = packed_view(ctx.fn, inst, layout(ctx, ctx.fn.result(inst))))
            ctx.packed.words.emplace(ctx.fn.result(inst).v, Words{std::move(*view), true});
    });
    // What a loop carries is made of words where its first value and every next one are, in the same places.
    for (uint32_t b = 0; b < ctx.fn.block_count(); ++b)
        for (const ir::InstId id : ctx.fn.block(ir::BlockId{b}).insts) {
            const ir::Inst& loop = ctx.fn.inst(id);
            if (loop.op != Op::for_loop || (ctx.split.sum && is_split_loop(ctx.fn, loop))) continue;
            const ir::Block& body = ctx.fn.block(ctx.fn.blocks(loop)[0]);
            const auto next = ctx.fn.operands(ctx.fn.inst(body.insts.back()));
            for (uint32_t r = 0; r < loop.results.count; ++r) {
                const auto first = ctx.packed.words.find(ctx.fn.operands(loop)[r + 3].v),
                           last = ctx.packed.words.find(next[r].v);
                if (first == ctx.packed.words.end() || last == ctx.packed.words.end() ||
                    !(first->second.view == last->second.view))
                    continue;
                const Words words = first->second;
                ctx.packed.words.emplace(body.args[r + 1].v, words);
                ctx.packed.words.emplace(ctx.fn.result(loop, r).v, words);
            }
        }
    // A tile that something wants as a whole has an array of elements; what is carried has none.
    const auto takes_elements = [&](ir::InstId user, uint32_t value) {
        const ir::Inst& inst = ctx.fn.inst(user);
        if (inst.op == Op::cast || inst.op == Op::select || ir::has_trait(inst.op, ir::ELEMWISE)) return true;
        const auto operands = ctx.fn.operands(inst);
        const ir::Inst* loop = inst.op == Op::yield ? &ctx.fn.inst(ctx.fn.block(inst.parent).owner) : &inst;
        if (loop->op != Op::for_loop) return false;
        const size_t skipped = inst.op == Op::yield ? 0 : 3;
        for (size_t i = skipped; i < operands.size(); ++i)
            if (operands[i].v == value &&
                !ctx.packed.words.count(ctx.fn.result(*loop, static_cast<uint32_t>(i - skipped)).v))
                return false;
        return true;
    };
    for (bool changed = true; changed;) {
        changed = false;
        for (auto it = ctx.packed.words.begin(); it != ctx.packed.words.end();) {
            const ir::Inst* def = ctx.fn.def(ir::ValueId{it->first});
            const bool carried = !def || def->op == Op::for_loop;
            if (!carried || it->second.only) {
                ++it;
                continue;
            }
            it = ctx.packed.words.erase(it);
            changed = true;
        }
        for (auto& [value, words] : ctx.packed.words) {
            const auto taken = [&, v = value](const ir::Use& use) { return takes_elements(use.inst, v); };
            const bool still = words.only && std::ranges::all_of(ctx.values.uses.of(ir::ValueId{value}), taken);
            changed = changed || still != words.only;
            words.only = still;
        }
        // Both ends of a carried tile go together: an argument without words leaves none to its result.
        for (uint32_t b = 0; b < ctx.fn.block_count(); ++b)
            for (const ir::InstId id : ctx.fn.block(ir::BlockId{b}).insts) {
                const ir::Inst& loop = ctx.fn.inst(id);
                if (loop.op != Op::for_loop) continue;
                for (uint32_t r = 0; r < loop.results.count; ++r) {
                    const uint32_t argument = ctx.fn.block(ctx.fn.blocks(loop)[0]).args[r + 1].v,
                                   result = ctx.fn.result(loop, r).v;
                    if (ctx.packed.words.count(argument) == ctx.packed.words.count(result)) continue;
                    ctx.packed.words.erase(argument);
                    ctx.packed.words.erase(result);
                    changed = true;
                }
            }
    }
    find_unshifted(ctx);
    for (const auto& [value, words] : ctx.packed.words) ctx.plan.decide(KernelPass::words, ir::ValueId{value});
    ctx.fn.walk([&](ir::InstId id) { can_decode(ctx, ctx.fn.inst(id)); });  // which tells whether there is a table
    place_pair_table(ctx);
}

/// Words that are only decoded stay as they are loaded: shifting them into place behind the load would wait for it.
void find_unshifted(Lowering& ctx) {
    for (auto& [value, words] : ctx.packed.words) words.loaded = words.only && words.view.most_shift > 0;
    const auto stays = [&](uint32_t v) {
        const auto it = ctx.packed.words.find(v);
        return it != ctx.packed.words.end() && it->second.loaded;
    };
    bool changed = true;
    const auto place = [&](uint32_t v) {
        if (stays(v)) ctx.packed.words.at(v).loaded = false, changed = true;
    };
    while (changed) {
        changed = false;
        for (const auto& [value, words] : ctx.packed.words)
            for (const ir::Use& use : ctx.values.uses.of(ir::ValueId{value})) {
                const Op op = ctx.fn.inst(use.inst).op;
                if (words.loaded && op != Op::for_loop && op != Op::yield && !can_decode(ctx, ctx.fn.inst(use.inst)))
                    place(value);
            }
        // What a loop carries is one thing before, in and behind it.
        for (uint32_t b = 0; b < ctx.fn.block_count(); ++b)
            for (const ir::InstId id : ctx.fn.block(ir::BlockId{b}).insts) {
                const ir::Inst& loop = ctx.fn.inst(id);
                if (loop.op != Op::for_loop) continue;
                const ir::Block& body = ctx.fn.block(ctx.fn.blocks(loop)[0]);
                const auto next = ctx.fn.operands(ctx.fn.inst(body.insts.back()));
                for (uint32_t r = 0; r < loop.results.count; ++r) {
                    const uint32_t all[] = {ctx.fn.operands(loop)[r + 3].v, next[r].v, body.args[r + 1].v,
                                            ctx.fn.result(loop, r).v};
                    if (ctx.packed.words.count(all[2]) && !std::all_of(std::begin(all), std::end(all), stays))
                        for (const uint32_t v : all) place(v);
                }
            }
        if (changed) ctx.packed.decodings.clear(), ctx.packed.looks_up = false;
    }
}

/// How many bits further than its view says the codes of this thread lie in a tile that stays as it was loaded.
Ex moved_bits(Lowering& ctx, ir::ValueId v) {
    const ir::Inst* def = ctx.fn.def(v);
    if (def && def->op == Op::load) return ctx.packed.words.at(v.v).moved;
    const ir::InstId loop = def ? ctx.fn.value(v).def : ctx.fn.block(ctx.fn.value(v).block).owner;
    return moved_bits(ctx, ctx.fn.operands(ctx.fn.inst(loop))[ctx.fn.value(v).index + (def ? 3 : 2)]);
}

bool is_words(const Lowering& ctx, ir::ValueId v) {
    const auto it = ctx.packed.words.find(v.v);
    return it != ctx.packed.words.end() && it->second.only;
}

std::string words_name(Lowering& ctx, ir::ValueId v) {
    return is_words(ctx, v) ? name(ctx, v) : name(ctx, v) + "_words";
}

/// Register r of a tile that is made of words.
std::string field(Lowering& ctx, ir::ValueId v, Ex r) {
    const Format& f = ctx.fn.elem(v);
    const PackedView& view = ctx.packed.words.at(v.v).view;
    const std::string function = support(ctx, "field", "field", kField);
    return ctx.formats.from_bits(
        f, function + "<" + number(f.bits) + ">(" + words_name(ctx, v) + ", " + rename(ctx, view.bit, r).text() + ")");
}

/// The pitch by member of the storage order: bits or, of whole bytes, bytes to the next.
std::vector<Ex> member_pitches(Lowering& ctx, ir::ValueId tensor, size_t members) {
    const bool col = ctx.fn.types().layout(ctx.fn.type(tensor).layout).kind() == Layout::Kind::col;
    std::vector<Ex> out;
    for (size_t m = 0; m < members; ++m)
        out.push_back(affine(ctx, tensor) ? stride(ctx, tensor, static_cast<int>(col ? members - 1 - m : m))
                                          : pitch(ctx, tensor, static_cast<int>(m), m + 1 == members));
    return out;
}

/// The thread's part of the innermost member as far as it is whole periods; what is beyond is the thread's `shift`, in
/// bits.
Ex whole_periods(const PackedView& view, Ex thread, Ex& shift) {
    if (!view.most_shift) return thread;
    shift = i32(thread & (view.period - 1)) * view.bits;
    return thread & -view.period;
}

std::string storage_bytes(Lowering& ctx, ir::ValueId tensor) {
    const int p = param_number(ctx, tensor);
    return parameter(ctx, KernelParam::bytes, p, 0, "const unsigned long long",
                     ctx.fn.params[static_cast<size_t>(p)].name + "_bytes");
}

bool load_words(Lowering& ctx, ir::InstId id) {
    const ir::ValueId v = ctx.fn.result(id);
    const auto found = ctx.packed.words.find(v.v);
    if (found == ctx.packed.words.end()) return false;
    if (start_ring(ctx, id)) return true;
    const PackedView& view = found->second.view;
    const bool loaded = found->second.loaded;
    const std::string array = words_name(ctx, v);
    ctx.out.declare("unsigned", array, view.words());
    ctx.out.open_block();
    Part part = part_access(ctx, id);
    part.whole = both(part.fixed, part.whole);
    for (size_t a = 0; a < part.axes.size(); ++a) part.whole = both(part.whole, is_whole(ctx, part, a));
    const std::vector<LayoutPieces> members = *access_pieces(ctx.fn, ctx.fn.inst(id), layout(ctx, v));
    const std::vector<Ex> indices = piece_indices(ctx, part, ctx.thread),
                          pitches = member_pitches(ctx, part.tensor, members.size());
    Ex sum = ctx.pool.constant(kernel::Type::u64, 0), shift;
    for (size_t m = 0; m < members.size(); ++m)
        for (const auto k : {LayoutPieces::uniform, LayoutPieces::thread}) {
            if (members[m].part[k].is_constant(0)) continue;
            Ex term = layout_value(ctx, members[m].part[k], part.tensor, indices);
            if (m + 1 == members.size() && k == LayoutPieces::thread) term = whole_periods(view, term, shift);
            sum = sum + u64(term) * pitches[m];
        }
    const int to_bytes = is_bit_addressed(ctx.fn.elem(part.tensor))
                             ? 3
                             : 0;  // by which bits are shifted down; trips move a load by whole words
    const Ex grows = piece_growth(ctx, id, members, pitches);
    const Ex base = declare_base(ctx, id, sum >> to_bytes, grows ? grows >> to_bytes : grows);
    std::map<int, Ex> runs;  // by register
    for (const PackedView::Load& load : view.loads) {
        Ex& run = runs[load.reg];
        if (run) continue;
        Ex at = base;
        const std::vector<Ex> of_register = piece_indices(ctx, part, ctx.thread, ctx.pool.number(load.reg));
        for (size_t m = 0; m + 1 < members.size(); ++m)
            at = at + (u64(layout_value(ctx, members[m].part[LayoutPieces::register_], part.tensor, of_register)) *
                           pitches[m] >>
                       to_bytes);
        run = ctx.out.constant("run", at);
    }
    found->second.moved = shift;
    const auto offset = [&](const PackedView::Load& load) { return runs.at(load.reg) + load.offset; };
    // Only loads are there with and without bounds: two versions of anything take compilers twice the time.
    if (part.whole.is_true()) {
        load_all_words(ctx, part, view, array, offset, false);
    } else {
        ctx.out.open_if(part.whole);
        load_all_words(ctx, part, view, array, offset, false);
        ctx.out.otherwise();
        load_all_words(ctx, part, view, array, offset, true);
        ctx.out.close();
    }
    if (!loaded && view.most_shift) shift_words(ctx, view, array, array, shift);
    if (!part.whole.is_true()) {
        ctx.out.open_if(negation(part.whole));
        for (size_t a = 0; a < part.axes.size(); ++a) part_bounds(ctx, part, a);
        clear_outside(ctx, part, view, array, loaded ? shift : Ex());
        ctx.out.close();
    }
    ctx.out.close();
    if (found->second.only) return true;
    declare(ctx, v);
    each_register(ctx, v, [&](Ex r) { ctx.out.assign(element(ctx, name(ctx, v), r), raw(ctx, field(ctx, v, r))); });
    return true;
}

/// `guarded`: words of places where the tensor has none are zero.
void load_all_words(Lowering& ctx, const Part& part, const PackedView& view, const std::string& array,
                    const std::function<Ex(const PackedView::Load&)>& offset, bool guarded) {
    const std::string type = wide_type(static_cast<size_t>(view.grain));
    const std::string zeros = view.grain == 16 ? "uint4{0, 0, 0, 0}" : view.grain == 8 ? "uint2{0, 0}" : "0u";
    CachingText caching = part.caching;
    // Weights are read once: the second cache fetches the rest of a line at once, the first one keeps none of them but
    // what threads share.
    if (caching.stem.empty() && view.grain == 16 && ctx.fn.gpu->arch->number >= kPrefetchingLoads) {
        caching.suffix = view.most_shift ? ".L2::256B" : ".L1::no_allocate.L2::256B";
        caching.stem = view.most_shift ? "_ahead" : "_stream";
    }
    for (size_t k = 0; k < view.loads.size(); ++k) {
        const int first = static_cast<int>(k) * view.grain / 4;
        const Ex at = offset(view.loads[k]);
        std::string guard;
        if (guarded) {
            const Ex bytes = ctx.pool.name(kernel::Type::u64, storage_bytes(ctx, part.tensor));
            guard = ", " + both(part.fixed, lt(at, bytes)).text() + ", " + zeros;
        }
        const std::string base = name(ctx, part.tensor);
        const Ex value = raw(ctx, access_function(ctx, type, true, guarded, caching) + "((const unsigned char*)" +
                                      base + " + (" + at.text() + ")" + guard + ")");
        if (view.grain == 4) {
            ctx.out.assign(word(ctx, array, first), value);
            continue;
        }
        const Ex loaded = constant(ctx, type, "word", value);
        for (int i = 0; i < view.grain / 4; ++i)
            ctx.out.assign(word(ctx, array, first + i), raw(ctx, loaded.text() + "." + "xyzw"[i]));
    }
}

/// Clears the codes whose coordinates are outside of the tensor, by a mask for each word, which goes to where the codes
/// lie.
void clear_outside(Lowering& ctx, const Part& part, const PackedView& view, const std::string& array, Ex moved) {
    std::vector<std::string> masks(static_cast<size_t>(view.words()));
    const auto add = [&](size_t w, const std::string& mask) { masks[w] += (masks[w].empty() ? "" : " & ") + mask; };
    if (view.outside && !part.fixed.is_true()) {
        const Ex fixed = constant(ctx, "unsigned", "inside", raw(ctx, part.fixed + " ? 0xffffffffu : 0u"));
        for (size_t w = 0; w < masks.size(); ++w) add(w, fixed.text());
    }
    const std::string by = moved ? constant(ctx, "int", "shift", moved).text() : std::string();
    for (size_t a = 0; a < part.axes.size(); ++a) {
        if (part.access.axes[a].kind == ir::Access::index || !part.axes[a].size) continue;
        std::set<std::string> solid;
        std::vector<std::string> of_word = inside_masks(ctx, part, view, a, solid);
        if (!by.empty()) move_masks(ctx, view, of_word, solid, by);
        for (size_t w = 0; w < masks.size(); ++w) add(w, of_word[w]);
    }
    for (size_t w = 0; w < masks.size(); ++w)
        if (!masks[w].empty())
            keep_inside(ctx, view, array, static_cast<int>(w),
                        masks[w].find('&') == std::string::npos ? masks[w] : "(" + masks[w] + ")");
}

/// By word: the bits of codes whose coordinate along an axis is inside. `solid` are the masks of all bits or none:
/// where a word has one coordinate only.
std::vector<std::string> inside_masks(Lowering& ctx, const Part& part, const PackedView& view, size_t number_of_axis,
                                      std::set<std::string>& solid) {
    const Part::Axis& axis = part.axes[number_of_axis];
    const TileLayout& l = layout(ctx, part.value);
    std::map<std::vector<std::pair<int64_t, uint32_t>>, std::string>
        masks;  // by what decides them: coordinate and bits
    std::vector<std::string> out;
    for (int w = 0; w < view.words(); ++w) {
        std::map<int64_t, uint32_t> bits;
        for (size_t r = 0; r < view.bit.size(); ++r) {
            const int64_t from = view.bit[r] - int64_t{32} * w, to = from + view.bits;
            if (to <= 0 || from >= 32) continue;
            const uint64_t field = low_bits(view.bits), in = from >= 0 ? field << from : field >> -from;
            bits[l.point(static_cast<int>(r), 0, 0)[static_cast<size_t>(axis.dim)]] |= static_cast<uint32_t>(in);
        }
        // A word without codes is behind all of them, and only what moves up from the word before it matters.
        if (bits.empty() && w > 0) {
            out.push_back(out.back());
            continue;
        }
        if (bits.size() == 1) bits.begin()->second = ~uint32_t{0};
        const std::vector<std::pair<int64_t, uint32_t>> key(bits.begin(), bits.end());
        std::string& mask = masks[key];
        if (mask.empty()) {
            std::string text;
            for (const auto& [coordinate, ones] : key) {
                const Ex c = thread_part(ctx, l, axis.dim) + coordinate;
                const Ex inside =
                    axis.count ? lt(u32(c - axis.low), u32(axis.count)) : within(axis.start + c, axis.size);
                text += (text.empty() ? "" : " | ") + ("(" + inside.text() + " ? " + hex(ones) + "u : 0u)");
            }
            mask = constant(ctx, "unsigned", "inside", raw(ctx, text.empty() ? "0u" : text)).text();
            if (key.size() == 1) solid.insert(mask);
        }
        out.push_back(mask);
    }
    return out;
}

/// Moves masks up by the bits that the thread's codes lie further up. What a run's first word has below its codes does
/// not matter.
void move_masks(Lowering& ctx, const PackedView& view, std::vector<std::string>& masks,
                const std::set<std::string>& solid, const std::string& by) {
    const auto per = static_cast<size_t>(view.grain / 4);
    const auto move = [&](bool rotates, const auto& text) {
        std::map<std::pair<std::string, std::string>, std::string> made;
        std::vector<std::string> out;
        for (size_t w = 0; w < masks.size(); ++w) {
            const bool first = w == 0 || view.loads[w / per].reg != view.loads[(w - 1) / per].reg;
            const std::string &below = masks[first ? w : w - 1], &own = masks[w];
            if (below == own && (!rotates || solid.count(own))) {
                out.push_back(own);
                continue;
            }
            std::string& mask = made[{below, own}];
            if (mask.empty()) mask = constant(ctx, "unsigned", "inside", raw(ctx, text(below, own))).text();
            out.push_back(mask);
        }
        masks = std::move(out);
    };
    if (view.most_shift >= 32)
        move(false,
             [&](const std::string& below, const std::string& own) { return by + " >= 32 ? " + below + " : " + own; });
    move(true, [&](const std::string& below, const std::string& own) {
        return funnel(ctx) + "_up(" + below + ", " + own + ", " + by + " & 31)";
    });
}

/// Bits of a word where the mask has none become those of the code of what is outside.
void keep_inside(Lowering& ctx, const PackedView& view, const std::string& array, int w, const std::string& mask) {
    const Ex place = word(ctx, array, w);
    if (view.outside == 0) return ctx.out.assign(place, raw(ctx, mask), kernel::AssignOp::bit_and);
    const int per = view.grain / 4;
    const int64_t first = 8 * view.loads[static_cast<size_t>(w / per)].offset + 32 * (w % per);
    uint32_t code = 0;
    for (int bit = 0; bit < 32; ++bit)
        code |= static_cast<uint32_t>(view.outside >> (first + bit) % static_cast<int64_t>(view.bits) & 1) << bit;
    ctx.out.assign(place, raw(ctx, "(" + place + " & " + mask + ") | (" + hex(code) + "u & ~" + mask + ")"));
}

/// Every word down by the thread's number of bits, which come from the word behind it.
void shift_words(Lowering& ctx, const PackedView& view, const std::string& from, const std::string& to, Ex shift) {
    const Ex by = constant(ctx, "int", "shift", shift), none = ctx.pool.constant(kernel::Type::u32, 0);
    const int words = view.words();
    const auto at = [&](const std::string& array, int w) { return w < words ? word(ctx, array, w) : none; };
    const bool whole = view.most_shift >= 32;
    if (whole)
        for (int w = 0; w < words; ++w)
            ctx.out.assign(at(to, w), ctx.pool.select(ge(by, 32), at(from, w + 1), at(from, w)));
    const std::string& source = whole ? to : from;
    const std::string down = funnel(ctx) + "_down";
    for (int w = 0; w < words; ++w)
        ctx.out.assign(at(to, w), ctx.pool.call(kernel::Type::u32, down,
                                                {at(source, w), at(source, w + 1), whole ? by & 31 : by}));
}

// ---- decoding ----

bool can_decode(Lowering& ctx, const ir::Inst& cast) {
    if (cast.op != Op::cast || is_scalar(ctx, ctx.fn.result(cast)) || !in_registers(ctx, ctx.fn.result(cast)))
        return false;
    const ir::ValueId from = ctx.fn.operands(cast)[0], to = ctx.fn.result(cast);
    const std::optional<Fmt> target = decode_target(ctx.fn.type(to).elem);
    if (!target || !ctx.packed.words.count(from.v) || registers(ctx, to) % codes_per_word(*target) ||
        !has_decoding(ctx.fn.elem(from), *target))
        return false;
    if (ctx.fn.gpu->arch->number < (is_fp8(ctx.fn.elem(from)) ? kConvertsFp8 : *target == Fmt::bf16 ? 80 : 0))
        return false;
    const auto round = static_cast<Round>(ctx.fn.attrs(cast)[0]);
    const auto overflow = static_cast<Overflow>(ctx.fn.attrs(cast)[1]);
    const bool plain = round == Round::rne && (overflow == Overflow::automatic || overflow == Overflow::ieee);
    return (plain || decodes_exactly(ctx.fn.elem(from), *target)) && !decoding(ctx, cast).calls.empty();
}

const Decoding& decoding(Lowering& ctx, const ir::Inst& cast) {
    const ir::ValueId from = ctx.fn.operands(cast)[0], to = ctx.fn.result(cast);
    const auto [it, added] = ctx.packed.decodings.try_emplace(to.v);
    const Words& words = ctx.packed.words.at(from.v);
    if (added)
        it->second = decode_view(words.view, ctx.fn.elem(from), *decode_target(ctx.fn.type(to).elem), words.loaded,
                                 ctx.packed.pair_table && ctx.packed.pair_table->is_of(ctx.fn, cast));
    for (const DecodeCall& call : it->second.calls) ctx.packed.looks_up = ctx.packed.looks_up || call.plan->looks_up();
    return it->second;
}

/// Before rings take what is left of shared memory.
void place_pair_table(Lowering& ctx) {
    if (!ctx.packed.looks_up) return;
    ctx.packed.pairs_at = take_shared(ctx, explain::Buffer::table, "pairs of codes", kPairTableBytes, 128);
}

/// Fills the table of pairs: a row of 32 equal words for each two codes, so that every lane reads its own bank.
void fill_pair_table(Lowering& ctx) {
    if (!ctx.packed.looks_up) return;
    const Format from = ctx.fn.types().format(ctx.packed.pair_table->from),
                 to = builtin_formats()[static_cast<size_t>(ctx.packed.pair_table->to)];
    std::string list;
    for (uint64_t code = 0; code < 16; ++code)
        list += (code ? ", " : "") + std::to_string(convert(to, from, extend_code(from, code)));
    const std::string values =
        support(ctx, "values of pairs " + list, "values", "__device__ const unsigned short $[16] = {" + list + "};\n");
    ctx.formats.need("shared");
    const std::string table = "shared + " + number(ctx.packed.pairs_at);
    const Ex i = int32(ctx, "i");
    ctx.out.open_for(
        {"int", "i", ctx.thread, lt(i, kPairEntries * kPairCopies / 4), {counted(i, ctx.kernel.threads)}, 4});
    const auto value = [&](Ex code) { return ctx.pool.index(kernel::Type::i32, named(ctx, values), code); };
    ctx.out.let("unsigned", "pair", value(i >> 3 & 15) | u32(value(i >> 7)) << 16);
    const Ex rows = ctx.pool.text(kernel::Type::other, "((uint4*)(" + table + "))", true);
    ctx.out.assign(element(rows, i), raw(ctx, "uint4{pair, pair, pair, pair}"));
    ctx.out.close();
    ctx.out.call(kernel::KernelOp::meet_cta);
    ctx.packed.lane_pairs = ctx.out.fresh("pairs");
    // Behind the barrier for the compiler, too: what looks up takes the address from here.
    const Ex address = ctx.pool.text(kernel::Type::u32, "shared_address(" + table + ")", true);
    ctx.out.var("unsigned", ctx.packed.lane_pairs, address + (ctx.thread & 31) * 4);
    ctx.out.line("asm volatile(\"mov.b32 %0, %0;\" : \"+r\"(" + ctx.packed.lane_pairs + ") :: \"memory\");");
}

/// The function (pairs.., words.., numbers of the thread..) of a plan.
std::string decode_function(Lowering& ctx, const DecodePlan& plan) {
    const auto pairs = static_cast<int>(plan.pairs.size());
    const auto value = [&](int v) { return v < plan.words ? "%" + number(pairs + v) : "t" + number(v - plan.words); };
    std::vector<uint32_t> constants;  // of floats, which instructions take from registers only
    const auto constant = [&](uint32_t v) {
        const auto it = std::find(constants.begin(), constants.end(), v);
        if (it != constants.end()) return "c" + number(it - constants.begin());
        constants.push_back(v);
        return "c" + number(static_cast<int64_t>(constants.size()) - 1);
    };
    std::string body;
    for (size_t k = 0; k < plan.steps.size(); ++k) {
        const DecodeStep& s = plan.steps[k];
        // A look-up's number is where the lane's copies begin, behind those of the plan.
        const auto n =
            s.op == DecodeStep::look_up ? static_cast<int64_t>(plan.numbers.size()) : static_cast<int64_t>(s.x);
        const std::string thread_number = "%" + number(pairs + plan.words + n);
        const StepNames names{"t" + number(static_cast<int64_t>(k)), value(s.a), value(s.b), value(s.c), thread_number};
        body += "        \"" + ptx_text(s, plan.target, ctx.fn.gpu->arch->number, names, constant) + "\\n\"\n";
    }
    const bool converts = std::any_of(plan.steps.begin(), plan.steps.end(),
                                      [](const DecodeStep& s) { return s.op >= DecodeStep::halves; });
    std::string head = std::string(converts ? "{.reg .b16 l, h; .reg .f32 x, y; " : "{") + ".reg .b32 t<" +
                       number(static_cast<int64_t>(plan.steps.size())) + ">, c<" +
                       number(static_cast<int64_t>(constants.size()) + 1) + ">;";
    for (size_t i = 0; i < constants.size(); ++i)
        head += " mov.b32 c" + number(static_cast<int64_t>(i)) + ", " + hex(constants[i]) + ";";
    body = "        \"" + head + "\\n\"\n" + body;
    std::string outputs, inputs, parameters;
    for (int p = 0; p < pairs; ++p) {
        body += "        \"mov.b32 %" + number(p) + ", " + value(plan.pairs[static_cast<size_t>(p)]) + ";\\n\"\n";
        outputs += std::string(p ? ", " : "") + "\"=r\"(p" + number(p) + ")";
        parameters += std::string(p ? ", " : "") + "unsigned& p" + number(p);
    }
    const auto input = [&](const std::string& name) {
        inputs += (inputs.empty() ? "\"r\"(" : ", \"r\"(") + name + ")";
        parameters += ", unsigned " + name;
    };
    for (int w = 0; w < plan.words; ++w) input("w" + number(w));
    for (size_t n = 0; n < plan.numbers.size(); ++n) input("n" + number(static_cast<int64_t>(n)));
    if (plan.looks_up()) input("table");
    return support(ctx, "decode " + body, "decode",
                   "// Packed codes to pairs: " + plan.text() + ".\n__device__ __forceinline__ void $(" + parameters +
                       ") {\n    asm(\n" + body + "        \"}\"\n        : " + outputs + "\n        : " + inputs +
                       ");\n}\n");
}

/// A cast of words to words of pairs of 16-bit floats or of four bytes.
void decode_words(Lowering& ctx, const ir::Inst& cast, const std::function<Ex(int pair)>& to) {
    const ir::ValueId from = ctx.fn.operands(cast)[0];
    std::string array = words_name(ctx, from);
    const Decoding& how = decoding(ctx, cast);
    if (how.shifts) {
        const PackedView& view = ctx.packed.words.at(from.v).view;
        const std::string placed = ctx.out.fresh("placed");
        ctx.out.declare("unsigned", placed, view.words());
        shift_words(ctx, view, array, placed, moved_bits(ctx, from));
        array = placed;
    }
    Ex moved;
    std::map<std::string, Ex> numbers;  // by text
    const auto thread_number = [&](const DecodePlan& plan, const ThreadNumber& n) {
        if (!moved) moved = constant(ctx, "int", "moved", raw(ctx, moved_bits(ctx, from).atom()));
        const std::string by = "(" + moved + " - " + number(plan.residue) + ")";
        const std::string text = n.selects ? "(unsigned)((" + by + " >> 3) - " + int64_text(plan.first_byte) +
                                                 ") * 0x1111u + " + hex(n.constant) + "u"
                                           : "(unsigned)(" + by + " & 7) + " + number(n.constant) + "u";
        Ex& made = numbers[text];
        if (!made) made = constant(ctx, "unsigned", "number", raw(ctx, text));
        return made;
    };
    for (const DecodeCall& call : how.calls) {
        std::vector<Ex> operands;
        for (const int p : call.pairs) operands.push_back(to(p));
        for (const int w : call.words) operands.push_back(word(ctx, array, w));
        for (const ThreadNumber& n : call.plan->numbers) operands.push_back(thread_number(*call.plan, n));
        if (call.plan->looks_up()) operands.push_back(named(ctx, ctx.packed.lane_pairs));
        operands.insert(operands.begin(), {named(ctx, decode_function(ctx, *call.plan)),
                                           ctx.pool.number(static_cast<int64_t>(call.pairs.size()))});
        ctx.out.call(kernel::KernelOp::ptx_thread, std::move(operands));
    }
}

}  // namespace tegula::lower
