// Pointers: 64-bit addresses of bytes, or of bits where elements are no whole bytes (bit_addressed). Every lane is its own access.
#include "jit/cuda/emitter.h"

namespace tegula::cuda {

void Emitter::cuda_tensor_ptr(ir::InstId id) {
    const ir::ValueId tensor = fn_.operands(fn_.inst(id))[0];
    const std::string bits = bit_addressed(fn_.elem(tensor)) ? " << 3" : "", base = name(tensor);
    assign(fn_.result(id), [&](Ex) { return "(unsigned long long)" + base + bits; });
}

void Emitter::cuda_ptr_add(ir::InstId id) {
    const auto in = fn_.operands(fn_.inst(id));
    const Format& f = fn_.elem(in[0]);
    const int scale = bit_addressed(f) ? f.bits : f.bits / 8;
    assign(fn_.result(id), [&](Ex r) { return (element_at(in[0], r) + u64(element_at(in[1], r)) * scale).text(); });
}

void Emitter::cuda_ptr_at(ir::InstId id) {
    const ir::ValueId from = fn_.operands(fn_.inst(id))[0];
    const std::string bits = bit_addressed(fn_.elem(fn_.result(id))) ? " << 3" : "";
    assign(fn_.result(id), [&](Ex r) { return at(from, r) + bits; });
}

void Emitter::cuda_ptr_address(ir::InstId id) {
    const ir::ValueId from = fn_.operands(fn_.inst(id))[0];
    const std::string bits = bit_addressed(fn_.elem(from)) ? " >> 3" : "";
    assign(fn_.result(id), [&](Ex r) { return at(from, r) + bits; });
}

/// An element of no whole bytes behind a pointer expression.
std::string Emitter::pointee(const Format& f, const std::string& pointer) {
    return prelude_.load_bits(f, "((const unsigned char*)(" + pointer + " >> 3))", "(long long)(" + pointer + " & 7)");
}

std::vector<std::string> Emitter::stage_lanes(ir::InstId id) {
    const std::vector<std::string> pointers = stage_operands(id);
    for (const std::string& p : pointers)
        if (!p.empty()) {
            sync();
            break;
        }
    return pointers;
}

void Emitter::cuda_ptr_load(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::AccessOperands in(fn_, inst);
    const ir::ValueId v = fn_.result(inst);
    const Format& f = fn_.elem(v);
    declare(v);
    open("");
    const std::vector<std::string> pointers = stage_lanes(id);
    each_register(v, [&](Ex r) {
        Ex ok = is_real(v, r);
        std::string rest = in.other ? staged(in.other.value, pointers[in.other.at], v, r, number_at(v, r)).text() : zero(v);
        if (!ok.is_true() && in.other && !pointers[in.other.at].empty()) rest = "(" + chosen(ok, rest, zero(v)) + ")";
        if (in.mask) ok = both(ok, staged(in.mask.value, pointers[in.mask.at], v, r, number_at(v, r)));
        if (!bit_addressed(f)) {  // in global memory, which compilers do not see of numbers
            const std::string call = access_function(type_of(v), true, !ok.is_true(), plain_caching(id)) + "((const void*)(" + at(in.object, r) + ")";
            return line(at(v, r) + " = " + call + (ok.is_true() ? "" : ", " + ok.text() + ", " + rest) + ");");
        }
        line(at(v, r) + " = " + chosen(ok, pointee(f, at(in.object, r)), rest) + ";");
    });
    close();
}

void Emitter::cuda_ptr_store(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::AccessOperands in(fn_, inst);
    const Format& f = fn_.elem(in.object);
    open("");
    const std::vector<std::string> pointers = stage_lanes(id);
    const auto operand = [&](const ir::AccessOperands::Operand& o, Ex r) {
        return staged(o.value, pointers[o.at], in.object, r, number_at(in.object, r));
    };
    each_register(in.object, [&](Ex r) {
        Ex ok = stores(in.object, r);
        if (in.mask) ok = both(ok, operand(in.mask, r));
        const std::string pointer = at(in.object, r), value = operand(in.value, r).text();
        if (bit_addressed(f)) return line_if(ok, write(f, "((unsigned char*)(" + pointer + " >> 3))", pointer + " & 7", value));
        line(access_function(type_of(in.value.value), false, !ok.is_true(), plain_caching(id)) + "((void*)(" + pointer + "), " + value +
             (ok.is_true() ? "" : ", " + ok.text()) + ");");
    });
    close();
}

void Emitter::cuda_ptr_atomic(ir::InstId id) {
    const ir::Inst& inst = fn_.inst(id);
    const ir::AccessOperands in(fn_, inst);
    const auto attrs = fn_.attrs(inst);
    const ir::ValueId v = fn_.result(inst);
    const auto kind = static_cast<ir::AtomicKind>(attrs[1]);
    const std::string function = atomic_function(fn_.elem(in.object), kind, static_cast<ir::MemoryScope>(attrs[3]));
    if (uses(v) > 0) declare(v);
    open("");
    const std::vector<std::string> pointers = stage_lanes(id);
    const auto operand = [&](const ir::AccessOperands::Operand& o, Ex r) {
        return staged(o.value, pointers[o.at], in.object, r, number_at(in.object, r));
    };
    atomic_elements(
        id, function, [&](Ex r) { return in.mask ? operand(in.mask, r) : pool_.truth(true); },
        [&](Ex r) {
            std::vector<std::string> operands = {at(in.object, r), operand(in.value, r).text()};
            if (in.expected) operands.push_back(operand(in.expected, r).text());
            return operands;
        });
    close();
}

}  // namespace tegula::cuda
