// Reference for std.math in f64: the definitions of stdlib/math.tile, transcribed expression by expression into C++ over the primitive
// operations of math_reference.h. The order of operations is the definition of the result bits: change both or neither.
// tests/unit/math_test.cpp compares the two bit for bit, and both against MPFR.
#pragma once
#include "math_reference.h"

namespace math_reference {

// exp(x) * 2^s where magic = 1.5 * 2^52 + 2 * bias + s. Two scale factors, so that only the last product can round a subnormal.
inline f64 exp_scaled(f64 x, f64 magic) {
    const auto t = fma(x, 0x1.71547652b82fep0, magic);
    const auto n = t - magic;
    const auto r = fma(n, -0x1.abc9e3b39803fp-56, fma(n, -0x1.62e42fefa39efp-1, x));
    auto p = fma(r, 0x1.aeac508e0038ap-26, 0x1.2891d941bb062p-22);
    p = fma(fma(p, r, 0x1.71de59bee7e1bp-19), r, 0x1.a019b8b4ea847p-16);
    p = fma(fma(p, r, 0x1.a01a018c422adp-13), r, 0x1.6c16c178ab325p-10);
    p = fma(fma(p, r, 0x1.11111111144c5p-7), r, 0x1.5555555553cdcp-5);
    p = fma(fma(p, r, 0x1.555555555554dp-3), r, 0x1.0000000000001p-1);
    p = fma(fma(p, r, 1.0), r, 1.0);
    const auto k = bitcast<u64>(t);
    const auto h = k >> 1;
    return p * bitcast<f64>(h << 52) * bitcast<f64>((k - h) << 52);
}

inline f64 exp(f64 x) { return exp_scaled(min(max(x, -746.0), 710.0), 0x1.80000000007fep52); }

// (p, s, t) with exp(hi + lo) = (1 + p) * s * t; hi may be infinite, lo must be finite and small against 1.
inline std::tuple<f64, f64, f64> exp_parts(f64 hi, f64 lo) {
    const auto x = min(max(hi, -746.0), 710.0);
    const auto t = fma(x, 0x1.71547652b82fep0, 0x1.80000000007fep52);
    const auto n = t - 0x1.80000000007fep52;
    const auto a = fma(n, -0x1.62e42fefa39efp-1, x);
    const auto b = fma(n, -0x1.abc9e3b39803fp-56, lo);
    const auto r = a + b;
    auto p = fma(r, 0x1.aeac508e0038ap-26, 0x1.2891d941bb062p-22);
    p = fma(fma(p, r, 0x1.71de59bee7e1bp-19), r, 0x1.a019b8b4ea847p-16);
    p = fma(fma(p, r, 0x1.a01a018c422adp-13), r, 0x1.6c16c178ab325p-10);
    p = fma(fma(p, r, 0x1.11111111144c5p-7), r, 0x1.5555555553cdcp-5);
    p = fma(fma(p, r, 0x1.555555555554dp-3), r, 0x1.0000000000001p-1);
    const auto k = bitcast<u64>(t);
    const auto h = k >> 1;
    return {fma(fma(p, r, 1.0), r, (a - r) + b), bitcast<f64>(h << 52), bitcast<f64>((k - h) << 52)};
}

inline f64 exp2(f64 x) {
    const auto c = min(max(x, -1075.0), 1024.0);
    const auto t = c + 0x1.80000000007fep52;
    const auto r = c - (t - 0x1.80000000007fep52);
    auto p = fma(r, 0x1.eb5b339978ecbp-32, 0x1.e6055b948ef0cp-28);
    p = fma(fma(p, r, 0x1.b523dc3426263p-24), r, 0x1.62bfd4fd3bffp-20);
    p = fma(fma(p, r, 0x1.ffcbfd017813ap-17), r, 0x1.430913093a648p-13);
    p = fma(fma(p, r, 0x1.5d87fe788044ep-10), r, 0x1.3b2ab6fba1ee2p-7);
    p = fma(fma(p, r, 0x1.c6b08d704a1acp-5), r, 0x1.ebfbdff82c598p-3);
    p = fma(p, r, 0x1.62e42fefa39efp-1);
    p = fma(p, r, 1.0);
    const auto k = bitcast<u64>(t);
    const auto h = k >> 1;
    return p * bitcast<f64>(h << 52) * bitcast<f64>((k - h) << 52);
}

inline f64 expm1(f64 x) {
    const auto c = min(max(x, -38.0), 710.0);
    const auto t = fma(c, 0x1.71547652b82fep0, 0x1.80000000003fep52);
    const auto n = t - 0x1.80000000003fep52;
    const auto r1 = fma(n, -0x1.62e42fefa39efp-1, c);
    const auto r = fma(n, -0x1.abc9e3b39803fp-56, r1);
    auto p = fma(r, 0x1.aeac508e0038ap-26, 0x1.2891d941bb062p-22);
    p = fma(fma(p, r, 0x1.71de59bee7e1bp-19), r, 0x1.a019b8b4ea847p-16);
    p = fma(fma(p, r, 0x1.a01a018c422adp-13), r, 0x1.6c16c178ab325p-10);
    p = fma(fma(p, r, 0x1.11111111144c5p-7), r, 0x1.5555555553cdcp-5);
    p = fma(fma(p, r, 0x1.555555555554dp-3), r, 0x1.0000000000001p-1);
    p = fma(p * r, r, fma(n, -0x1.abc9e3b39803fp-56, r1 - r));
    const auto s = bitcast<f64>(bitcast<u64>(t) << 52);
    const auto b = s - 0.5;
    const auto h = fma(s, r, b);
    const auto y = h + fma(s, p, fma(s, r, b - h));
    return select(abs(x) < 0x1p-54, x, y + y);
}

// x = 2^e * (1 + f) for finite x > 0, 1 + f in [sqrt(1/2), sqrt(2)): (e, f).
inline std::tuple<f64, f64> log_split(f64 x) {
    const auto sub = x < 0x1p-1022;
    const auto b = bitcast<i64>(select(sub, x * 0x1p52, x));
    const auto k = (b - 0x3fe6a09e667f3bcd) >> 52;
    const auto e = cast<f64>(k);
    return {select(sub, e - 52.0, e), bitcast<f64>(b - (k << 52)) - 1.0};
}

// log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt(2)].
inline f64 log_tail(f64 f) {
    const auto s = f / (f + 2.0);
    const auto z = s * s;
    auto p = fma(z, 0x1.2b5b8533b7489p-3, 0x1.39fe212aea87bp-3);
    p = fma(fma(p, z, 0x1.7462b661a6659p-3), z, 0x1.c71c62e0b72cbp-3);
    p = fma(fma(p, z, 0x1.2492492df3035p-2), z, 0x1.9999999995303p-2);
    p = fma(p, z, 0x1.5555555555558p-1);
    const auto u = 0.5 * f * f;
    return fma(s, fma(p, z, u), -u);
}

// The value y of a logarithm of x, with the special cases: -inf at 0, NaN below, x itself at +inf and NaN.
inline f64 log_special(f64 x, f64 y) {
    const auto s = select(x == 0.0, -inf, select(x < 0.0, nan, x));
    return select(x > 0.0 && x < inf, y, s);
}

inline f64 log(f64 x) {
    auto [e, f] = log_split(x);
    const auto h = e * 0x1.62e42fefa4p-1;
    const auto s = h + f;
    const auto l = (h - s) + f;
    return log_special(x, s + (fma(e, -0x1.8432a1b0e2634p-43, log_tail(f)) + l));
}

inline f64 log2(f64 x) {
    auto [e, f] = log_split(x);
    const auto t = f * 0x1.71547652b82fep0;
    const auto r = fma(log_tail(f), 0x1.71547652b82fep0, fma(f, 0x1.777d0ffda0d24p-56, fma(f, 0x1.71547652b82fep0, -t)));
    const auto s = e + t;
    return log_special(x, s + (((e - s) + t) + r));
}

inline f64 log10(f64 x) {
    auto [e, f] = log_split(x);
    const auto t = f * 0x1.bcb7b1526e50ep-2;
    const auto r = fma(log_tail(f), 0x1.bcb7b1526e50ep-2, fma(f, 0x1.95355baaafad3p-57, fma(f, 0x1.bcb7b1526e50ep-2, -t)));
    const auto h = e * 0x1.34413509f8p-2;
    const auto s = h + t;
    return log_special(x, s + (((h - s) + t) + fma(e, -0x1.80433b83b532ap-44, r)));
}

// log(1 + x): the exponent k of 1 + x is taken out of x before anything is rounded.
inline f64 log1p(f64 x) {
    const auto k = (bitcast<i64>(1.0 + x) - 0x3fe6a09e667f3bcd) >> 52;
    const auto d = k << 52;
    const auto m = bitcast<f64>(bitcast<i64>(x) - d);
    const auto c = fma(bitcast<f64>(0x4010000000000000 - d), 0.25, -1.0);
    const auto f = m + c;
    const auto l = select(abs(m) < abs(c), (c - f) + m, (m - f) + c);
    const auto e = cast<f64>(k);
    const auto y = select(abs(x) < 0x1p-54, x, fma(e, 0x1.62e42fefa39efp-1, f + (log_tail(f) + fma(e, 0x1.abc9e3b39803fp-56, l))));
    const auto s = select(x == -1.0, -inf, select(x < -1.0, nan, x));
    return select(x > -1.0 && x < inf, y, s);
}

// Reduction of any finite x: (r, l, q) with x = q * pi/2 + r + l (q modulo 4), |r| <= pi/4 up to rounding.
inline std::tuple<f64, f64, i32> trig_reduce(f64 x) {
    const auto t = fma(x, 0x1.45f306dc9c883p-1, 0x1.8p52);
    const auto n = t - 0x1.8p52;
    const auto r1 = fma(n, -0x1.921fb54442d18p0, x);
    const auto p2 = n * 0x1.1a62633145c07p-54;
    const auto r2 = r1 - p2;
    const auto bb = r2 - r1;
    const auto l2 = (r1 - (r2 - bb)) - (p2 + bb);
    const auto e2 = l2 - fma(n, -0x1.f1976b7ed8fbcp-110, fma(n, 0x1.1a62633145c07p-54, -p2));
    const auto rs = r2 + e2;
    const auto ls = (r2 - rs) + e2;
    // Payne-Hanek: 192 bits of 2/pi, from the bit that weighs 2 in units of a quarter turn, times the 53-bit significand.
    const auto b = bitcast<u64>(x);
    const auto o = ((b >> 52) & 2047) - 1013;
    const auto s = o & 63;
    const auto m = (b & 0xfffffffffffff) | 0x10000000000000;
    const u64 z = 0;
    const u64 t0 = 0x0000000000000000;
    const u64 t1 = 0xa2f9836e4e441529;
    const u64 t2 = 0xfc2757d1f534ddc0;
    const u64 t3 = 0xdb6295993c439041;
    const u64 t4 = 0xfe5163abdebbc561;
    const u64 t5 = 0xb7246e3a424dd2e0;
    const u64 t6 = 0x06492eea09d1921c;
    const u64 t7 = 0xfe1deb1cb129a73e;
    const u64 t8 = 0xe88235f52ebb4484;
    const u64 t9 = 0xe99c7026b45f7e41;
    const u64 t10 = 0x3991d639835339f4;
    const u64 t11 = 0x9c845f8bbdf9283b;
    const u64 t12 = 0x1ff897ffde05980f;
    const u64 t13 = 0xef2f118b5a0a6d1f;
    const u64 t14 = 0x6d367ecf27cb09b7;
    const u64 t15 = 0x4f463f669e5fea2d;
    const u64 t16 = 0x7527bac7ebe5f17b;
    const u64 t17 = 0x3d0739f78a5292ea;
    const u64 t18 = 0x6bfb5fb11f8d5d08;
    const u64 t19 = 0x56033046fc7b6bab;
    const auto c16 = (o & 1024) != 0;
    const auto g0_0 = select(c16, t16, t0);
    const auto g0_1 = select(c16, t17, t1);
    const auto g0_2 = select(c16, t18, t2);
    const auto g0_3 = select(c16, t19, t3);
    const auto c8 = (o & 512) != 0;
    const auto g1_0 = select(c8, t8, g0_0);
    const auto g1_1 = select(c8, t9, g0_1);
    const auto g1_2 = select(c8, t10, g0_2);
    const auto g1_3 = select(c8, t11, g0_3);
    const auto g1_4 = select(c8, t12, t4);
    const auto g1_5 = select(c8, t13, t5);
    const auto g1_6 = select(c8, t14, t6);
    const auto g1_7 = select(c8, t15, t7);
    const auto g1_8 = select(c8, t16, t8);
    const auto g1_9 = select(c8, t17, t9);
    const auto g1_10 = select(c8, t18, t10);
    const auto c4 = (o & 256) != 0;
    const auto g2_0 = select(c4, g1_4, g1_0);
    const auto g2_1 = select(c4, g1_5, g1_1);
    const auto g2_2 = select(c4, g1_6, g1_2);
    const auto g2_3 = select(c4, g1_7, g1_3);
    const auto g2_4 = select(c4, g1_8, g1_4);
    const auto g2_5 = select(c4, g1_9, g1_5);
    const auto g2_6 = select(c4, g1_10, g1_6);
    const auto c2 = (o & 128) != 0;
    const auto g3_0 = select(c2, g2_2, g2_0);
    const auto g3_1 = select(c2, g2_3, g2_1);
    const auto g3_2 = select(c2, g2_4, g2_2);
    const auto g3_3 = select(c2, g2_5, g2_3);
    const auto g3_4 = select(c2, g2_6, g2_4);
    const auto c1 = (o & 64) != 0;
    const auto v0 = select(c1, g3_1, g3_0);
    const auto v1 = select(c1, g3_2, g3_1);
    const auto v2 = select(c1, g3_3, g3_2);
    const auto v3 = select(c1, g3_4, g3_3);
    const auto n64 = 64 - s;
    const auto w0 = (v0 << s) | (v1 >> n64);
    const auto w1 = (v1 << s) | (v2 >> n64);
    const auto w2 = (v2 << s) | (v3 >> n64);
    const auto d = m * w1;
    const auto lo = d + umulhi(m, w2);
    const auto hi = m * w0 + umulhi(m, w1) + select(lo < d, z + 1, z);
    const auto q = (hi + 0x2000000000000000) >> 62;
    const auto f = bitcast<i64>(hi - (q << 62));
    const auto g = f >> 63;
    const auto fm = bitcast<u64>(f ^ g);
    const auto lm = lo ^ bitcast<u64>(g);
    const auto a = cast<f64>((fm >> 9) << 9);
    const auto e = cast<f64>(((fm & 511) << 55) | (lm >> 9));
    const auto p = a * 0x1.921fb54442d18p-62;
    const auto pe = fma(e, 0x1.921fb54442d18p-117, fma(a, 0x1.1a62633145c07p-116, fma(a, 0x1.921fb54442d18p-62, -p)));
    const auto ra = p + pe;
    const auto la = (p - ra) + pe;
    const auto neg = bitcast<i64>(b) ^ g;
    const auto rb = select(neg < 0, -ra, ra);
    const auto lb = select(neg < 0, -la, la);
    const auto qi = bitcast<i64>(q);
    const auto big = abs(x) >= 0x1p20;
    const auto qq = select(big, select(x < 0.0, -qi, qi), bitcast<i64>(t));
    return {select(big, rb, rs), select(big, lb, ls), cast<i32>(qq & 3)};
}

// sin(r + l) - r for |r| <= pi/4.
inline f64 sin_tail(f64 r, f64 l) {
    const auto z = r * r;
    auto p = fma(z, -0x1.8dc187b1734b9p-41, 0x1.60e6970906aa7p-33);
    p = fma(fma(p, z, -0x1.ae63f911dc308p-26), z, 0x1.71de3a10dff6fp-19);
    p = fma(fma(p, z, -0x1.a01a019fe8e1p-13), z, 0x1.111111111101fp-7);
    p = fma(p, z, -0x1.5555555555555p-3);
    return fma(p * z, r, fma(z * -0.5, l, l));
}

// (1 - r^2/2 rounded, the rest of cos(r + l)).
inline std::tuple<f64, f64> cos_parts(f64 r, f64 l) {
    const auto z = r * r;
    auto p = fma(z, -0x1.90733bd44796p-37, 0x1.1eeb576e4fd38p-29);
    p = fma(fma(p, z, -0x1.27e4fa02851abp-22), z, 0x1.a01a019f37f33p-16);
    p = fma(fma(p, z, -0x1.6c16c16c168c9p-10), z, 0x1.5555555555555p-5);
    const auto w = fma(z, -0.5, 1.0);
    return {w, fma(z, -0.5, 1.0 - w) + fma(p * z, z, -(r * l))};
}

inline f64 sin_quadrant(f64 r, f64 l, i32 q) {
    auto [c, d] = cos_parts(r, l);
    const auto y = select((q & 1) != 0, c + d, r + sin_tail(r, l));
    return select((q & 2) != 0, -y, y);
}

inline f64 sin(f64 x) {
    auto [r, l, q] = trig_reduce(x);
    const auto y = select(abs(x) < 0x1p-54, x, sin_quadrant(r, l, q));
    return select(abs(x) < inf, y, x - x);
}

inline f64 cos(f64 x) {
    auto [r, l, q] = trig_reduce(x);
    return select(abs(x) < inf, sin_quadrant(r, l, q + 1), x - x);
}

inline f64 tan(f64 x) {
    auto [r, l, q] = trig_reduce(x);
    const auto st = sin_tail(r, l);
    const auto s = r + st;
    const auto sl = (r - s) + st;
    auto [cw, cd] = cos_parts(r, l);
    const auto c = cw + cd;
    const auto cl = (cw - c) + cd;
    const auto odd = (q & 1) != 0;
    const auto n = select(odd, -c, s);
    const auto nl = select(odd, -cl, sl);
    const auto d = select(odd, s, c);
    const auto dl = select(odd, sl, cl);
    const auto i = 1.0 / d;
    const auto y = n * i;
    const auto e = fma(-y, d, n) + fma(-y, dl, nl);
    const auto t = select(abs(x) < 0x1p-54, x, fma(e, i, y));
    return select(abs(x) < inf, t, x - x);
}

// asin(s) - s for z = s^2 <= 1/4.
inline f64 asin_tail(f64 s, f64 z) {
    auto p = fma(z, 0x1.da43d6d06327fp-6, -0x1.f01477dd43f69p-7);
    p = fma(fma(p, z, 0x1.203bdbe9a43f8p-6), z, 0x1.60d7477e0074cp-8);
    p = fma(fma(p, z, 0x1.52d9116d4311p-7), z, 0x1.780dc5a9d84bfp-7);
    p = fma(fma(p, z, 0x1.c9d1b64da3521p-7), z, 0x1.1c4d1ccd77554p-6);
    p = fma(fma(p, z, 0x1.6e8bb2f52b683p-6), z, 0x1.f1c71c151278p-6);
    p = fma(fma(p, z, 0x1.6db6db6e433f6p-5), z, 0x1.3333333332ddp-4);
    p = fma(p, z, 0x1.5555555555556p-3);
    return p * z * s;
}

inline f64 asin(f64 x) {
    const auto a = abs(x);
    const auto big = a > 0.5;
    const auto z = select(big, fma(a, -0.5, 0.5), a * a);
    const auto s = select(big, sqrt(z), a);
    const auto p = asin_tail(s, z);
    const auto d = fma(s, -2.0, 0x1.921fb54442d18p0);
    const auto e = fma(s, -2.0, 0x1.921fb54442d18p0 - d);
    const auto y = select(big, d - (fma(p, 2.0, -0x1.1a62633145c07p-54) - e), s + p);
    return copysign(y, x);
}

inline f64 acos(f64 x) {
    const auto a = abs(x);
    const auto big = a > 0.5;
    const auto z = select(big, fma(a, -0.5, 0.5), a * a);
    const auto s = select(big, sqrt(z), x);
    const auto p = asin_tail(s, z);
    const auto low = 0x1.921fb54442d18p0 - (s + (p - 0x1.1a62633145c07p-54));
    const auto w = s + p;
    const auto high = select(x < 0.0, fma(s, -2.0, 0x1.921fb54442d18p1) - fma(p, 2.0, -0x1.1a62633145c07p-53), w + w);
    return select(big, high, low);
}

// atan(t) - t for |t| <= 1.
inline f64 atan_tail(f64 t) {
    const auto z = t * t;
    auto p = fma(z, -0x1.8b4d96457740ap-17, 0x1.1dca5b302f652p-13);
    p = fma(fma(p, z, -0x1.8884448981f14p-11), z, 0x1.5670bc38c2c66p-9);
    p = fma(fma(p, z, -0x1.ad6d8c9f50845p-8), z, 0x1.a0c3bd577e07dp-7);
    p = fma(fma(p, z, -0x1.4ad7271debd2dp-6), z, 0x1.c2f818b7530c9p-6);
    p = fma(fma(p, z, -0x1.143967a2edad4p-5), z, 0x1.3d199f9d75badp-5);
    p = fma(fma(p, z, -0x1.60db0e13036e8p-5), z, 0x1.8544a62f6fbe4p-5);
    p = fma(fma(p, z, -0x1.aeff2c2b6e1dcp-5), z, 0x1.e1dbbb8658f4fp-5);
    p = fma(fma(p, z, -0x1.1110b9b16184ap-4), z, 0x1.3b13aa464c468p-4);
    p = fma(fma(p, z, -0x1.745d16e54a55p-4), z, 0x1.c71c71c3cfb5fp-4);
    p = fma(fma(p, z, -0x1.249249248a387p-3), z, 0x1.999999999987ep-3);
    p = fma(p, z, -0x1.5555555555555p-2);
    return p * z * t;
}

inline f64 atan(f64 x) {
    const auto a = abs(x);
    const auto big = a > 1.0;
    const auto t = select(big, 1.0 / a, a);
    const auto p = atan_tail(t);
    const auto y = select(big, 0x1.921fb54442d18p0 - (t + (p - 0x1.1a62633145c07p-54)), t + p);
    return copysign(y, x);
}

inline f64 atan2(f64 y, f64 x) {
    const auto ax = abs(x);
    const auto ay = abs(y);
    const auto hi = max(ax, ay);
    const auto lo = min(ax, ay);
    const auto t = select(lo == inf, 1.0, select(hi == 0.0, 0.0, lo / hi));
    const auto swap = ay > ax;
    const auto back = signbit(x);
    const auto v = select(swap != back, -t, t);
    const auto r = v + atan_tail(v);
    const f64 pa = 0x1.921fb54442d18p1;
    const f64 pb = 0x1.1a62633145c07p-53;
    const auto bh = select(swap, 0x1.921fb54442d18p0, select(back, pa, 0.0));
    const auto bl = select(swap, 0x1.1a62633145c07p-54, select(back, pb, 0.0));
    return copysign(bh + (r + bl), y);
}

// sinh(x) for |x| <= 1.
inline f64 sinh_small(f64 x) {
    const auto z = x * x;
    auto p = fma(z, 0x1.d9ba54a124c11p-47, 0x1.98c01cbe1c081p-41);
    p = fma(fma(p, z, 0x1.6144eac704733p-33), z, 0x1.ae6424ea2ee6ap-26);
    p = fma(fma(p, z, 0x1.71de3a7de0352p-19), z, 0x1.a01a019ff8236p-13);
    p = fma(fma(p, z, 0x1.11111111111d9p-7), z, 0x1.5555555555555p-3);
    return fma(p * z, x, x);
}

inline f64 sinh(f64 x) {
    const auto a = abs(x);
    const auto h = exp_scaled(min(a, 720.0), 0x1.80000000007fdp52);
    const auto y = select(a < 1.0, sinh_small(a), h - 0.25 / h);
    return copysign(y, x);
}

inline f64 cosh(f64 x) {
    const auto h = exp_scaled(min(abs(x), 720.0), 0x1.80000000007fdp52);
    return h + 0.25 / h;
}

inline f64 tanh(f64 x) {
    const auto a = abs(x);
    const auto c = min(a, 20.0);
    const auto z = c * c;
    auto p = fma(z, 0x1.b4e4a67282b2ap-18, -0x1.069da2e67b3f3p-15);
    p = fma(fma(p, z, 0x1.84c792dbaff14p-14), z, -0x1.f266daf487084p-13);
    p = fma(fma(p, z, 0x1.3529881f90e74p-11), z, -0x1.7d9fa5ba55eap-10);
    p = fma(fma(p, z, 0x1.d6d39cefa4b1ep-9), z, -0x1.226e3472650b3p-7);
    p = fma(fma(p, z, 0x1.664f487d8f497p-6), z, -0x1.ba1ba1ba0b2fcp-5);
    p = fma(fma(p, z, 0x1.111111111104fp-3), z, -0x1.5555555555555p-2);
    const auto e = exp_scaled(c + c, 0x1.80000000007fep52);
    const auto y = select(a < 0.55, fma(p * z, c, c), 1.0 - 2.0 / (e + 1.0));
    return copysign(y, x);
}

// (erf(x) - x) / x from z = x^2 <= 1.
inline f64 erf_tail(f64 z) {
    auto p = fma(z, 0x1.296e9e0c9d623p-34, -0x1.4675eacda9a0ep-30);
    p = fma(fma(p, z, 0x1.fc77c11033d64p-27), z, -0x1.5f98119beadc1p-23);
    p = fma(fma(p, z, 0x1.b9ee93058c8f7p-20), z, -0x1.f4d3335c1919p-17);
    p = fma(fma(p, z, 0x1.f9a335369b4ep-14), z, -0x1.c02db49afbf83p-11);
    p = fma(fma(p, z, 0x1.565bcd1298e9fp-8), z, -0x1.b82ce312abefep-6);
    p = fma(fma(p, z, 0x1.ce2f21a04362dp-4), z, -0x1.812746b0379fdp-2);
    p = fma(p, z, 0x1.06eba8214db69p-3);
    return p;
}

// erfc(a) for 1/2 <= a <= 28.0: exp(-a^2) * P(q) / (1 + 2a) with q = (a - 3.8125) / (a + 3.8125).
inline f64 erfc_tail(f64 a) {
    const auto j = 1.0 / (a + 3.8125);
    const auto q0 = (a - 3.8125) * j;
    const auto q = fma(fma(-q0, a, fma(q0 + 1.0, -3.8125, a)), j, q0);
    auto w = fma(q, -0x1.b9cbefcf792dfp-29, -0x1.dc7582ce07dd4p-28);
    w = fma(fma(w, q, 0x1.044c3f0369f52p-25), q, 0x1.064adadc52082p-24);
    w = fma(fma(w, q, -0x1.e3f7d3c26bfdbp-23), q, -0x1.5c1f81b6592f1p-22);
    w = fma(fma(w, q, 0x1.d43da6966c071p-20), q, 0x1.7d48a22d267adp-21);
    w = fma(fma(w, q, -0x1.c3d8925b7be4dp-17), q, 0x1.e24edf09305adp-17);
    w = fma(fma(w, q, 0x1.523f13f26adcap-14), q, -0x1.3b42ee78ae7a1p-12);
    w = fma(fma(w, q, 0x1.ce268c1a001a9p-14), q, 0x1.4379567036adp-9);
    w = fma(fma(w, q, -0x1.7229b0ed087bcp-7), q, 0x1.f5d9e4410df5bp-6);
    w = fma(fma(w, q, -0x1.f230e068ef943p-5), q, 0x1.7c8cd4b58a33ep-4);
    w = fma(fma(w, q, -0x1.b6277b4005defp-4), q, 0x1.420b9cb622d7p-4);
    w = fma(fma(w, q, 0x1.b9a26d9d85cacp-8), q, -0x1.1f09a95e0eccap-3);
    const auto p = fma(w, q, 0x1.3c81b093179a6p0);
    const auto pl = fma(w, q, 0x1.3c81b093179a6p0 - p);
    const auto d = fma(a, 2.0, 1.0);
    const auto dl = fma(a, 2.0, 1.0 - d);
    const auto i = 1.0 / d;
    const auto g = p * i;
    const auto h = a * a;
    const auto l = fma(a, a, -h);
    const auto e = (fma(-g, d, p) + pl) - g * dl;
    auto [u, s0, s1] = exp_parts(-h, -l);
    const auto gl = e * i;
    return (g + fma(g, u, fma(gl, u, gl))) * s0 * s1;
}

inline f64 erfc(f64 x) {
    const auto a = abs(x);
    const auto y = erfc_tail(min(a, 28.0));
    const auto c = min(a, 0.5);
    const auto s = (1.0 - x) - erf_tail(c * c) * x;
    return select(a < 0.5, s, select(x < 0.0, 2.0 - y, y));
}

inline f64 erf(f64 x) {
    const auto a = abs(x);
    const auto y = select(a < 1.0, fma(erf_tail(a * a), a, a), 1.0 - erfc_tail(min(a, 6.0)));
    return copysign(y, x);
}

inline f64 rsqrt(f64 x) { return 1.0 / sqrt(x); }

inline f64 cbrt(f64 x) {
    const auto s = abs(x);
    const auto sub = s < 0x1p-1022;
    const auto a = select(sub, s * 0x1p54, s);
    auto r = bitcast<f64>(0x553c301420000000 - umulhi(bitcast<u64>(a), 0x5555555555555556));
    auto e = fma(-(a * r), r * r, 1.0);
    r = fma(r * e, fma(e, 0x1.c71c71c71c71cp-3, 0x1.5555555555555p-2), r);
    e = fma(-(a * r), r * r, 1.0);
    r = fma(r * e, fma(e, 0x1.c71c71c71c71cp-3, 0x1.5555555555555p-2), r);
    e = fma(-(a * r), r * r, 1.0);
    r = fma(r * e, 0x1.5555555555555p-2, r);
    const auto g = r * r;
    const auto y = a * g;
    const auto h = y * y;
    const auto d = fma(-fma(y, y, -h), y, fma(-h, y, a));
    const auto w = fma(d * g, 0x1.5555555555555p-2, y);
    const auto v = select(sub, w * 0x1p-18, w);
    return select(s > 0.0 && s < inf, copysign(v, x), x);
}

// log(x) as an unevaluated sum (hi, lo) for finite x > 0.
inline std::tuple<f64, f64> log_pair(f64 x) {
    const auto sub = x < 0x1p-1022;
    const auto b = bitcast<i64>(select(sub, x * 0x1p52, x));
    const auto k = (b - 0x3fe6a09e667f3bcd) >> 52;
    const auto ei = cast<f64>(k);
    const auto e = select(sub, ei - 52.0, ei);
    const auto f = bitcast<f64>(b - (k << 52)) - 1.0;
    const auto d = f + 2.0;
    const auto dl = f - (d - 2.0);
    const auto i = 1.0 / d;
    const auto s = f * i;
    const auto sl = fma(-s, dl, fma(-s, d, f)) * i;
    const auto z = s * s;
    const auto zl = fma(s + s, sl, fma(s, s, -z));
    auto p = fma(z, 0x1.da90000729459p-4, 0x1.e01b9e2a1cd4cp-4);
    p = fma(fma(p, z, 0x1.11154601f4abdp-3), z, 0x1.3b13aa0342a95p-3);
    p = fma(fma(p, z, 0x1.745d173c57417p-3), z, 0x1.c71c71c74d1cp-3);
    p = fma(fma(p, z, 0x1.24924924922fcp-2), z, 0x1.999999999999ap-2);
    const auto u = z * p;
    const auto th = u + 0x1.5555555555555p-1;
    const auto tl = (u - (th - 0x1.5555555555555p-1)) + fma(zl, p, fma(z, p, -u) + 0x1.5555555555555p-55);
    const auto wh = z * s;
    const auto wl = fma(z, sl, fma(zl, s, fma(z, s, -wh)));
    const auto vh = wh * th;
    const auto vl = fma(wl, th, fma(wh, tl, fma(wh, th, -vh)));
    const auto h = s + s;
    const auto g = h + vh;
    const auto gl = ((h - g) + vh) + (vl + (sl + sl));
    const auto n = e * 0x1.62e42fefa4p-1;
    const auto y = n + g;
    const auto yl = ((n - y) + g) + fma(e, -0x1.8432a1b0e2634p-43, gl);
    const auto r = y + yl;
    return {r, (y - r) + yl};
}

inline f64 pow(f64 x, f64 y) {
    const auto a = abs(x);
    auto [h0, l0] = log_pair(a);
    const auto zero = a == 0.0;
    const auto huge = a == inf;
    const auto lh = select(zero, -inf, select(huge, inf, h0));
    const auto ll = select(zero || huge, 0.0, l0);
    const auto t = y * lh;
    const auto tl = select(abs(t) < 0x1p20, fma(y, ll, fma(y, lh, -t)), 0.0);
    auto [u, s0, s1] = exp_parts(t, tl);
    const auto m = (u + 1.0) * s0 * s1;
    const auto half = y * 0.5;
    const auto whole = trunc(y) == y;
    const auto odd = whole && trunc(half) != half;
    const auto v = select(signbit(x) && odd, -m, m);
    const auto w = select(x < 0.0 && !whole && !huge, nan, v);
    const auto c = select(isnan(x) || isnan(y), x + y, w);
    return select(y == 0.0 || x == 1.0 || (x == -1.0 && isinf(y)), 1.0, c);
}

inline f64 sigmoid(f64 x) {
    const auto e = exp(-abs(x));
    const auto d = e + 1.0;
    const auto i = 1.0 / d;
    const auto n = select(x < 0.0, e, 1.0);
    const auto y = n * i;
    return fma(fma(-y, d, n) - y * (e - (d - 1.0)), i, y);
}

}  // namespace math_reference
