// Reference for std.math in f32: the definitions of stdlib/math.tile, transcribed expression by expression into C++ over the primitive
// operations of math_reference.h. The order of operations is the definition of the result bits: change both or neither.
// tests/unit/math_test.cpp compares the two bit for bit, and both against MPFR.
#pragma once
#include "math_reference.h"

namespace math_reference {

// exp(x) * 2^s where magic = 1.5 * 2^23 + 2 * bias + s. Two scale factors, so that only the last product can round a subnormal.
inline f32 exp_scaled(f32 x, f32 magic) {
    const auto t = fma(x, 0x1.715476p0, magic);
    const auto n = t - magic;
    const auto r = fma(n, 0x1.05c61p-29, fma(n, -0x1.62e43p-1, x));
    auto p = fma(r, 0x1.6d4cc8p-10, 0x1.123742p-7);
    p = fma(fma(fma(p, r, 0x1.5554e8p-5), r, 0x1.555496p-3), r, 0x1p-1);
    p = fma(fma(p, r, 1.0), r, 1.0);
    const auto k = bitcast<u32>(t);
    const auto h = k >> 1;
    return p * bitcast<f32>(h << 23) * bitcast<f32>((k - h) << 23);
}

inline f32 exp(f32 x) { return exp_scaled(min(max(x, -104.0), 89.0), 0x1.8001fcp23); }

// (p, s, t) with exp(hi + lo) = (1 + p) * s * t; hi may be infinite, lo must be finite and small against 1.
inline std::tuple<f32, f32, f32> exp_parts(f32 hi, f32 lo) {
    const auto x = min(max(hi, -104.0), 89.0);
    const auto t = fma(x, 0x1.715476p0, 0x1.8001fcp23);
    const auto n = t - 0x1.8001fcp23;
    const auto a = fma(n, -0x1.62e43p-1, x);
    const auto b = fma(n, 0x1.05c61p-29, lo);
    const auto r = a + b;
    auto p = fma(r, 0x1.6d4cc8p-10, 0x1.123742p-7);
    p = fma(fma(fma(p, r, 0x1.5554e8p-5), r, 0x1.555496p-3), r, 0x1p-1);
    const auto k = bitcast<u32>(t);
    const auto h = k >> 1;
    return {fma(fma(p, r, 1.0), r, (a - r) + b), bitcast<f32>(h << 23), bitcast<f32>((k - h) << 23)};
}

inline f32 exp2(f32 x) {
    const auto c = min(max(x, -150.0), 128.0);
    const auto t = c + 0x1.8001fcp23;
    const auto r = c - (t - 0x1.8001fcp23);
    auto p = fma(r, 0x1.42791ap-13, 0x1.5ef4a4p-10);
    p = fma(fma(fma(p, r, 0x1.3b2c58p-7), r, 0x1.c6af9ep-5), r, 0x1.ebfbdep-3);
    p = fma(p, r, 0x1.62e43p-1);
    p = fma(p, r, 1.0);
    const auto k = bitcast<u32>(t);
    const auto h = k >> 1;
    return p * bitcast<f32>(h << 23) * bitcast<f32>((k - h) << 23);
}

inline f32 expm1(f32 x) {
    const auto c = min(max(x, -18.0), 89.0);
    const auto t = fma(c, 0x1.715476p0, 0x1.8000fcp23);
    const auto n = t - 0x1.8000fcp23;
    const auto r1 = fma(n, -0x1.62e43p-1, c);
    const auto r = fma(n, 0x1.05c61p-29, r1);
    auto p = fma(r, 0x1.6d4cc8p-10, 0x1.123742p-7);
    p = fma(fma(fma(p, r, 0x1.5554e8p-5), r, 0x1.555496p-3), r, 0x1p-1);
    p = fma(p * r, r, fma(n, 0x1.05c61p-29, r1 - r));
    const auto s = bitcast<f32>(bitcast<u32>(t) << 23);
    const auto b = s - 0.5;
    const auto h = fma(s, r, b);
    const auto y = h + fma(s, p, fma(s, r, b - h));
    return select(abs(x) < 0x1p-25, x, y + y);
}

// x = 2^e * (1 + f) for finite x > 0, 1 + f in [2/3, 4/3): (e, f).
inline std::tuple<f32, f32> log_split(f32 x) {
    const auto sub = x < 0x1p-126;
    const auto b = bitcast<i32>(select(sub, x * 0x1p23, x));
    const auto k = (b - 0x3f2aaaab) >> 23;
    const auto e = cast<f32>(k);
    return {select(sub, e - 23.0, e), bitcast<f32>(b - (k << 23)) - 1.0};
}

// log(1 + f) - f for 1 + f in [2/3, 4/3].
inline f32 log_tail(f32 f) {
    const auto u = f * f;
    auto p = fma(f, -0x1.f59b24p-4, 0x1.1321ep-3);
    p = fma(fma(fma(p, f, -0x1.f8be72p-4), f, 0x1.211cbcp-3), f, -0x1.556e4cp-3);
    p = fma(fma(fma(p, f, 0x1.99adccp-3), f, -0x1.ffffd8p-3), f, 0x1.55554cp-2);
    return fma(p * f, u, -0.5 * u);
}

// The value y of a logarithm of x, with the special cases: -inf at 0, NaN below, x itself at +inf and NaN.
inline f32 log_special(f32 x, f32 y) {
    const auto s = select(x == 0.0, -inf, select(x < 0.0, nan, x));
    return select(x > 0.0 && x < inf, y, s);
}

inline f32 log(f32 x) {
    auto [e, f] = log_split(x);
    return log_special(x, fma(e, 0x1.62e43p-1, f + log_tail(f)));
}

inline f32 log2(f32 x) {
    auto [e, f] = log_split(x);
    const auto t = f * 0x1.715476p0;
    const auto r = fma(log_tail(f), 0x1.715476p0, fma(f, 0x1.4ae0cp-26, fma(f, 0x1.715476p0, -t)));
    const auto s = e + t;
    return log_special(x, s + (((e - s) + t) + r));
}

inline f32 log10(f32 x) {
    auto [e, f] = log_split(x);
    const auto t = f * 0x1.bcb7b2p-2;
    const auto r = fma(log_tail(f), 0x1.bcb7b2p-2, fma(f, -0x1.5b235ep-27, fma(f, 0x1.bcb7b2p-2, -t)));
    const auto h = e * 0x1.344p-2;
    const auto s = h + t;
    return log_special(x, s + (((h - s) + t) + fma(e, 0x1.3509f8p-18, r)));
}

// log(1 + x): the exponent k of 1 + x is taken out of x before anything is rounded.
inline f32 log1p(f32 x) {
    const auto k = (bitcast<i32>(1.0 + x) - 0x3f2aaaab) >> 23;
    const auto d = k << 23;
    const auto m = bitcast<f32>(bitcast<i32>(x) - d);
    const auto c = fma(bitcast<f32>(0x40800000 - d), 0.25, -1.0);
    const auto f = m + c;
    const auto l = select(abs(m) < abs(c), (c - f) + m, (m - f) + c);
    const auto e = cast<f32>(k);
    const auto y = select(abs(x) < 0x1p-25, x, fma(e, 0x1.62e43p-1, f + (log_tail(f) + fma(e, -0x1.05c61p-29, l))));
    const auto s = select(x == -1.0, -inf, select(x < -1.0, nan, x));
    return select(x > -1.0 && x < inf, y, s);
}

// Reduction of any finite x: (r, l, q) with x = q * pi/2 + r + l (q modulo 4), |r| <= pi/4 up to rounding.
inline std::tuple<f32, f32, i32> trig_reduce(f32 x) {
    const auto t = fma(x, 0x1.45f306p-1, 0x1.8p23);
    const auto n = t - 0x1.8p23;
    const auto r1 = fma(n, -0x1.921fb6p0, x);
    const auto r2 = fma(n, 0x1.777a5cp-25, r1);
    const auto rs = fma(n, 0x1.ee59dap-50, r2);
    const auto ls = fma(n, 0x1.ee59dap-50, r2 - rs);
    // Payne-Hanek: 96 bits of 2/pi, from the bit that weighs 2 in units of a quarter turn, times the 24-bit significand.
    const auto b = bitcast<u32>(x);
    const auto o = ((b >> 23) & 255) - 120;
    const auto s = o & 31;
    const u32 z = 0;
    const auto m = (b & 0x7fffff) | 0x800000;
    const u32 t0 = 0x00000000;
    const u32 t1 = 0xa2f9836e;
    const u32 t2 = 0x4e441529;
    const u32 t3 = 0xfc2757d1;
    const u32 t4 = 0xf534ddc0;
    const u32 t5 = 0xdb629599;
    const u32 t6 = 0x3c439041;
    const u32 t7 = 0xfe5163ab;
    const auto c4 = (o & 128) != 0;
    const auto g0_0 = select(c4, t4, t0);
    const auto g0_1 = select(c4, t5, t1);
    const auto g0_2 = select(c4, t6, t2);
    const auto g0_3 = select(c4, t7, t3);
    const auto c2 = (o & 64) != 0;
    const auto g1_0 = select(c2, g0_2, g0_0);
    const auto g1_1 = select(c2, g0_3, g0_1);
    const auto g1_2 = select(c2, t4, g0_2);
    const auto g1_3 = select(c2, t5, g0_3);
    const auto g1_4 = select(c2, t6, t4);
    const auto c1 = (o & 32) != 0;
    const auto v0 = select(c1, g1_1, g1_0);
    const auto v1 = select(c1, g1_2, g1_1);
    const auto v2 = select(c1, g1_3, g1_2);
    const auto v3 = select(c1, g1_4, g1_3);
    const auto n32 = 32 - s;
    const auto w0 = (v0 << s) | (v1 >> n32);
    const auto w1 = (v1 << s) | (v2 >> n32);
    const auto w2 = (v2 << s) | (v3 >> n32);
    const auto d = m * w1;
    const auto lo = d + umulhi(m, w2);
    const auto hi = m * w0 + umulhi(m, w1) + select(lo < d, z + 1, z);
    const auto q = (hi + 0x20000000) >> 30;
    const auto f = bitcast<i32>(hi - (q << 30));
    const auto g = f >> 31;
    const auto fm = bitcast<u32>(f ^ g);
    const auto lm = lo ^ bitcast<u32>(g);
    const auto a = cast<f32>(fm & 0xffffffe0);
    const auto e = cast<f32>(((fm & 31) << 27) | (lm >> 5));
    const auto p = a * 0x1.921fb6p-30;
    const auto pe = fma(e, 0x1.921fb6p-57, fma(a, -0x1.777a5cp-55, fma(a, 0x1.921fb6p-30, -p)));
    const auto ra = p + pe;
    const auto la = (p - ra) + pe;
    const auto neg = bitcast<i32>(b) ^ g;
    const auto rb = select(neg < 0, -ra, ra);
    const auto lb = select(neg < 0, -la, la);
    const auto qi = bitcast<i32>(q);
    const auto big = abs(x) >= 0x1p16;
    return {select(big, rb, rs), select(big, lb, ls), select(big, select(x < 0.0, -qi, qi), bitcast<i32>(t))};
}

// sin(r + l) - r for |r| <= pi/4.
inline f32 sin_tail(f32 r, f32 l) {
    const auto z = r * r;
    auto p = fma(z, 0x1.8775d8p-19, -0x1.a0830ep-13);
    p = fma(fma(p, z, 0x1.111198p-7), z, -0x1.555556p-3);
    return fma(p * z, r, fma(z * -0.5, l, l));
}

// (1 - r^2/2 rounded, the rest of cos(r + l)).
inline std::tuple<f32, f32> cos_parts(f32 r, f32 l) {
    const auto z = r * r;
    auto p = fma(z, 0x1.9bc668p-16, -0x1.6c129cp-10);
    p = fma(p, z, 0x1.555554p-5);
    const auto w = fma(z, -0.5, 1.0);
    return {w, fma(z, -0.5, 1.0 - w) + fma(p * z, z, -(r * l))};
}

inline f32 sin_quadrant(f32 r, f32 l, i32 q) {
    auto [c, d] = cos_parts(r, l);
    const auto y = select((q & 1) != 0, c + d, r + sin_tail(r, l));
    return select((q & 2) != 0, -y, y);
}

inline f32 sin(f32 x) {
    auto [r, l, q] = trig_reduce(x);
    const auto y = select(abs(x) < 0x1p-25, x, sin_quadrant(r, l, q));
    return select(abs(x) < inf, y, x - x);
}

inline f32 cos(f32 x) {
    auto [r, l, q] = trig_reduce(x);
    return select(abs(x) < inf, sin_quadrant(r, l, q + 1), x - x);
}

inline f32 tan(f32 x) {
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
    const auto t = select(abs(x) < 0x1p-25, x, fma(e, i, y));
    return select(abs(x) < inf, t, x - x);
}

// asin(s) - s for z = s^2 <= 1/4.
inline f32 asin_tail(f32 s, f32 z) {
    auto p = fma(z, 0x1.3926d2p-5, 0x1.b1e3acp-6);
    p = fma(fma(fma(p, z, 0x1.70bf2ap-5), z, 0x1.332688p-4), z, 0x1.55555ep-3);
    return p * z * s;
}

inline f32 asin(f32 x) {
    const auto a = abs(x);
    const auto big = a > 0.5;
    const auto z = select(big, fma(a, -0.5, 0.5), a * a);
    const auto s = select(big, sqrt(z), a);
    const auto p = asin_tail(s, z);
    const auto d = fma(s, -2.0, 0x1.921fb6p0);
    const auto e = fma(s, -2.0, 0x1.921fb6p0 - d);
    const auto y = select(big, d - (fma(p, 2.0, 0x1.777a5cp-25) - e), s + p);
    return copysign(y, x);
}

inline f32 acos(f32 x) {
    const auto a = abs(x);
    const auto big = a > 0.5;
    const auto z = select(big, fma(a, -0.5, 0.5), a * a);
    const auto s = select(big, sqrt(z), x);
    const auto p = asin_tail(s, z);
    const auto low = 0x1.921fb6p0 - (s + (p - -0x1.777a5cp-25));
    const auto w = s + p;
    const auto high = select(x < 0.0, fma(s, -2.0, 0x1.921fb6p1) - fma(p, 2.0, 0x1.777a5cp-24), w + w);
    return select(big, high, low);
}

// atan(t) - t for |t| <= 1.
inline f32 atan_tail(f32 t) {
    const auto z = t * t;
    auto p = fma(z, -0x1.3d9a7ap-9, 0x1.bf3d9p-7);
    p = fma(fma(fma(p, z, -0x1.27ab6p-5), z, 0x1.00bb5cp-4), z, -0x1.62e566p-4);
    p = fma(fma(fma(p, z, 0x1.c4026p-4), z, -0x1.246d7ep-3), z, 0x1.999838p-3);
    p = fma(p, z, -0x1.555554p-2);
    return p * z * t;
}

inline f32 atan(f32 x) {
    const auto a = abs(x);
    const auto big = a > 1.0;
    const auto t = select(big, 1.0 / a, a);
    const auto p = atan_tail(t);
    const auto y = select(big, 0x1.921fb6p0 - (t + (p - -0x1.777a5cp-25)), t + p);
    return copysign(y, x);
}

inline f32 atan2(f32 y, f32 x) {
    const auto ax = abs(x);
    const auto ay = abs(y);
    const auto hi = max(ax, ay);
    const auto lo = min(ax, ay);
    const auto t = select(lo == inf, 1.0, select(hi == 0.0, 0.0, lo / hi));
    const auto swap = ay > ax;
    const auto back = signbit(x);
    const auto v = select(swap != back, -t, t);
    const auto r = v + atan_tail(v);
    const f32 pa = 0x1.921fb6p1;
    const f32 pb = -0x1.777a5cp-24;
    const auto bh = select(swap, 0x1.921fb6p0, select(back, pa, 0.0));
    const auto bl = select(swap, -0x1.777a5cp-25, select(back, pb, 0.0));
    return copysign(bh + (r + bl), y);
}

// sinh(x) for |x| <= 1.
inline f32 sinh_small(f32 x) {
    const auto z = x * x;
    auto p = fma(z, 0x1.720e84p-19, 0x1.a036dap-13);
    p = fma(fma(p, z, 0x1.1110c4p-7), z, 0x1.555556p-3);
    return fma(p * z, x, x);
}

inline f32 sinh(f32 x) {
    const auto a = abs(x);
    const auto h = exp_scaled(min(a, 95.0), 0x1.8001fap23);
    const auto y = select(a < 1.0, sinh_small(a), h - 0.25 / h);
    return copysign(y, x);
}

inline f32 cosh(f32 x) {
    const auto h = exp_scaled(min(abs(x), 95.0), 0x1.8001fap23);
    return h + 0.25 / h;
}

inline f32 tanh(f32 x) {
    const auto a = abs(x);
    const auto c = min(a, 10.0);
    const auto z = c * c;
    auto p = fma(z, 0x1.72caecp-9, -0x1.1fff5cp-7);
    p = fma(fma(fma(p, z, 0x1.66d53cp-6), z, -0x1.ba2c42p-5), z, 0x1.11115cp-3);
    p = fma(p, z, -0x1.555556p-2);
    const auto e = exp_scaled(c + c, 0x1.8001fcp23);
    const auto y = select(a < 0.55, fma(p * z, c, c), 1.0 - 2.0 / (e + 1.0));
    return copysign(y, x);
}

// (erf(x) - x) / x from z = x^2 <= 1.
inline f32 erf_tail(f32 z) {
    auto p = fma(z, 0x1.4c2e6ep-14, -0x1.a5096p-11);
    p = fma(fma(fma(p, z, 0x1.542de8p-8), z, -0x1.b7fe8ep-6), z, 0x1.ce2d5p-4);
    p = fma(fma(p, z, -0x1.81274p-2), z, 0x1.06eba8p-3);
    return p;
}

// erfc(a) for 1/2 <= a <= 10.5: exp(-a^2) * P(q) / (1 + 2a) with q = (a - 2.21875) / (a + 2.21875).
inline f32 erfc_tail(f32 a) {
    const auto j = 1.0 / (a + 2.21875);
    const auto q0 = (a - 2.21875) * j;
    const auto q = fma(fma(-q0, a, fma(q0 + 1.0, -2.21875, a)), j, q0);
    auto w = fma(q, 0x1.4a188cp-12, -0x1.19987p-10);
    w = fma(fma(fma(w, q, -0x1.20cd2p-9), q, 0x1.16128cp-7), q, 0x1.20b954p-7);
    w = fma(fma(fma(w, q, -0x1.47b24ep-4), q, 0x1.534fc4p-3), q, -0x1.1483bp-3);
    w = fma(w, q, -0x1.bbfe58p-4);
    const auto p = fma(w, q, 0x1.45910cp0);
    const auto pl = fma(w, q, 0x1.45910cp0 - p);
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

inline f32 erfc(f32 x) {
    const auto a = abs(x);
    const auto y = erfc_tail(min(a, 10.5));
    const auto c = min(a, 0.5);
    const auto s = (1.0 - x) - erf_tail(c * c) * x;
    return select(a < 0.5, s, select(x < 0.0, 2.0 - y, y));
}

inline f32 erf(f32 x) {
    const auto a = abs(x);
    const auto c = min(a, 4.0);
    auto p = fma(c, 0x1.b5328ap-22, -0x1.d8a71p-18);
    p = fma(fma(fma(p, c, 0x1.1d3f22p-15), c, 0x1.75bc68p-13), c, -0x1.bcf42cp-9);
    p = fma(fma(fma(p, c, 0x1.81cccep-6), c, -0x1.b2e74p-4), c, -0x1.452e5ap-1);
    p = fma(p, c, -0x1.20f05p0);
    const auto y = select(a < 1.0, fma(erf_tail(a * a), a, a), 1.0 - exp(p * c));
    return copysign(y, x);
}

inline f32 rsqrt(f32 x) { return 1.0 / sqrt(x); }

inline f32 cbrt(f32 x) {
    const auto s = abs(x);
    const auto sub = s < 0x1p-126;
    const auto a = select(sub, s * 0x1p24, s);
    auto r = bitcast<f32>(0x548c2b4b - umulhi(bitcast<u32>(a), 0x55555556));
    auto e = fma(-(a * r), r * r, 1.0);
    r = fma(r * e, fma(e, 0x1.c71c72p-3, 0x1.555556p-2), r);
    e = fma(-(a * r), r * r, 1.0);
    r = fma(r * e, fma(e, 0x1.c71c72p-3, 0x1.555556p-2), r);
    const auto g = r * r;
    const auto y = a * g;
    const auto h = y * y;
    const auto d = fma(-fma(y, y, -h), y, fma(-h, y, a));
    const auto w = fma(d * g, 0x1.555556p-2, y);
    const auto v = select(sub, w * 0x1p-8, w);
    return select(s > 0.0 && s < inf, copysign(v, x), x);
}

// log(x) as an unevaluated sum (hi, lo) for finite x > 0.
inline std::tuple<f32, f32> log_pair(f32 x) {
    const auto sub = x < 0x1p-126;
    const auto b = bitcast<i32>(select(sub, x * 0x1p23, x));
    const auto k = (b - 0x3f3504f3) >> 23;
    const auto ei = cast<f32>(k);
    const auto e = select(sub, ei - 23.0, ei);
    const auto f = bitcast<f32>(b - (k << 23)) - 1.0;
    const auto d = f + 2.0;
    const auto dl = f - (d - 2.0);
    const auto i = 1.0 / d;
    const auto s = f * i;
    const auto sl = fma(-s, dl, fma(-s, d, f)) * i;
    const auto z = s * s;
    const auto zl = fma(s + s, sl, fma(s, s, -z));
    auto p = fma(z, 0x1.d811ep-3, 0x1.247a02p-2);
    p = fma(p, z, 0x1.9999a4p-2);
    const auto u = z * p;
    const auto th = u + 0x1.555556p-1;
    const auto tl = (u - (th - 0x1.555556p-1)) + fma(zl, p, fma(z, p, -u) + -0x1.555556p-26);
    const auto wh = z * s;
    const auto wl = fma(z, sl, fma(zl, s, fma(z, s, -wh)));
    const auto vh = wh * th;
    const auto vl = fma(wl, th, fma(wh, tl, fma(wh, th, -vh)));
    const auto h = s + s;
    const auto g = h + vh;
    const auto gl = ((h - g) + vh) + (vl + (sl + sl));
    const auto n = e * 0x1.62e4p-1;
    const auto y = n + g;
    const auto yl = ((n - y) + g) + fma(e, 0x1.7f7d1cp-20, gl);
    const auto r = y + yl;
    return {r, (y - r) + yl};
}

inline f32 pow(f32 x, f32 y) {
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

inline f32 sigmoid(f32 x) {
    const auto e = exp(-abs(x));
    const auto d = e + 1.0;
    const auto i = 1.0 / d;
    const auto n = select(x < 0.0, e, 1.0);
    const auto y = n * i;
    return fma(fma(-y, d, n) - y * (e - (d - 1.0)), i, y);
}

}  // namespace math_reference
