// load and store of parts of tensors (emit_part.cpp). Where a thread's registers hold neighbours in aligned memory, wide accesses: under a condition
// each when vectors never straddle the tensor's edge, else in a tile that is wholly inside, with another path for tiles at the edge. Otherwise one
// element at a time, each with its own bounds. Only one of several threads with copies stores.
#include "jit/cuda/emit_access.h"

namespace tegula::cuda {

std::string Emitter::read(const Format& f, const std::string& base, const std::string& offset, const CachingText& caching) {
    if (!bit_addressed(f) && !caching.stem.empty())
        return access_function(prelude_.type(f), true, false, caching) + "(" + base + " + (" + offset + "))";
    if (!bit_addressed(f)) return base + "[" + offset + "]";
    return prelude_.load_bits(f, base, "(long long)(" + offset + ")");
}

std::string Emitter::write(const Format& f, const std::string& base, const std::string& offset, const std::string& value,
                           const CachingText& caching) {
    if (!bit_addressed(f) && !caching.stem.empty())
        return access_function(prelude_.type(f), false, false, caching) + "(" + base + " + (" + offset + "), " + value + ");";
    if (!bit_addressed(f)) return base + "[" + offset + "] = " + value + ";";
    std::string text = prelude_.store_bits(f, base, "(long long)(" + offset + ")", value);
    if (text.back() != ';') text += ';';
    return text;
}

std::string Emitter::other_text(const Part& part, Ex r) {
    const ir::ValueId v = part.value;
    if (!part.other) return zero(v);
    const std::string& pointer = part.pointers[part.other.at];
    const std::string rest = staged(part.other.value, pointer, v, r, number_at(v, r)).text();
    const Ex real = pointer.empty() ? pool_.truth(true) : is_real(v, r);  // no element of ghosts lies in scratch
    return real.is_true() ? rest : "(" + chosen(real, rest, zero(v)) + ")";
}

/// Register r into `to`.
void Emitter::load_element(const Part& part, Ex r, const std::string& to, bool checked) {
    const ir::ValueId v = part.value;
    const Format& f = fn_.elem(part.tensor);
    const Ex ok = part_condition(part, r, checked);
    const std::string base = name(part.tensor), offset = part_offset(part, r).text();
    if (ok.is_true()) return line(to + " = " + read(f, base, offset, part.caching) + ";");
    if (bit_addressed(f)) return line(to + " = " + chosen(ok, read(f, base, offset), other_text(part, r)) + ";");
    line(to + " = " + access_function(type_of(v), true, true, part.caching) + "(" + base + " + (" + offset + "), " + ok.text() + ", " +
         other_text(part, r) + ");");
}

/// Into the scalar or array `to`.
void Emitter::load_elements(const Part& part, const std::string& to, bool checked) {
    if (is_scalar(part.value)) return load_element(part, {}, to, checked);
    by_groups(part, checked, [&](Ex r, bool bounds) { load_element(part, r, to + "[" + r.text() + "]", bounds); });
}

void Emitter::store_elements(const Part& part, bool checked) {
    const ir::ValueId v = part.value;
    const Format& f = fn_.elem(part.tensor);
    const std::string base = name(part.tensor);
    by_groups(part, checked, [&](Ex r, bool bounds) {
        const Ex ok = both(stores(v, r), part_condition(part, r, bounds));
        const std::string offset = part_offset(part, r).text();
        if (ok.is_true() || bit_addressed(f) || is_scalar(v)) return line_if(ok, write(f, base, offset, at(v, r), part.caching));
        line(access_function(type_of(v), false, true, part.caching) + "(" + base + " + (" + offset + "), " + at(v, r) + ", " + ok.text() + ");");
    });
}

/// The body gets the first register of each vector.
void Emitter::by_vectors(const Part& part, const std::function<void(Ex r)>& body) {
    const int count = registers(part.value) / part.vector;
    each(count, [&](Ex group) { body(group * part.vector); });
}

/// The vector that starts at register r; where it is not in the tensor `otherwise`, or zeros if that is empty. Of one that straddles the tensor's
/// edge what lies inside.
std::string Emitter::load_vector(const Part& part, Ex r, bool checked, const std::string& otherwise) {
    const size_t element = fn_.elem(part.tensor).container_bytes(), bytes = static_cast<size_t>(part.vector) * element;
    const std::string from = "(" + name(part.tensor) + " + (" + part_offset(part, r).text() + ")";
    if (checked && part.inside == Part::first)
        return first_function(bytes, element, true, part.caching) + from + ", " + first_bytes(part, r).text() + ")";
    const Ex ok = part_condition(part, r, checked);
    const std::string zeros = bytes == 16 ? "uint4{0, 0, 0, 0}" : bytes == 8 ? "uint2{0, 0}" : "0";
    return access_function(wide_type(bytes), true, !ok.is_true(), part.caching) + from +
           (ok.is_true() ? "" : ", " + ok.text() + ", " + (otherwise.empty() ? zeros : otherwise)) + ")";
}

/// Into `wide`, an array of all registers as they lie in memory.
void Emitter::load_vectors(const Part& part, const std::string& wide, bool checked) {
    const std::string type = wide_type(static_cast<size_t>(part.vector) * fn_.elem(part.tensor).container_bytes());
    by_vectors(part, [&](Ex r) {
        const std::string to = "*(" + type + "*)(" + wide + " + " + r + ")";
        const bool others = part.other && !part_condition(part, r, checked).is_true();
        if (others) each(part.vector, [&](Ex i) { line(wide + "[" + (r + i).text() + "] = " + other_text(part, r + i) + ";"); });
        line(to + " = " + load_vector(part, r, checked, others ? to : "") + ";");
    });
}

/// The vector that starts at register r, from `wide`, or what of it lies inside.
void Emitter::store_vector(const Part& part, Ex r, const std::string& wide, bool checked) {
    const size_t element = fn_.elem(part.tensor).container_bytes(), bytes = static_cast<size_t>(part.vector) * element;
    const std::string type = wide_type(bytes),
                      to = "(" + name(part.tensor) + " + (" + part_offset(part, r).text() + "), *(const " + type + "*)" + wide;
    if (checked && part.inside == Part::first)
        return line(first_function(bytes, element, false, part.caching) + to + ", " + first_bytes(part, r).text() + ");");
    const Ex ok = both(owns(layout(part.value), r), part_condition(part, r, checked));
    line(access_function(type, false, !ok.is_true(), part.caching) + to + (ok.is_true() ? "" : ", " + ok.text()) + ");");
}

/// An array of the elements that start at register r, as they lie in memory. A cast that is left to the store rounds them in pairs.
std::string Emitter::stored_vector(const Part& part, Ex r) {
    const ir::ValueId v = part.value;
    const std::string wide = fresh("wide");
    if (!encoded_by_store(v)) {
        line("alignas(16) " + type_of(v) + " " + wide + "[" + std::to_string(part.vector) + "];");
        each(part.vector, [&](Ex i) { line(wide + "[" + i + "] = " + at(v, r + i) + ";"); });
        return wide;
    }
    prelude_.need("pairs");
    const ir::Inst& cast = *fn_.def(v);
    const ir::ValueId from = fn_.operands(cast)[0];
    line("alignas(16) unsigned " + wide + "[" + std::to_string(part.vector / 2) + "];");
    each(part.vector / 2, [&](Ex i) {
        const Ex low = r + i * 2;
        line(wide + "[" + i + "] = " + pair_function(cast) + "(" + at(from, low) + ", " + at(from, low + 1) + ");");
    });
    return wide;
}

void Emitter::store_vectors(const Part& part, bool checked) {
    by_vectors(part, [&](Ex r) { store_vector(part, r, stored_vector(part, r), checked); });
}

/// How many bytes of the vector that starts at register r lie inside: none, all of them (or more), or the first few.
Ex Emitter::first_bytes(const Part& part, Ex r) {
    const Part::Axis& axis = part.axes[static_cast<size_t>(part.vector_axis)];
    Ex ok = part_condition(part, r, true, part.vector_axis);
    if (fn_.inst(part.inst).op == ir::Op::store) ok = both(owns(layout(part.value), r), ok);
    const Ex at = coordinate(layout(part.value), axis.dim, r) - axis.low;
    const auto bytes = static_cast<int64_t>(fn_.elem(part.tensor).container_bytes());
    return pool_.select(both(ok, lt(u32(at), u32(axis.count))), (axis.count - at) * bytes, pool_.number(0));
}

/// What the tile's registers are is known once, behind both paths: compilers would take words apart where paths that hold elements join. Where each
/// vector may have its own condition, narrow elements only get a path without: a tile of wide ones would take its registers at once.
bool Emitter::has_one_path(const Part& part) const {
    return is_vectors(part) && (is_whole(part) || (part.inside == Part::whole_vectors && fn_.elem(part.tensor).bits >= 32));
}

/// Vectors without conditions, whatever the launch. Known before the bounds of ranges are, which are conditions.
bool Emitter::is_whole(const Part& part) {
    bool bounded = false;
    for (size_t a = 0; a < part.axes.size(); ++a) bounded = bounded || (part.access.axes[a].kind == ir::Access::range && part.axes[a].size);
    return part.vector > 1 && !part.shifted && part.whole.is_true() && !bounded;
}

/// Can all of it be done by vectors, those at the tensor's edge under a condition or in part?
bool Emitter::is_vectors(const Part& part) { return is_whole(part) || (part.vector > 1 && !part.shifted && part.inside != Part::any); }

bool Emitter::stores_vectors(ir::InstId id) {
    return fn_.inst(id).op == ir::Op::store && !fn_.gpu_inst(id).bulk && is_plain(fn_.access(fn_.inst(id))) && is_vectors(part_access(id));
}

void Emitter::load_wide(const Part& part) {
    const ir::ValueId v = part.value;
    if (has_one_path(part)) return load_vectors(part, name(v), true);
    const std::string wide = fresh("wide");
    line("alignas(16) " + type_of(v) + " " + wide + "[" + std::to_string(registers(v)) + "];");
    if (part.shifted) {
        load_shifted(part, wide);
    } else {
        open("if (" + part.whole.text() + ")");
        load_vectors(part, wide, false);
        close("} else {");
        ++depth_;
        part.inside == Part::any ? load_elements(part, wide, true) : load_vectors(part, wide, true);
        close();
    }
    each_register(v, [&](Ex r) { line(at(v, r) + " = " + wide + "[" + r.text() + "];"); });
}

void Emitter::cuda_load(ir::InstId id) {
    declare_walk(id);
    if (load_words(id) || join_load(id)) return;
    const ir::ValueId v = fn_.result(id);
    line((is_scalar(v) ? "" : "alignas(16) ") + declaration(v));
    open("");
    const Part part = part_of(id);
    part.vector == 1 ? load_elements(part, name(part.value), true) : load_wide(part);
    close();
}

void Emitter::cuda_store(ir::InstId id) {
    if (fn_.gpu_inst(id).bulk) return bulk_store(id);
    if (join_store(id)) return;
    open("");
    Part part = part_of(id);
    if (store_collides(fn_, id)) part_last(part);
    if (part.vector == 1) {
        store_elements(part, true);
    } else if (part.shifted) {
        store_shifted(part);
    } else if (part.inside == Part::whole_vectors || is_whole(part)) {
        store_vectors(part, true);
    } else {
        open("if (" + part.whole.text() + ")");
        store_vectors(part, false);
        close("} else {");
        ++depth_;
        part.inside == Part::first ? store_vectors(part, true) : store_elements(part, true);
        close();
    }
    close();
}

}  // namespace tegula::cuda
