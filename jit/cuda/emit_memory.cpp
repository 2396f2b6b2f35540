// load and store of parts of tensors (emit_part.cpp). Where a thread's registers hold neighbours in memory and everything is aligned and inside, a
// loop of wide accesses; else one element at a time, each with its own bounds. Only one of several threads with copies stores.
#include "jit/cuda/emit_access.h"

namespace tegula::cuda {

namespace {

std::string both(const std::string& a, const std::string& b) { return a == "true" ? b : b == "true" ? a : a + " && " + b; }

/// Compilers take wide accesses apart and do not always find them again: the instruction itself. The other branch is for a CPU.
constexpr const char* kLoadWide = R"(#ifdef __CUDACC__
__device__ __forceinline__ TYPE $(const void* from) {
    TYPE v;
    asm volatile("ld.global.VECTOR.b32 {REGISTERS}, [%COUNT];" : OUTPUTS : "l"(from) : "memory");
    return v;
}
#else
inline TYPE $(const void* from) { return *(const TYPE*)from; }
#endif
)";
constexpr const char* kStoreWide = R"(#ifdef __CUDACC__
__device__ __forceinline__ void $(void* to, TYPE v) {
    asm volatile("st.global.VECTOR.b32 [%COUNT], {REGISTERS};" : : INPUTS, "l"(to) : "memory");
}
#else
inline void $(void* to, TYPE v) { *(TYPE*)to = v; }
#endif
)";

std::string filled(std::string text, std::initializer_list<std::pair<std::string_view, std::string_view>> words) {
    for (const auto& [word, by] : words)
        for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size())) text.replace(at, word.size(), by);
    return text;
}

/// The text of a wide access of 8 or 16 bytes.
std::string wide_text(const char* text, bool four) {
    return filled(text, {{"TYPE", four ? "uint4" : "uint2"},
                         {"VECTOR", four ? "v4" : "v2"},
                         {"REGISTERS", four ? "%0, %1, %2, %3" : "%0, %1"},
                         {"COUNT", four ? "4" : "2"},
                         {"OUTPUTS", four ? "\"=r\"(v.x), \"=r\"(v.y), \"=r\"(v.z), \"=r\"(v.w)" : "\"=r\"(v.x), \"=r\"(v.y)"},
                         {"INPUTS", four ? "\"r\"(v.x), \"r\"(v.y), \"r\"(v.z), \"r\"(v.w)" : "\"r\"(v.x), \"r\"(v.y)"}});
}

const char* wide_type(size_t bytes) { return bytes == 16 ? "uint4" : bytes == 8 ? "uint2" : bytes == 4 ? "unsigned" : "unsigned short"; }

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

/// `bytes` at an address, as wide_type.
std::string Emitter::read_wide(size_t bytes, const std::string& from) {
    if (bytes < 8) return std::string("*(const ") + wide_type(bytes) + "*)(" + from + ")";
    const std::string name = bytes == 16 ? "load_16" : "load_8";
    return support(name, name + "_", wide_text(kLoadWide, bytes == 16)) + "(" + from + ")";
}

std::string Emitter::write_wide(size_t bytes, const std::string& to, const std::string& value) {
    if (bytes < 8) return std::string("*(") + wide_type(bytes) + "*)(" + to + ") = " + value + ";";
    const std::string name = bytes == 16 ? "store_16" : "store_8";
    return support(name, name + "_", wide_text(kStoreWide, bytes == 16)) + "(" + to + ", " + value + ");";
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
    const size_t bytes = static_cast<size_t>(part.vector) * f.container_bytes();
    const std::string type = wide_type(bytes);
    const int count = registers(v) / part.vector;
    each(count, [&](const std::string& group) {
        const std::string r = count == 1 ? "0" : group + " * " + std::to_string(part.vector);
        const std::string ok = part_condition(part, r, false), wide = fresh("wide");
        if (ok != "true") open("if (" + ok + ")");
        line("alignas(16) " + type_of(v) + " " + wide + "[" + std::to_string(part.vector) + "];");
        line("*(" + type + "*)" + wide + " = " + read_wide(bytes, base + " + (" + part_offset(part, r) + ")") + ";");
        each(part.vector, [&](const std::string& i) { line(name(v) + "[" + r + " + " + i + "] = " + wide + "[" + i + "];"); });
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
    if (checked && part.vector == 8 && type_of(v) == "unsigned short") {
        // At the tensor's edge a loop that shifts eight elements out: unrolled, this rare path would be most of the kernel's text.
        each(registers(v) / 8, [&](const std::string& group) {
            const std::string low = fresh("low"), high = fresh("high"), r = fresh("r");
            for (const auto& [word, first] : {std::pair{low, 0}, std::pair{high, 4}}) {
                line("unsigned long long " + word + " = 0;");
                each(4, [&, first = first, word = word](const std::string& i) {
                    line(word + " |= (unsigned long long)" + at(v, group + " * 8 + " + std::to_string(first) + " + " + i) + " << 16 * " + i + ";");
                });
            }
            line("#pragma unroll 1");
            open("for (int " + r + " = " + group + " * 8; " + r + " < " + group + " * 8 + 8; ++" + r + ")");
            const std::string ok = both(owns(layout(v), r), part_condition(part, r, true));
            line((ok == "true" ? "" : "if (" + ok + ") ") + write(f, base, part_offset(part, r), "(unsigned short)" + low));
            line(low + " = " + low + " >> 16 | " + high + " << 48;");
            line(high + " >>= 16;");
            close();
        });
        return;
    }
    if (checked || part.vector == 1) {
        return each_register(v, [&](const std::string& r) {
            const std::string ok = both(is_scalar(v) ? "t == 0" : owns(layout(v), r), part_condition(part, r, checked));
            line((ok == "true" ? "" : "if (" + ok + ") ") + write(f, base, part_offset(part, r), at(v, r)));
        });
    }
    const size_t bytes = static_cast<size_t>(part.vector) * f.container_bytes();
    const std::string type = wide_type(bytes);
    const int count = registers(v) / part.vector;
    each(count, [&](const std::string& group) {
        const std::string r = count == 1 ? "0" : group + " * " + std::to_string(part.vector);
        const std::string ok = both(owns(layout(v), r), part_condition(part, r, false)), wide = fresh("wide");
        line("alignas(16) " + type_of(v) + " " + wide + "[" + std::to_string(part.vector) + "];");
        each(part.vector, [&](const std::string& i) { line(wide + "[" + i + "] = " + at(v, r + " + " + i) + ";"); });
        line((ok == "true" ? "" : "if (" + ok + ") ") +
             write_wide(bytes, base + " + (" + part_offset(part, r) + ")", "*(const " + type + "*)" + wide));
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
    Part part = part_of(id);
    if (store_collides(fn_, id)) part_last(part);
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
