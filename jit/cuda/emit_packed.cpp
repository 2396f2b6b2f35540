// Tiles of narrow codes that are loaded by whole words (lang/packed_view.h). Where every use takes codes one by one or casts them, the words are all
// that there is of the tile: `unsigned v12[words]`, also around loops; else its elements are taken out behind the load. Casts to 16-bit floats decode
// words by the operations that lang/decode.h finds.
#include <algorithm>
#include <numeric>

#include "jit/cuda/emit_access.h"
#include "lang/decode.h"

namespace tegula::cuda {

using ir::Op;

namespace {

constexpr int kPrefetchingLoads = 80;  ///< architecture from which on a load says how much of a line the second cache is to fetch

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

/// PTX of a step whose value is `to`; `arch` decides how sums of bf16 are spelt.
std::string ptx_text(const DecodeStep& s, Fmt target, int arch, const std::string& to, const std::string& a, const std::string& b,
                     const std::function<std::string(uint32_t)>& constant) {
    const std::string head = " " + to + ", " + a + ", ", x = hex(s.x);
    const bool fused = target == Fmt::bf16 && arch < 90;  // only sums of products are there: a * 1 + x and a * x - 0 round as the operations do
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
        case DecodeStep::and_xor:
            return "lop3.b32" + head + x + ", " + hex(s.y) + ", 0x6a;";
        case DecodeStep::and_or:
            return "lop3.b32" + head + x + ", " + b + ", 0xea;";
        case DecodeStep::add:
            return fused ? "fma.rn.bf16x2" + head + constant(0x3f803f80) + ", " + constant(s.x) + ";" : "add.rn." + type + head + constant(s.x) + ";";
        case DecodeStep::mul:
            return fused ? "fma.rn.bf16x2" + head + constant(s.x) + ", " + constant(0x80008000) + ";" : "mul.rn." + type + head + constant(s.x) + ";";
    }
    return {};
}

}  // namespace

/// Which loads are made of words, and which tiles are nothing else: what loops carry, too.
void Emitter::find_words() {
    std::vector<std::vector<ir::InstId>> users(fn_.value_count());
    for (uint32_t b = 0; b < fn_.block_count(); ++b)
        for (const ir::InstId id : fn_.block(ir::BlockId{b}).insts) {
            const ir::Inst& inst = fn_.inst(id);
            for (const ir::ValueId v : fn_.operands(inst)) users[v.v].push_back(id);
            if (inst.op != Op::load || !in_registers(fn_.result(inst))) continue;
            if (auto view = packed_view(fn_, inst, layout(fn_.result(inst)))) words_.emplace(fn_.result(inst).v, Words{std::move(*view), true});
        }
    // What a loop carries is made of words where its first value and every next one are, in the same places.
    for (uint32_t b = 0; b < fn_.block_count(); ++b)
        for (const ir::InstId id : fn_.block(ir::BlockId{b}).insts) {
            const ir::Inst& loop = fn_.inst(id);
            if (loop.op != Op::for_loop || (split_ && is_split_loop(fn_, loop))) continue;
            const ir::Block& body = fn_.block(fn_.blocks(loop)[0]);
            const auto next = fn_.operands(fn_.inst(body.insts.back()));
            for (uint32_t r = 0; r < loop.results.count; ++r) {
                const auto first = words_.find(fn_.operands(loop)[r + 3].v), last = words_.find(next[r].v);
                if (first == words_.end() || last == words_.end() || !(first->second.view == last->second.view)) continue;
                const Words words = first->second;
                words_.emplace(body.args[r + 1].v, words);
                words_.emplace(fn_.result(loop, r).v, words);
            }
        }
    // A tile that something wants as a whole has an array of elements; what is carried has none.
    const auto takes_elements = [&](ir::InstId user, uint32_t value) {
        const ir::Inst& inst = fn_.inst(user);
        if (inst.op == Op::cast || inst.op == Op::select || ir::has_trait(inst.op, ir::ELEMWISE)) return true;
        const auto operands = fn_.operands(inst);
        const ir::Inst* loop = inst.op == Op::yield ? &fn_.inst(fn_.block(inst.parent).owner) : &inst;
        if (loop->op != Op::for_loop) return false;
        const size_t skipped = inst.op == Op::yield ? 0 : 3;
        for (size_t i = skipped; i < operands.size(); ++i)
            if (operands[i].v == value && !words_.count(fn_.result(*loop, static_cast<uint32_t>(i - skipped)).v)) return false;
        return true;
    };
    for (bool changed = true; changed;) {
        changed = false;
        for (auto it = words_.begin(); it != words_.end();) {
            const ir::Inst* def = fn_.def(ir::ValueId{it->first});
            const bool carried = !def || def->op == Op::for_loop;
            if (!carried || it->second.only) {
                ++it;
                continue;
            }
            it = words_.erase(it);
            changed = true;
        }
        for (auto& [value, words] : words_) {
            const bool still =
                words.only && std::all_of(users[value].begin(), users[value].end(), [&](ir::InstId u) { return takes_elements(u, value); });
            changed = changed || still != words.only;
            words.only = still;
        }
        // Both ends of a carried tile go together: an argument without words leaves none to its result.
        for (uint32_t b = 0; b < fn_.block_count(); ++b)
            for (const ir::InstId id : fn_.block(ir::BlockId{b}).insts) {
                const ir::Inst& loop = fn_.inst(id);
                if (loop.op != Op::for_loop) continue;
                for (uint32_t r = 0; r < loop.results.count; ++r) {
                    const uint32_t argument = fn_.block(fn_.blocks(loop)[0]).args[r + 1].v, result = fn_.result(loop, r).v;
                    if (words_.count(argument) == words_.count(result)) continue;
                    words_.erase(argument);
                    words_.erase(result);
                    changed = true;
                }
            }
    }
}

bool Emitter::is_words(ir::ValueId v) const {
    const auto it = words_.find(v.v);
    return it != words_.end() && it->second.only;
}

std::string Emitter::words_name(ir::ValueId v) { return is_words(v) ? name(v) : name(v) + "_words"; }

/// Register r of a tile that is made of words.
std::string Emitter::field(ir::ValueId v, const std::string& r) {
    const Format& f = fn_.elem(v);
    const PackedView& view = words_.at(v.v).view;
    const std::string function = support("field", "field", kField);
    return prelude_.from_bits(f, function + "<" + number(f.bits) + ">(" + words_name(v) + ", " + rename(view.bit, r) + ")");
}

/// By member of the storage order: bits or, of whole bytes, bytes to the next.
std::string Emitter::member_pitch(ir::ValueId tensor, size_t member, size_t members) {
    if (!affine(tensor)) return pitch(tensor, static_cast<int>(member), member + 1 == members).text;
    const bool col = fn_.types().layout(fn_.type(tensor).layout).kind() == Layout::Kind::col;
    return stride(tensor, static_cast<int>(col ? members - 1 - member : member)).text;
}

std::string Emitter::storage_bytes(ir::ValueId tensor) {
    const int p = param_number(tensor);
    return parameter(KernelParam::bytes, p, 0, "const unsigned long long", fn_.params[static_cast<size_t>(p)].name + "_bytes");
}

bool Emitter::load_words(ir::InstId id) {
    const ir::ValueId v = fn_.result(id);
    const auto found = words_.find(v.v);
    if (found == words_.end()) return false;
    if (const auto ring = word_rings_.find(v.v); ring != word_rings_.end()) {
        ring->second->load.first == id ? start_ring(id, *ring->second) : take_words(id, *ring->second);
        return true;
    }
    const PackedView& view = found->second.view;
    const std::string array = words_name(v);
    line("unsigned " + array + "[" + number(view.words()) + "];");
    open("");
    Part part = part_access(id);
    for (size_t a = 0; a < part.axes.size(); ++a) part_bounds(part, a);
    part.whole = both(part.fixed, part.whole);
    const std::vector<std::string> texts = piece_texts(part);
    const std::vector<LayoutPieces> members = *access_pieces(fn_, fn_.inst(id), layout(v));
    std::vector<std::pair<std::string, std::string>> outer;  // what registers add
    std::string sum = "0ull", shift;
    for (size_t m = 0; m < members.size(); ++m) {
        const bool inner = m + 1 == members.size();
        const std::string by = member_pitch(part.tensor, m, members.size());
        const auto text = [&](LayoutPieces::Part k) { return layout_text(members[m].part[k], part.tensor, texts); };
        for (const auto k : {LayoutPieces::uniform, LayoutPieces::thread}) {
            if (members[m].part[k].is_constant(0)) continue;
            std::string term = text(k);
            if (inner && k == LayoutPieces::thread && view.most_shift) {
                shift = "(int)(" + term + " & " + number(view.period - 1) + ") * " + number(view.bits);
                term = "(" + term + " & " + int64_text(-view.period) + ")";
            }
            sum += " + (unsigned long long)(" + term + ") * " + by;
        }
        if (!inner && !members[m].part[LayoutPieces::register_].is_constant(0)) outer.emplace_back(text(LayoutPieces::register_), by);
    }
    const bool bits = bit_addressed(fn_.elem(part.tensor));
    std::vector<std::string> pitches;
    for (size_t m = 0; m < members.size(); ++m) pitches.push_back(member_pitch(part.tensor, m, members.size()));
    // Trips move a load by whole words.
    const std::string grows = piece_growth(id, members, pitches), bytes = bits && !grows.empty() ? "(" + grows + " >> 3)" : grows;
    const std::string base = base_text(id, bits ? "(" + sum + ") >> 3" : sum, bytes);
    std::map<int, std::string> runs;  // by register
    for (const PackedView::Load& load : view.loads) {
        std::string& run = runs[load.reg];
        if (!run.empty()) continue;
        run = fresh("run");
        std::string at = base;
        for (const auto& [text, by] : outer) {
            const std::string term = "(unsigned long long)(" + replaced(text, "(R)", "(" + number(load.reg) + ")") + ") * " + by;
            at += " + " + (bits ? "(" + term + " >> 3)" : term);
        }
        line("const unsigned long long " + run + " = " + at + ";");
    }
    const auto offset = [&](const PackedView::Load& load) { return runs.at(load.reg) + (load.offset ? " + " + number(load.offset) + "ull" : ""); };
    const auto load = [&](bool guarded) {
        load_all_words(part, view, array, offset, guarded);
        if (view.most_shift) shift_words(view, array, shift);
        if (guarded) clear_outside(part, view, array);
    };
    if (part.whole == "true") {
        load(false);
    } else {
        open("if (" + part.whole + ")");
        load(false);
        close("} else {");
        ++depth_;
        load(true);
        close();
    }
    close();
    if (found->second.only) return true;
    declare(v);
    each_register(v, [&](const std::string& r) { line(name(v) + "[" + r + "] = " + field(v, r) + ";"); });
    return true;
}

/// `guarded`: words of places where the tensor has none are zero.
void Emitter::load_all_words(const Part& part, const PackedView& view, const std::string& array,
                             const std::function<std::string(const PackedView::Load&)>& offset, bool guarded) {
    const std::string type = wide_type(static_cast<size_t>(view.grain)), bytes = guarded ? storage_bytes(part.tensor) : std::string();
    const std::string zeros = view.grain == 16 ? "uint4{0, 0, 0, 0}" : view.grain == 8 ? "uint2{0, 0}" : "0u";
    CachingText caching = part.caching;
    // Weights are read once: the first cache keeps none of them, the second fetches the rest of a line at once.
    if (caching.stem.empty() && view.grain == 16 && !view.most_shift && fn_.gpu->arch->number >= kPrefetchingLoads) {
        caching.suffix = ".L1::no_allocate.L2::256B";
        caching.stem = "_stream";
    }
    for (size_t k = 0; k < view.loads.size(); ++k) {
        const std::string to = array + "[" + number(static_cast<int64_t>(k) * view.grain / 4) + "]", at = offset(view.loads[k]);
        const std::string inside = both(part.fixed, "(unsigned long long)(" + at + ") < (unsigned long long)" + bytes);
        const std::string value = access_function(type, true, guarded, caching) + "((const unsigned char*)" + name(part.tensor) + " + (" + at + ")" +
                                  (guarded ? ", " + inside + ", " + zeros : "") + ")";
        if (view.grain == 4) {
            line(to + " = " + value + ";");
            continue;
        }
        const std::string word = fresh("word");
        line("const " + type + " " + word + " = " + value + ";");
        for (int i = 0; i < view.grain / 4; ++i)
            line(array + "[" + number(static_cast<int64_t>(k) * view.grain / 4 + i) + "] = " + word + "." + "xyzw"[i] + ";");
    }
}

/// Clears the codes whose coordinates are outside of the tensor: a mask per word and dimension.
void Emitter::clear_outside(const Part& part, const PackedView& view, const std::string& array) {
    const TileLayout& l = layout(part.value);
    const auto words = static_cast<size_t>(view.words());
    for (size_t a = 0; a < part.axes.size(); ++a) {
        const Part::Axis& axis = part.axes[a];
        if (part.access.axes[a].kind == ir::Access::index || axis.size.empty()) continue;
        std::map<std::vector<std::pair<int64_t, uint32_t>>, std::string> masks;  // by what decides them: coordinate and bits
        for (size_t w = 0; w < words; ++w) {
            std::map<int64_t, uint32_t> bits;
            for (size_t r = 0; r < view.bit.size(); ++r) {
                const int64_t from = view.bit[r] - static_cast<int64_t>(32 * w), to = from + view.bits;
                if (to <= 0 || from >= 32) continue;
                const uint64_t field = low_bits(view.bits), in = from >= 0 ? field << from : field >> -from;
                bits[l.point(static_cast<int>(r), 0, 0)[static_cast<size_t>(axis.dim)]] |= static_cast<uint32_t>(in);
            }
            const std::vector<std::pair<int64_t, uint32_t>> key(bits.begin(), bits.end());
            std::string& mask = masks[key];
            if (mask.empty()) {
                mask = fresh("inside");
                std::string text;
                for (const auto& [coordinate, ones] : key) {
                    const std::string thread = thread_part(l, axis.dim);
                    const std::string c = "(" + number(coordinate) + " + " + thread + ")";
                    const std::string inside = !axis.count.empty()
                                                   ? "(unsigned)(" + c + " - " + axis.low + ") < (unsigned)" + axis.count
                                                   : "(unsigned long long)(" + axis.start.text + " + " + c + ") < (unsigned long long)" + axis.size;
                    text += (text.empty() ? "" : " | ") + ("(" + inside + " ? " + hex(ones) + "u : 0u)");
                }
                line("const unsigned " + mask + " = " + (text.empty() ? "0u" : text) + ";");
            }
            line(array + "[" + number(static_cast<int64_t>(w)) + "] &= " + mask + ";");
        }
    }
}

/// Every word down by the thread's number of bits, which come from the word behind it.
void Emitter::shift_words(const PackedView& view, const std::string& array, const std::string& shift) {
    const std::string by = fresh("shift");
    line("const int " + by + " = " + shift + ";");
    const int words = view.words();
    const auto word = [&](int w) { return w < words ? array + "[" + number(w) + "]" : std::string("0u"); };
    if (view.most_shift >= 32)
        for (int w = 0; w + 1 < words; ++w) line(word(w) + " = " + by + " >= 32 ? " + word(w + 1) + " : " + word(w) + ";");
    const std::string down = funnel() + "_down";
    for (int w = 0; w < words; ++w)
        line(word(w) + " = " + down + "(" + word(w) + ", " + word(w + 1) + ", " + by + (view.most_shift >= 32 ? " & 31" : "") + ");");
}

// ---- decoding ----

bool Emitter::can_decode(const ir::Inst& cast) {
    if (cast.op != Op::cast || is_scalar(fn_.result(cast)) || !in_registers(fn_.result(cast))) return false;
    const ir::ValueId from = fn_.operands(cast)[0], to = fn_.result(cast);
    const Fmt target = fn_.type(to).elem == Fmt::f16 ? Fmt::f16 : Fmt::bf16;
    if (!words_.count(from.v) || !(fn_.type(to).elem == target) || registers(to) % 2 || !has_decoding(fn_.elem(from), target)) return false;
    if (target == Fmt::bf16 && fn_.gpu->arch->number < 80) return false;
    const auto round = static_cast<Round>(fn_.attrs(cast)[0]);
    const auto overflow = static_cast<Overflow>(fn_.attrs(cast)[1]);
    const bool plain = round == Round::rne && (overflow == Overflow::automatic || overflow == Overflow::ieee);
    return (plain || decodes_exactly(fn_.elem(from), target)) && !decoding(cast).empty();
}

const std::vector<DecodeCall>& Emitter::decoding(const ir::Inst& cast) {
    const ir::ValueId from = fn_.operands(cast)[0], to = fn_.result(cast);
    const auto [it, added] = decodings_.try_emplace(to.v);
    if (added) it->second = decode_calls(words_.at(from.v).view, fn_.elem(from), fn_.type(to).elem == Fmt::f16 ? Fmt::f16 : Fmt::bf16);
    return it->second;
}

/// The function (pairs.., words..) of a plan.
std::string Emitter::decode_function(const DecodePlan& plan) {
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
        body += "        \"" +
                ptx_text(s, plan.target, fn_.gpu->arch->number, "t" + number(static_cast<int64_t>(k)), value(s.a), value(s.b), constant) + "\\n\"\n";
    }
    std::string head =
        "{.reg .b32 t<" + number(static_cast<int64_t>(plan.steps.size())) + ">, c<" + number(static_cast<int64_t>(constants.size()) + 1) + ">;";
    for (size_t i = 0; i < constants.size(); ++i) head += " mov.b32 c" + number(static_cast<int64_t>(i)) + ", " + hex(constants[i]) + ";";
    body = "        \"" + head + "\\n\"\n" + body;
    std::string outputs, inputs, parameters;
    for (int p = 0; p < pairs; ++p) {
        body += "        \"mov.b32 %" + number(p) + ", " + value(plan.pairs[static_cast<size_t>(p)]) + ";\\n\"\n";
        outputs += std::string(p ? ", " : "") + "\"=r\"(p" + number(p) + ")";
        parameters += std::string(p ? ", " : "") + "unsigned& p" + number(p);
    }
    for (int w = 0; w < plan.words; ++w) {
        inputs += std::string(w ? ", " : "") + "\"r\"(w" + number(w) + ")";
        parameters += ", unsigned w" + number(w);
    }
    return support("decode " + body, "decode",
                   "// Packed codes to pairs: " + plan.text() + ".\n__device__ __forceinline__ void $(" + parameters + ") {\n    asm(\n" + body +
                       "        \"}\"\n        : " + outputs + "\n        : " + inputs + ");\n}\n");
}

/// A cast of words to pairs of 16-bit floats.
void Emitter::decode_words(const ir::Inst& cast, const std::function<std::string(int pair)>& to) {
    const std::string array = words_name(fn_.operands(cast)[0]);
    for (const DecodeCall& call : decoding(cast)) {
        std::string arguments;
        for (const int p : call.pairs) arguments += (arguments.empty() ? "" : ", ") + to(p);
        for (const int w : call.words) arguments += ", " + array + "[" + number(w) + "]";
        line(decode_function(*call.plan) + "(" + arguments + ");");
    }
}

}  // namespace tegula::cuda
