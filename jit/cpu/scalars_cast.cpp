// Conversions: one rounding from format to format (lang/format.h convert). The usual pairs by a few instructions, small sources by a table of their
// converted codes, the rest by the general rounding of the exact value.
#include <bit>
#include <cmath>

#include <llvm/IR/Constants.h>

#include "jit/cpu/scalar_formats.h"
#include "jit/cpu/scalars_number.h"

namespace tegula::cpu {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

Value* Scalars::cast_here(Value* v, const Format& from, const Format& to, Round round, Overflow overflow, Value* random) {
    if (to == from && !to.is_float() && round == Round::rne && overflow == Overflow::automatic) return v;
    if (to.is_bool()) return cast_to_bool(v, from);
    if (to.is_int() && is_whole(from)) {
        if (overflow != Overflow::sat) return cast_integers(v, from, to);
        const bool is_signed = from.is_int() && from.is_signed;
        return resize(saturated(resize(v, 64, is_signed), is_signed, to), to.container_bytes() * 8, false);
    }
    const bool by_bits = is_random(round), table = from.kind == FormatKind::codebook || from.kind == FormatKind::lns;
    if (table && !by_bits && (from.bits <= 8 || (from.kind == FormatKind::lns && to.kind == FormatKind::codebook)))
        return cast_by_table(v, from, to, round, overflow);
    if (to.kind == FormatKind::codebook) {
        if (from.kind == FormatKind::lns) return cast_by_table(v, from, to, Round::rne, overflow);
        return nearest_entry(to, from, v);
    }
    if (to.kind == FormatKind::lns && from.kind == FormatKind::lns) return lns_convert(to, from, v, round, random);
    if (to.is_int() && (from.is_float() || from.kind == FormatKind::codebook) && !by_bits && round != Round::rna)
        return cast_to_integer(v, from, to, round);
    if (to.is_float() && is_plain(to, round, overflow))
        if (Value* quick = cast_to_float(v, from, to)) return quick;
    if (is_prefix_of_f32(to) && is_ieee_binary(from, 32) && round != Round::rne && round != Round::ru && round != Round::rd)
        return cast_to_prefix(v, to, round, overflow == Overflow::sat, random);
    if (from.bits <= 8 && !by_bits) return cast_by_table(v, from, to, round, overflow);
    if (to.kind == FormatKind::lns && round == Round::rne && !(is_whole(from) && from.bits > 53))
        if (Value* quick = nearest_log(to, as_double(from, v))) return quick;
    return rounded(to, number(from, v), round, overflow, random);
}

/// From f32: something is added below the quantum, and what is below is cut off; a carry out of the largest number makes an infinity.
Value* Scalars::cast_to_prefix(Value* v, const Format& to, Round round, bool saturates, Value* random) {
    const unsigned cut = 23u - to.man_bits;
    Value *x = raw(v), *bits = bits_of(x);
    Value* sum = bits;
    if (round == Round::rna) sum = b_.CreateAdd(bits, i(bits, uint64_t{1} << (cut - 1)));
    if (is_random(round)) {
        Value* below = resize(b_.CreateLShr(random, i(random, 64 - cut)), 32, false);
        // An infinity has nothing to round.
        Value* special = b_.CreateICmpUGE(b_.CreateAnd(bits, i(bits, 0x7fffffff)), i(bits, 0x7f800000));
        sum = b_.CreateAdd(bits, b_.CreateSelect(special, i(bits, 0), below));
    }
    if (saturates) {
        Value* magnitude = call(Intrinsic::umin, {b_.CreateAnd(sum, i(sum, 0x7fffffff)), i(sum, 0x7f7fffff)});
        sum = b_.CreateOr(magnitude, b_.CreateAnd(bits, i(bits, 0x80000000)));
    }
    Value* r = to.bits == 32 ? b_.CreateAnd(sum, i(sum, ~low_bits(cut))) : resize(b_.CreateLShr(sum, i(sum, cut)), to.container_bytes() * 8, false);
    return b_.CreateSelect(b_.CreateFCmpUNO(x, x), i(r, nan_code(to)), r);
}

Value* Scalars::cast_to_bool(Value* v, const Format& from) {
    if (from.is_bool()) return v;
    if (is_whole(from) || from.kind == FormatKind::fixed) return b_.CreateICmpNE(v, i(v, 0));
    Value* x = decode(from, v);
    return b_.CreateFCmpUNE(x, real(x, 0.0));
}

Value* Scalars::cast_integers(Value* v, const Format& from, const Format& to) {
    v = resize(v, to.container_bytes() * 8, from.is_int() && from.is_signed);
    const unsigned bits = from.is_bool() ? 1 : from.bits;
    const bool contained = to.is_signed == (from.is_int() && from.is_signed) ? to.bits >= bits : to.is_signed && to.bits > bits;
    return contained ? v : wrap(v, to);
}

/// Saturating, NaN gives 0: the float is clamped and converted. Where the largest integer is none of its numbers, the number below it stands for the
/// larger ones and is put right afterwards.
Value* Scalars::cast_to_integer(Value* v, const Format& from, const Format& to, Round round) {
    Value* x = decode(from, v);
    if (to.bits > 24 && x->getType()->getScalarType()->isFloatTy()) x = b_.CreateFPExt(x, like(b_.getDoubleTy(), x));
    if (round == Round::rne) x = call(Intrinsic::nearbyint, {x});
    if (round == Round::ru) x = call(Intrinsic::ceil, {x});
    if (round == Round::rd) x = call(Intrinsic::floor, {x});
    const unsigned container = to.container_bytes() * 8, width = to.bits <= 31 || (to.bits == 32 && to.is_signed) ? 32 : 64;
    const double beyond = std::ldexp(1.0, to.bits - to.is_signed), largest = to.bits <= 53 ? beyond - 1 : std::nextafter(beyond, 0.0);
    Value *low = real(x, to.is_signed ? -beyond : 0.0), *high = real(x, largest);
    Value* number = b_.CreateSelect(b_.CreateFCmpUNO(x, x), real(x, 0.0), x);
    number = b_.CreateSelect(b_.CreateFCmpOGT(number, low), number, low);
    number = b_.CreateSelect(b_.CreateFCmpOLT(number, high), number, high);
    llvm::Type* type = like(b_.getIntNTy(width), x);
    if (to.bits <= 53) return resize(b_.CreateFPToSI(number, type), container, true);
    Value* whole = to.bits == 64 && !to.is_signed ? b_.CreateFPToUI(number, type) : b_.CreateFPToSI(number, type);
    return b_.CreateSelect(b_.CreateFCmpOGE(x, real(x, beyond)), i(whole, low_bits(to.bits - to.is_signed)), whole);
}

/// Is every value of a small format one of the other's, too?
static bool holds_all(const Format& to, const Format& from) {
    if (from.bits > 8) return false;
    for (uint64_t code = 0; code < uint64_t{1} << from.bits; ++code) {
        const double v = tegula::decode(from, code), kept = tegula::decode(to, convert(to, from, code, {}));
        if (!(kept == v || (std::isnan(kept) && std::isnan(v))) || std::signbit(kept) != std::signbit(v)) return false;
    }
    return true;
}

/// Nearest even with the usual overflow, where one instruction or a short encoder does it; else null.
Value* Scalars::cast_to_float(Value* v, const Format& from, const Format& to) {
    if (from.kind == FormatKind::lns) return nullptr;
    const bool small = is_whole(from) && (from.is_bool() || from.bits <= 24);
    const auto as_float = [&](llvm::Type* element) {
        llvm::Type* type = like(element, v);
        return from.is_int() && from.is_signed ? b_.CreateSIToFP(v, type) : b_.CreateUIToFP(v, type);
    };
    const auto value_of = [&] { return from.kind == FormatKind::fixed && from.bits <= 24 ? decode_to_float(from, v) : decode(from, v); };
    if (is_native(to)) {
        if (small && to.bits == 32) return whole_to_float(from, v);
        llvm::Type* element = to.bits == 32 ? b_.getFloatTy() : b_.getDoubleTy();
        if (is_whole(from)) return as_float(element);
        return settle(to, b_.CreateFPCast(value_of(), like(element, v)));
    }
    if (is_whole(from) && !small) return from.bits > 53 ? nullptr : nearest(to, as_float(b_.getDoubleTy()));
    Value* value = small ? whole_to_float(from, v) : value_of();
    Value* code = nearest(to, value);
    if (value->getType()->getScalarType()->isFloatTy() && value_is_float(to) && holds_all(to, from)) know(values_, to, code, value);
    return code;
}

Value* Scalars::cast_by_table(Value* v, const Format& from, const Format& to, Round round, Overflow overflow) {
    std::vector<uint64_t> codes;
    for (uint64_t code = 0; code < uint64_t{1} << from.bits; ++code)
        codes.push_back(convert(to, from, code, {round, overflow, 0}) & low_bits(to.container_bytes() * 8));
    Value* index = table_index(from, v);
    Value* code = table_at(codes, to.container_bytes() * 8, index, "converted");
    if (is_native(to)) return as_real(code, to.bits);
    code = resize(code, to.container_bytes() * 8, false);
    if (to.is_float() && value_is_float(to) && codes.size() <= 16) {
        std::vector<uint64_t> values;
        for (uint64_t c : codes) values.push_back(std::bit_cast<uint32_t>(static_cast<float>(tegula::decode(to, c))));
        know(values_, to, code, as_real(table_at(values, 32, index, "values"), 32));
    }
    return code;
}

}  // namespace tegula::cpu
