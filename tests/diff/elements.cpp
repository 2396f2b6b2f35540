// The table of elements (elements.h).
#include "tests/diff/elements.h"

namespace tegula::diff {

namespace {

const std::vector<Element> kElementKinds = {
    {"f32", Kind::floating, 32},
    {"f64", Kind::floating, 64},
    {"f16", Kind::floating, 16},
    {"bf16", Kind::floating, 16},
    {"f8e4m3", Kind::floating, 8},
    {"f8e5m2", Kind::floating, 8},
    {"f6e2m3", Kind::floating, 6},
    {"f4e2m1", Kind::floating, 4},
    {"i32", Kind::integer, 32},
    {"u32", Kind::integer, 32},
    {"i8", Kind::integer, 8},
    {"u8", Kind::integer, 8},
    {"i16", Kind::integer, 16},
    {"u16", Kind::integer, 16},
    {"i64", Kind::integer, 64},
    {"u64", Kind::integer, 64},
    {"i4", Kind::integer, 4},
    {"u4", Kind::integer, 4},
    {"i3", Kind::integer, 3},
    {"u5", Kind::integer, 5},
    {"u1", Kind::integer, 1},
    {"i13", Kind::integer, 13},
    {"u27", Kind::integer, 27},
    {"i50", Kind::integer, 50},
    {"bool", Kind::boolean, 1},
    // Drawn less often, all together as often as a quarter of all.
    {"tf32", Kind::floating, 32},
    {"f6e3m2", Kind::floating, 6},
    {"f8e4m3fnuz", Kind::floating, 8},
    {"f8e5m2fnuz", Kind::floating, 8},
    {"f8e8m0", Kind::floating, 8},
    {"flt5", Kind::floating, 6, "float<5, 0>"},
    {"flt3", Kind::floating, 3, "float<2, 0, nan = none>"},
    {"flt6", Kind::floating, 6, "float<3, 2>"},
    {"fltu", Kind::floating, 8, "float<5, 3, nan = all_ones, signed = false>"},
    {"fltz", Kind::floating, 9, "float<4, 4, bias = 9, subnormal = false>"},
    {"flt16", Kind::floating, 16, "float<6, 9>"},
    {"flt28", Kind::floating, 28, "float<7, 20>"},
    {"flt50", Kind::floating, 50, "float<10, 39>"},
    {"fxp2", Kind::fixed, 8, "fixed<2, 6>"},
    {"fxp8", Kind::fixed, 8, "fixed<1, 7>"},
    {"fxp12", Kind::fixed, 12, "fixed<6, 6>"},
    {"fxp17", Kind::fixed, 17, "fixed<9, 8>"},
    {"fxp32", Kind::fixed, 32, "fixed<16, 16>"},
    {"fxpu8", Kind::fixed, 8, "ufixed<0, 8>"},
    {"fxpu11", Kind::fixed, 11, "ufixed<5, 6>"},
    {"fxpu31", Kind::fixed, 31, "ufixed<20, 11>"},
    {"lns4", Kind::logarithm, 4, "lns<3, 0>"},
    {"lns8", Kind::logarithm, 8, "lns<4, 3>"},
    {"lns16", Kind::logarithm, 16, "lns<7, 8>"},
    {"signs", Kind::table, 1, "codebook<1>[-1.0, 1.0]"},
    {"powers", Kind::table, 3, "codebook<3>[0.0, 1.0, -2.0, 4.0, -8.0, 16.0, 0.25, 4.0]"},
    {"formats.nf4", Kind::table, 4},
};

}  // namespace

const std::vector<Element>& elements() { return kElementKinds; }

Element element_of(const std::string& name) {
    for (const Element& e : kElementKinds)
        if (e.name == name) return e;
    return {name, Kind::integer, std::stoi(name.substr(1))};
}

std::string widened(const std::string& t) {
    if (is_float(t)) return t == "f64" || bits_of(t) > 32 ? t : "f32";
    return is_int(t) && bits_of(t) < 32 ? (is_unsigned(t) ? "u32" : "i32") : t;
}

std::string accumulator(const std::string& t) {
    if (!is_int(t)) return t == "f64" ? "f64" : "f32";
    return (is_unsigned(t) ? "u" : "i") + std::string(bits_of(t) > 32 ? "64" : "32");
}

}  // namespace tegula::diff
