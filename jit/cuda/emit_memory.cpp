// load and store of parts of tensors (emit_part.cpp). Where a thread's registers hold neighbours in memory and everything is aligned and inside, a
// loop of wide accesses; else one element at a time, each with its own bounds. Only one of several threads with copies stores.
#include "jit/cuda/emit_access.h"

namespace tegula::cuda {

namespace {

std::string both(const std::string& a, const std::string& b) { return a == "true" ? b : b == "true" ? a : a + " && " + b; }

}  // namespace

std::string Emitter::read(const Format& f, const std::string& base, const std::string& offset) {
    if (!bit_addressed(f)) return base + "[" + offset + "]";
    return prelude_.load_bits(f, base, "(long long)(" + offset + ")");
}

std::string Emitter::write(const Format& f, const std::string& base, const std::string& offset, const std::string& value) {
    if (!bit_addressed(f)) return base + "[" + offset + "] = " + value + ";";
    std::string text = prelude_.store_bits(f, base, "(long long)(" + offset + ")", value);
    if (text.back() != ';') text += ';';
    return text;
}

std::string Emitter::pack_type(ir::ValueId v, int vector) {
    const std::string pack = support("pack", "Pack", "template <class T, int n>\nstruct alignas(sizeof(T) * n) $ {\n    T e[n];\n};\n");
    return pack + "<" + type_of(v) + ", " + std::to_string(vector) + ">";
}

void Emitter::load_part(const Part& part, bool checked) {
    const ir::ValueId v = part.value;
    const Format& f = fn_.elem(part.tensor);
    const std::string base = name(part.tensor);
    const auto otherwise = [&](const std::string& r) {
        if (!part.other.valid()) return zero(v);
        return staged(part.other, part.pointers[part.other_at], r, is_scalar(v) ? "0" : logical_number(layout(v), r));
    };
    const bool guarded = part.other.valid() && !part.pointers[part.other_at].empty();  // no element of ghosts lies in scratch
    if (checked || part.vector == 1) {
        return each_register(v, [&](const std::string& r) {
            const std::string ok = part_condition(part, r, checked), element = read(f, base, part_offset(part, r));
            std::string rest = otherwise(r);
            if (guarded && layout(v).has_ghosts()) rest = "(" + inside(layout(v), r) + " ? " + rest + " : " + zero(v) + ")";
            line(at(v, r) + " = " + (ok == "true" ? element : ok + " ? " + element + " : " + rest) + ";");
        });
    }
    const int count = registers(v) / part.vector;
    each(count, [&](const std::string& group) {
        const std::string r = count == 1 ? "0" : group + " * " + std::to_string(part.vector);
        const std::string ok = part_condition(part, r, false), pack = pack_type(v, part.vector), wide = fresh("wide");
        if (ok != "true") open("if (" + ok + ")");
        line("const " + pack + " " + wide + " = *(const " + pack + "*)(" + base + " + (" + part_offset(part, r) + "));");
        each(part.vector, [&](const std::string& i) { line(name(v) + "[" + r + " + " + i + "] = " + wide + ".e[" + i + "];"); });
        if (ok == "true") return;
        close("} else {");
        ++depth_;
        each(part.vector, [&](const std::string& i) {
            std::string rest = otherwise(r + " + " + i);
            if (guarded && layout(v).has_ghosts()) rest = inside(layout(v), r + " + " + i) + " ? " + rest + " : " + zero(v);
            line(name(v) + "[" + r + " + " + i + "] = " + rest + ";");
        });
        close();
    });
}

void Emitter::store_part(const Part& part, bool checked) {
    const ir::ValueId v = part.value;
    const Format& f = fn_.elem(part.tensor);
    const std::string base = name(part.tensor);
    if (checked || part.vector == 1) {
        return each_register(v, [&](const std::string& r) {
            const std::string ok = both(is_scalar(v) ? "t == 0" : owns(layout(v), r), part_condition(part, r, checked));
            line((ok == "true" ? "" : "if (" + ok + ") ") + write(f, base, part_offset(part, r), at(v, r)));
        });
    }
    const int count = registers(v) / part.vector;
    each(count, [&](const std::string& group) {
        const std::string r = count == 1 ? "0" : group + " * " + std::to_string(part.vector);
        const std::string ok = both(owns(layout(v), r), part_condition(part, r, false)), pack = pack_type(v, part.vector), wide = fresh("wide");
        line(pack + " " + wide + ";");
        each(part.vector, [&](const std::string& i) { line(wide + ".e[" + i + "] = " + at(v, r + " + " + i) + ";"); });
        line((ok == "true" ? "" : "if (" + ok + ") ") + "*(" + pack + "*)(" + base + " + (" + part_offset(part, r) + ")) = " + wide + ";");
    });
}

void Emitter::cuda_load(ir::InstId id) {
    declare(fn_.result(id));
    open("");
    const Part part = part_of(id);
    const bool wide = part.vector > 1 && part.whole != "true";
    if (wide) open("if (" + part.whole + ")");
    load_part(part, part.vector == 1);
    if (wide) {
        close("} else {");
        ++depth_;
        load_part(part, true);
        close();
    }
    close();
}

void Emitter::cuda_store(ir::InstId id) {
    open("");
    const Part part = part_of(id);
    const bool wide = part.vector > 1 && part.whole != "true";
    if (wide) open("if (" + part.whole + ")");
    store_part(part, part.vector == 1);
    if (wide) {
        close("} else {");
        ++depth_;
        store_part(part, true);
        close();
    }
    close();
}

}  // namespace tegula::cuda
