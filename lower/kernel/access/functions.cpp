// The instructions of loads and stores of tensors as device functions: wide ones, ones under a condition, and ones of
// the first bytes of a vector. They are inline assembly because compilers take wide accesses apart and do not always
// find them again, and because a condition inside an instruction is no branch: a kernel without branches compiles in
// half the time.
#include <algorithm>

#include "lower/kernel/access/access.h"
#include "lower/kernel/access/part.h"
#include "lower/kernel/values.h"

namespace tegula::lower {

namespace {

using Words = std::vector<std::pair<std::string_view, std::string>>;

std::string filled(std::string text, const Words& words) {
    for (const auto& [word, by] : words)
        for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
            text.replace(at, word.size(), by);
    return text;
}

// PRED is "@p " in the functions with a condition, SETP computes p.
constexpr const char* kLoad = R"(__device__ __forceinline__ TYPE $(const void* fromPARAMETERS) {
    HOLDER;
    asm volatile("{SETP PREDld.globalCACHING.KIND REGISTERS, [%COUNT]POLICY;}" : OUTPUTS : "l"(from)INPUT : "memory");
    return (TYPE)v;
}
)";
constexpr const char* kStore = R"(__device__ __forceinline__ void $(void* to, TYPE vPARAMETERS) {
    asm volatile("{SETP PREDst.globalCACHING.KIND [%COUNT], REGISTERSPOLICY;}" : : INPUTS, "l"(to)INPUT : "memory");
}
)";

/// How assembly sees a C type.
struct AsmType {
    std::string_view type;
    const char *constraint, *kind;
    const char* holder;  ///< C type of the register
    int words = 1;       ///< of a vector: registers
};
constexpr AsmType kTypes[] = {
    {"float", "f", "b32", "float"},
    {"double", "d", "b64", "double"},
    {"int", "r", "b32", "int"},
    {"unsigned", "r", "b32", "unsigned"},
    {"long long", "l", "b64", "long long"},
    {"unsigned long long", "l", "b64", "unsigned long long"},
    {"short", "h", "b16", "short"},
    {"unsigned short", "h", "b16", "unsigned short"},
    {"signed char", "r", "s8", "int"},
    {"unsigned char", "r", "u8", "unsigned"},
    {"bool", "r", "u8", "unsigned"},
    {"uint2", "r", "v2.b32", "uint2", 2},
    {"uint4", "r", "v4.b32", "uint4", 4},
};

/// The text of a load or store of a type.
std::string access_text(const std::string& type, bool load, bool conditional, const CachingText& caching) {
    const AsmType* t = std::ranges::find(kTypes, type, &AsmType::type);
    TEGULA_CHECK(t != std::end(kTypes), "assembly knows the type " + type);
    const int words = t->words;
    const std::string constraint = std::string("\"") + (load ? conditional ? "+" : "=" : "") + t->constraint + "\"(";
    Words w;
    std::string registers = "%0", values;
    if (words > 1) {
        registers.clear();
        for (int i = 0; i < words; ++i) {
            registers += (i ? ", %" : "{%") + std::to_string(i);
            values += (i ? ", " : "") + constraint + "v." + "xyzw"[i] + ")";
        }
        registers += "}";
    } else {
        values = constraint + (load ? "v" : std::string("(") + t->holder + ")v") + ")";
    }
    w.emplace_back("PARAMETERS", !conditional ? "" : load ? ", bool inside, " + type + " other" : ", bool inside");
    w.emplace_back("HOLDER", std::string(t->holder) + " v" + (conditional ? " = other" : ""));
    w.emplace_back("SETP", conditional ? ".reg .pred p; setp.ne.s32 p, %" + std::to_string(words + 1) + ", 0;" : "");
    w.emplace_back("PRED", conditional ? "@p " : "");
    w.emplace_back("KIND", t->kind);
    w.emplace_back("REGISTERS", registers);
    w.emplace_back("COUNT", std::to_string(words));
    w.emplace_back("OUTPUTS", values);
    w.emplace_back("INPUTS", values);
    w.emplace_back("INPUT", (conditional ? ", \"r\"((int)inside)" : "") + caching.input());
    w.emplace_back("CACHING", caching.suffix);
    w.emplace_back("POLICY", caching.operand(words + 1 + conditional));
    w.emplace_back("TYPE", type);
    return filled(load ? kLoad : kStore, w);
}

/// "load_16", "store_4_if" ..
std::string stem_of(const std::string& type, bool load, bool conditional) {
    std::string stem = type;
    for (char& c : stem)
        if (c == ' ') c = '_';
    return (load ? "load_" : "store_") + stem + (conditional ? "_if_" : "_");
}

constexpr const char* kLoadFirst =
    R"(// The first bytes of an aligned vector, zeros behind them; bytes beyond are not touched.
__device__ __forceinline__ TYPE $(const void* from, int bytes) {
    TYPE v;
    asm volatile("{.reg .pred all, p8, p4, p2, p1; .reg .b32 n, a, b, c, d; .reg .b64 at;\n"
                 ASSEMBLY
                 : OUTPUTS : "l"(from), "r"(bytes)INPUT : "memory");
    return v;
}
)";
constexpr const char* kStoreFirst = R"(// The first bytes of an aligned vector; bytes beyond are not touched.
__device__ __forceinline__ void $(void* to, TYPE v, int bytes) {
    asm volatile("{.reg .pred all, p8, p4, p2, p1; .reg .b32 n, a, b, c; .reg .b64 at;\n"
                 ASSEMBLY
                 : : INPUTS, "l"(to), "r"(bytes)INPUT : "memory");
}
)";

class Assembly {
public:
    Assembly(int words, const CachingText& caching)
        : at_("%" + std::to_string(words)),
          bytes_("%" + std::to_string(words + 1)),
          suffix_(caching.suffix),
          policy_(caching.operand(words + 2)),
          words_(words) {}
    std::string load(const std::string& kind, const std::string& to, const std::string& from) const {
        return "ld.global" + suffix_ + "." + kind + " " + to + ", [" + from + "]" + policy_ + ";";
    }
    std::string store(const std::string& kind, const std::string& to, const std::string& value) const {
        return "st.global" + suffix_ + "." + kind + " [" + to + "], " + value + policy_ + ";";
    }
    void line(const std::string& text) { text_ += (text_.empty() ? "\"" : "\n                 \"") + text + "\\n\""; }
    std::string done() && {
        line("}");
        return std::move(text_);
    }
    /// A predicate: bit `bit` of the number of bytes.
    void bit(int bit) {
        line("and.b32 n, " + bytes_ + ", " + std::to_string(bit) + "; setp.ne.and.b32 p" + std::to_string(bit) +
             ", n, 0, !all;");
    }
    /// at = address of the piece of `size` bytes: the larger pieces lie before it.
    std::string piece(int size) {
        const int mask = (words_ * 4 - 1) & ~(2 * size - 1);
        if (mask == 0) return at_;
        line("and.b32 n, " + bytes_ + ", " + std::to_string(mask) + "; cvt.u64.u32 at, n; add.s64 at, at, " + at_ +
             ";");
        return "at";
    }
    void all() { line("setp.ge.s32 all, " + bytes_ + ", " + std::to_string(words_ * 4) + ";"); }
    const std::string& at() const { return at_; }

private:
    std::string text_, at_, bytes_, suffix_, policy_;
    int words_;
};

/// Pieces of 8, 4, 2 and 1 bytes by the bits of the count, no smaller than an element.
std::string first_text(int words, int element, bool load, const CachingText& caching) {
    Assembly out(words, caching);
    const std::string kind = words == 4 ? "v4.b32" : "v2.b32", wide = words == 4 ? "{%0, %1, %2, %3}" : "{%0, %1}";
    out.all();
    if (load) {
        for (int i = 0; i < words; ++i) out.line("mov.b32 %" + std::to_string(i) + ", 0;");
        out.line("@all " + out.load(kind, wide, out.at()));
    } else {
        out.line("@all " + out.store(kind, out.at(), wide));
    }
    if (words == 4) {
        out.bit(8);
        out.line("@p8 " +
                 (load ? out.load("v2.b32", "{%0, %1}", out.at()) : out.store("v2.b32", out.at(), "{%0, %1}")));
    }
    if (element == 8) return std::move(out).done();
    out.bit(4);
    if (!load) {
        out.line(words == 4 ? "selp.b32 a, %2, %0, p8; selp.b32 b, %3, %1, p8;" : "mov.b32 a, %0; mov.b32 b, %1;");
        std::string at = out.piece(4);
        out.line("@p4 " + out.store("b32", at, "a"));
        if (element == 4) return std::move(out).done();
        out.line("selp.b32 c, b, a, p4;");
        out.bit(2);
        at = out.piece(2);
        out.line("@p2 " + out.store("u16", at, "c"));
        if (element == 2) return std::move(out).done();
        out.line("@p2 shr.b32 c, c, 16;");
        out.bit(1);
        at = out.piece(1);
        out.line("@p1 " + out.store("u8", at, "c"));
        return std::move(out).done();
    }
    std::string at = out.piece(4);
    out.line("mov.b32 a, 0; mov.b32 b, 0; @p4 " + out.load("b32", "a", at));
    if (element < 4) {
        out.bit(2);
        at = out.piece(2);
        out.line("mov.b32 c, 0; @p2 " + out.load("u16", "c", at));
        if (element == 1) {
            out.bit(1);
            at = out.piece(1);
            out.line("mov.b32 d, 0; @p1 " + out.load("u8", "d", at) + " @p2 shl.b32 d, d, 16; or.b32 c, c, d;");
        }
        out.line("selp.b32 b, c, 0, p4; @!p4 mov.b32 a, c;");
    }
    if (words == 4) out.line("@p8 mov.b32 %2, a; @p8 mov.b32 %3, b;");
    if (words == 4) out.line("or.pred all, all, p8;");
    out.line("@!all mov.b32 %0, a; @!all mov.b32 %1, b;");
    return std::move(out).done();
}

}  // namespace

bool is_plain(const ir::Access& access) {
    const auto gathers = [](const ir::Access::Axis& a) { return a.kind == ir::Access::gather; };
    return access.plain() && std::none_of(access.axes.begin(), access.axes.end(), gathers);
}

std::string access_function(Lowering& ctx, const std::string& type, bool load, bool conditional,
                            const CachingText& caching) {
    const std::string stem = stem_of(type, load, conditional) + caching.stem;
    return support(ctx, stem, stem, access_text(type, load, conditional, caching));
}

std::string first_function(Lowering& ctx, size_t bytes, size_t element, bool load, const CachingText& caching) {
    const int words = static_cast<int>(bytes) / 4;
    const std::string stem = std::string(load ? "load_first_" : "store_first_") + std::to_string(bytes) + "_" +
                             std::to_string(element) + "_" + caching.stem;
    std::string values;
    for (int i = 0; i < words; ++i)
        values += std::string(i ? ", " : "") + (load ? "\"=&r\"(v." : "\"r\"(v.") + "xyzw"[i] + ")";
    return support(ctx, stem, stem,
                   filled(load ? kLoadFirst : kStoreFirst,
                          {{"ASSEMBLY", first_text(words, static_cast<int>(element), load, caching)},
                           {"OUTPUTS", values},
                           {"INPUTS", values},
                           {"INPUT", caching.input()},
                           {"TYPE", wide_type(bytes)}}));
}

}  // namespace tegula::lower
