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

std::string Emitter::other_text(const Part& part, const std::string& r) {
    const ir::ValueId v = part.value;
    if (!part.other.value.valid()) return zero(v);
    const std::string& pointer = part.pointers[part.other.at];
    const std::string rest = staged(part.other.value, pointer, v, r, is_scalar(v) ? "0" : logical_number(layout(v), r));
    const bool ghosts = !pointer.empty() && !is_scalar(v) && layout(v).has_ghosts();  // no element of ghosts lies in scratch
    return ghosts ? "(" + inside(layout(v), r) + " ? " + rest + " : " + zero(v) + ")" : rest;
}

/// Register r into `to`.
void Emitter::load_element(const Part& part, const std::string& r, const std::string& to, bool checked) {
    const ir::ValueId v = part.value;
    const Format& f = fn_.elem(part.tensor);
    const std::string base = name(part.tensor), ok = part_condition(part, r, checked), offset = part_offset(part, r);
    if (ok == "true") return line(to + " = " + read(f, base, offset, part.caching) + ";");
    if (bit_addressed(f)) return line(to + " = " + ok + " ? " + read(f, base, offset) + " : " + other_text(part, r) + ";");
    line(to + " = " + access_function(type_of(v), true, true, part.caching) + "(" + base + " + (" + offset + "), " + ok + ", " + other_text(part, r) +
         ");");
}

/// Into the scalar or array `to`.
void Emitter::load_elements(const Part& part, const std::string& to, bool checked) {
    if (is_scalar(part.value)) return load_element(part, "", to, checked);
    by_groups(part, checked, [&](const std::string& r, bool bounds) { load_element(part, r, to + "[" + r + "]", bounds); });
}

void Emitter::store_elements(const Part& part, bool checked) {
    const ir::ValueId v = part.value;
    const Format& f = fn_.elem(part.tensor);
    const std::string base = name(part.tensor);
    by_groups(part, checked, [&](const std::string& r, bool bounds) {
        const std::string ok = both(is_scalar(v) ? "t == 0" : owns(layout(v), r), part_condition(part, r, bounds)), offset = part_offset(part, r);
        if (ok == "true") return line(write(f, base, offset, at(v, r), part.caching));
        if (bit_addressed(f) || is_scalar(v)) return line("if (" + ok + ") " + write(f, base, offset, at(v, r), part.caching));
        line(access_function(type_of(v), false, true, part.caching) + "(" + base + " + (" + offset + "), " + at(v, r) + ", " + ok + ");");
    });
}

/// The body gets the first register of each vector.
void Emitter::by_vectors(const Part& part, const std::function<void(const std::string& r)>& body) {
    const int count = registers(part.value) / part.vector;
    each(count, [&](const std::string& group) { body(count == 1 ? "0" : group + " * " + std::to_string(part.vector)); });
}

/// The vector that starts at register r; where it is not in the tensor `otherwise`, or zeros if that is empty. Of one that straddles the tensor's
/// edge what lies inside.
std::string Emitter::load_vector(const Part& part, const std::string& r, bool checked, const std::string& otherwise) {
    const size_t element = fn_.elem(part.tensor).container_bytes(), bytes = static_cast<size_t>(part.vector) * element;
    const std::string from = "(" + name(part.tensor) + " + (" + part_offset(part, r) + ")";
    if (checked && part.inside == Part::first) return first_function(bytes, element, true, part.caching) + from + ", " + first_bytes(part, r) + ")";
    const std::string ok = part_condition(part, r, checked), zeros = bytes == 16 ? "uint4{0, 0, 0, 0}" : bytes == 8 ? "uint2{0, 0}" : "0";
    return access_function(wide_type(bytes), true, ok != "true", part.caching) + from +
           (ok == "true" ? "" : ", " + ok + ", " + (otherwise.empty() ? zeros : otherwise)) + ")";
}

/// Into `wide`, an array of all registers as they lie in memory.
void Emitter::load_vectors(const Part& part, const std::string& wide, bool checked) {
    const std::string type = wide_type(static_cast<size_t>(part.vector) * fn_.elem(part.tensor).container_bytes());
    by_vectors(part, [&](const std::string& r) {
        const std::string to = "*(" + type + "*)(" + wide + " + " + r + ")";
        const bool others = part.other.value.valid() && part_condition(part, r, checked) != "true";
        if (others)
            each(part.vector, [&](const std::string& i) { line(wide + "[" + r + " + " + i + "] = " + other_text(part, r + " + " + i) + ";"); });
        line(to + " = " + load_vector(part, r, checked, others ? to : "") + ";");
    });
}

/// The vector that starts at register r, from `wide`, or what of it lies inside.
void Emitter::store_vector(const Part& part, const std::string& r, const std::string& wide, bool checked) {
    const size_t element = fn_.elem(part.tensor).container_bytes(), bytes = static_cast<size_t>(part.vector) * element;
    const std::string type = wide_type(bytes), to = "(" + name(part.tensor) + " + (" + part_offset(part, r) + "), *(const " + type + "*)" + wide;
    if (checked && part.inside == Part::first)
        return line(first_function(bytes, element, false, part.caching) + to + ", " + first_bytes(part, r) + ");");
    const std::string ok = both(owns(layout(part.value), r), part_condition(part, r, checked));
    line(access_function(type, false, ok != "true", part.caching) + to + (ok == "true" ? "" : ", " + ok) + ");");
}

/// An array of the elements that start at register r, as they lie in memory. A cast that is left to the store rounds them in pairs.
std::string Emitter::stored_vector(const Part& part, const std::string& r) {
    const ir::ValueId v = part.value;
    const std::string wide = fresh("wide");
    if (!encoded_by_store(v)) {
        line("alignas(16) " + type_of(v) + " " + wide + "[" + std::to_string(part.vector) + "];");
        each(part.vector, [&](const std::string& i) { line(wide + "[" + i + "] = " + at(v, r + " + " + i) + ";"); });
        return wide;
    }
    prelude_.need("pairs");
    const ir::Inst& cast = *fn_.def(v);
    const ir::ValueId from = fn_.operands(cast)[0];
    line("alignas(16) unsigned " + wide + "[" + std::to_string(part.vector / 2) + "];");
    each(part.vector / 2, [&](const std::string& i) {
        const std::string low = r + " + 2 * " + i;
        line(wide + "[" + i + "] = " + pair_function(cast) + "(" + at(from, low) + ", " + at(from, low + " + 1") + ");");
    });
    return wide;
}

void Emitter::store_vectors(const Part& part, bool checked) {
    by_vectors(part, [&](const std::string& r) { store_vector(part, r, stored_vector(part, r), checked); });
}

/// How many bytes of the vector that starts at register r lie inside: none, all of them (or more), or the first few.
std::string Emitter::first_bytes(const Part& part, const std::string& r) {
    const Part::Axis& axis = part.axes[static_cast<size_t>(part.vector_axis)];
    std::string ok = part_condition(part, r, true, part.vector_axis);
    if (fn_.inst(part.inst).op == ir::Op::store) ok = both(owns(layout(part.value), r), ok);
    const std::string at = coordinate(layout(part.value), axis.dim, r) + " - " + axis.low;
    const std::string bytes = std::to_string(fn_.elem(part.tensor).container_bytes());
    return both(ok, "(unsigned)(" + at + ") < (unsigned)" + axis.count) + " ? (" + axis.count + " - (" + at + ")) * " + bytes + " : 0";
}

/// What the tile's registers are is known once, behind both paths: compilers would take words apart where paths that hold elements join. Where each
/// vector may have its own condition, narrow elements only get a path without: a tile of wide ones would take its registers at once.
bool Emitter::has_one_path(const Part& part) const {
    return is_vectors(part) && (is_whole(part) || (part.inside == Part::whole_vectors && fn_.elem(part.tensor).bits >= 32));
}

/// Vectors without conditions, whatever the launch. Known before the bounds of ranges are, which are conditions.
bool Emitter::is_whole(const Part& part) {
    bool bounded = false;
    for (size_t a = 0; a < part.axes.size(); ++a) bounded = bounded || (part.access.axes[a].kind == ir::Access::range && !part.axes[a].size.empty());
    return part.vector > 1 && !part.shifted && part.whole == "true" && !bounded;
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
        open("if (" + part.whole + ")");
        load_vectors(part, wide, false);
        close("} else {");
        ++depth_;
        part.inside == Part::any ? load_elements(part, wide, true) : load_vectors(part, wide, true);
        close();
    }
    each_register(v, [&](const std::string& r) { line(at(v, r) + " = " + wide + "[" + r + "];"); });
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
        open("if (" + part.whole + ")");
        store_vectors(part, false);
        close("} else {");
        ++depth_;
        part.inside == Part::first ? store_vectors(part, true) : store_elements(part, true);
        close();
    }
    close();
}

}  // namespace tegula::cuda
