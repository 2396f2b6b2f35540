// What PTX instructions of arithmetic, loads and stores do, as C++, written from the PTX ISA: `add.rn.f16` is ptx_add_rn_f16, its operands are the
// parameters in the order of the text, and members of {a, b} are parameters of their own. rewrite.cpp reads the names here. Also CUDA's functions
// for the same. Included by cuda_on_cpu.h, without any header.
#pragma once

// ---- bits and formats ----

inline float cpu_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
inline unsigned cpu_bits(float v) { return __builtin_bit_cast(unsigned, v); }
inline unsigned cpu_magnitude(float v) { return cpu_bits(v) & 0x7fffffffu; }
inline float cpu_next(float v, int steps) { return cpu_float(cpu_bits(v) + (unsigned)steps); }  ///< away from zero

/// To nearest even in a format with a sign, subnormals and `kMantissa` bits behind the point; magnitudes above kMax are kAbove.
template <int kMantissa, int kMinExponent, unsigned kMax, unsigned kAbove, unsigned kNan, int kSignAt>
inline unsigned cpu_narrow(float v) {
    const unsigned m = cpu_magnitude(v), cut = 23 - kMantissa;
    const float magic = cpu_float((unsigned)(kMinExponent + (int)cut + 127) << 23);
    const unsigned tiny = cpu_bits(cpu_float(m) + magic) - cpu_bits(magic);
    const unsigned normal = ((m + ((1u << (cut - 1)) - 1) + (m >> cut & 1)) >> cut) - ((unsigned)(126 + kMinExponent) << kMantissa);
    const unsigned r = m < (unsigned)(kMinExponent + 127) << 23 ? tiny : normal;
    return m > 0x7f800000u ? kNan : (r > kMax ? kAbove : r) | cpu_bits(v) >> 31 << kSignAt;
}
inline unsigned short cpu_to_f16(float v) { return (unsigned short)cpu_narrow<10, -14, 0x7bff, 0x7c00, 0x7e00, 15>(v); }
inline unsigned short cpu_to_bf16(float v) { return (unsigned short)cpu_narrow<7, -126, 0x7f7f, 0x7f80, 0x7fc0, 15>(v); }
inline unsigned char cpu_to_e4m3(float v) { return (unsigned char)cpu_narrow<3, -6, 0x7e, 0x7e, 0x7f, 7>(v); }
inline float cpu_of_f16(unsigned short a) {
    const unsigned m = a & 0x7fffu, sign = (a & 0x8000u) << 16;
    return m > 0x7c00u ? cpu_float(0x7fc00000u) : cpu_float((m == 0x7c00u ? 0x7f800000u : cpu_bits(cpu_float(m << 13) * 0x1p112f)) | sign);
}
inline float cpu_of_bf16(unsigned short a) { return cpu_float((unsigned)a << 16); }
inline float cpu_of_e4m3(unsigned char a) {
    const unsigned m = a & 0x7fu, sign = (a & 0x80u) << 24;
    return cpu_float(m == 0x7fu ? 0x7fc00000u : cpu_bits(cpu_float(m << 20) * 0x1p120f) | sign);
}
inline unsigned cpu_two(unsigned low, unsigned high) { return (low & 0xffffu) | high << 16; }

// ---- directed rounding: fma, quotients and roots of doubles are the machine's; as directed rounding composes, the others follow ----

/// mode: -1 down, 0 toward zero, 1 up.
inline double cpu_directed(int mode, char op, double a, double b, double c) {
    const double low = cpu_machine->directed(op, a, b, c, 0), high = cpu_machine->directed(op, a, b, c, 1);
    return mode < 0 ? low : mode > 0 ? high : low < 0 || high == 0 ? high : low;
}
inline float cpu_directed_float(int mode, double v) {
    const float r = (float)v;
    if (v != v || (double)r == v) return r;
    const bool above = (double)r > v, up = mode > 0 || (mode == 0 && v < 0);
    return above == up ? r : r == 0 ? cpu_float(up ? 1u : 0x80000001u) : cpu_next(r, (r > 0) == up ? 1 : -1);
}
inline double cpu_zero_of_product(double a, double b) { return __builtin_signbit(a) != __builtin_signbit(b) ? -0.0 : 0.0; }
#define CPU_DIRECTED(mode, suffix)                                                                                         \
    inline double __fma_##suffix(double a, double b, double c) { return cpu_directed(mode, 'f', a, b, c); }                \
    inline double __dadd_##suffix(double a, double b) { return cpu_directed(mode, 'f', a, 1, b); }                         \
    inline double __dsub_##suffix(double a, double b) { return cpu_directed(mode, 'f', a, 1, -b); }                        \
    inline double __dmul_##suffix(double a, double b) { return cpu_directed(mode, 'f', a, b, cpu_zero_of_product(a, b)); } \
    inline double __ddiv_##suffix(double a, double b) { return cpu_directed(mode, '/', a, b, 0); }                         \
    inline double __dsqrt_##suffix(double a) { return cpu_directed(mode, 's', a, 0, 0); }                                  \
    inline float __fmaf_##suffix(float a, float b, float c) { return cpu_directed_float(mode, __fma_##suffix(a, b, c)); }  \
    inline float __fadd_##suffix(float a, float b) { return cpu_directed_float(mode, __dadd_##suffix(a, b)); }             \
    inline float __fsub_##suffix(float a, float b) { return cpu_directed_float(mode, __dsub_##suffix(a, b)); }             \
    inline float __fmul_##suffix(float a, float b) { return cpu_directed_float(mode, __dmul_##suffix(a, b)); }             \
    inline float __fdiv_##suffix(float a, float b) { return cpu_directed_float(mode, __ddiv_##suffix(a, b)); }             \
    inline float __fsqrt_##suffix(float a) { return cpu_directed_float(mode, __dsqrt_##suffix(a)); }
CPU_DIRECTED(-1, rd)
CPU_DIRECTED(0, rz)
CPU_DIRECTED(1, ru)
#undef CPU_DIRECTED

/// Two roundings that are as good as one: the first to odd, of the sum of a product in double, then of that in float.
inline float cpu_fma_odd(float a, float b, float c) {
    const double low = __fma_rd(a, b, c), high = __fma_ru(a, b, c);
    const double v = low == high ? fma(a, b, c) : __builtin_bit_cast(unsigned long long, low) & 1 ? low : high;
    const float r = (float)v;
    if ((double)r == v || v != v) return r;
    return cpu_float((cpu_bits(r) - (fabs((double)r) > fabs(v) ? 1 : 0)) | 1);
}

// ---- functions of CUDA ----

inline float __uint_as_float(unsigned bits) { return cpu_float(bits); }
inline unsigned __float_as_uint(float v) { return cpu_bits(v); }
inline double __longlong_as_double(long long bits) { return __builtin_bit_cast(double, bits); }
inline long long __double_as_longlong(double v) { return __builtin_bit_cast(long long, v); }
inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
inline float __frcp_rn(float v) { return 1.0f / v; }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    __extension__ typedef unsigned __int128 Wide;
    return (unsigned long long)((Wide)a * b >> 64);
}
inline long long __mul64hi(long long a, long long b) {
    __extension__ typedef __int128 Wide;
    return (long long)((Wide)a * b >> 64);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) { return (unsigned)(((unsigned long long)high << 32 | low) >> (by & 31)); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((unsigned long long)high << 32 | low) << (by & 31) >> 32);
}
/// Selectors of bytes 0 to 7 only.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selectors) {
    const unsigned long long bytes = (unsigned long long)high << 32 | low;
    unsigned r = 0;
    for (int i = 0; i < 4; ++i) r |= (unsigned)(bytes >> 8 * (selectors >> 4 * i & 7) & 0xff) << 8 * i;
    return r;
}
/// Saturating; NaN is 0 from float to 32 bits, else the top bit.
template <class T>
inline T cpu_integer(double v, double low, double high, bool nan_is_zero) {
    const T top = (T)((T)1 << (8 * sizeof(T) - 1));
    const bool is_signed = (T)-1 < 0;
    if (v != v) return nan_is_zero ? 0 : top;
    return v >= high ? (is_signed ? (T)~top : (T)-1) : v < low ? (is_signed ? top : 0) : (T)v;
}
#define CPU_TO_INTEGER(suffix, round)                                                                                               \
    inline int __float2int_##suffix(float v) { return cpu_integer<int>(round(v), -0x1p31, 0x1p31, true); }                          \
    inline unsigned __float2uint_##suffix(float v) { return cpu_integer<unsigned>(round(v), 0, 0x1p32, true); }                     \
    inline long long __float2ll_##suffix(float v) { return cpu_integer<long long>(round(v), -0x1p63, 0x1p63, false); }              \
    inline unsigned long long __float2ull_##suffix(float v) { return cpu_integer<unsigned long long>(round(v), 0, 0x1p64, false); } \
    inline int __double2int_##suffix(double v) { return cpu_integer<int>(round(v), -0x1p31, 0x1p31, false); }                       \
    inline unsigned __double2uint_##suffix(double v) { return cpu_integer<unsigned>(round(v), 0, 0x1p32, false); }                  \
    inline long long __double2ll_##suffix(double v) { return cpu_integer<long long>(round(v), -0x1p63, 0x1p63, false); }            \
    inline unsigned long long __double2ull_##suffix(double v) { return cpu_integer<unsigned long long>(round(v), 0, 0x1p64, false); }
CPU_TO_INTEGER(rn, rint)
CPU_TO_INTEGER(rz, trunc)
CPU_TO_INTEGER(ru, ceil)
CPU_TO_INTEGER(rd, floor)
#undef CPU_TO_INTEGER

// ---- loads and stores ----

/// A policy for the second cache, as the machine makes them (createpolicy).
inline void cpu_policy(unsigned long long policy) {
    if (policy != 0x12f0000000000000ull && policy != 0x14f0000000000000ull) cpu_machine->fail("an access under a policy that nobody made");
}
inline unsigned char* cpu_at(unsigned long long address, unsigned bytes) {
    if (address % bytes) cpu_machine->fail("a load or store is not aligned");
    return (unsigned char*)address;
}
template <class T, class D>
inline void cpu_load(D& d, unsigned long long address) {
    T v;
    memcpy(&v, cpu_at(address, sizeof(T)), sizeof(T));
    d = (D)v;
}
/// The bits of a register.
template <class D>
inline void cpu_load_bits(D& d, unsigned long long address) {
    memcpy(&d, cpu_at(address, sizeof(D)), sizeof(D));
}
template <class T, class D>
inline void cpu_store(unsigned long long address, D d) {
    const T v = (T)d;
    memcpy(cpu_at(address, sizeof(T)), &v, sizeof(T));
}
template <class D>
inline void ptx_ld_global_b16(D& d, unsigned long long at) {
    cpu_load<unsigned short>(d, at);
}
template <class D>
inline void ptx_ld_global_b32(D& d, unsigned long long at) {
    cpu_load_bits(d, at);
}
template <class D>
inline void ptx_ld_global_b64(D& d, unsigned long long at) {
    cpu_load_bits(d, at);
}
template <class D>
inline void ptx_ld_global_u8(D& d, unsigned long long at) {
    cpu_load<unsigned char>(d, at);
}
template <class D>
inline void ptx_ld_global_u16(D& d, unsigned long long at) {
    cpu_load<unsigned short>(d, at);
}
template <class D>
inline void ptx_ld_global_s8(D& d, unsigned long long at) {
    cpu_load<signed char>(d, at);
}
inline void ptx_ld_global_v2_b32(unsigned& a, unsigned& b, unsigned long long at) {
    const unsigned char* p = cpu_at(at, 8);
    memcpy(&a, p, 4), memcpy(&b, p + 4, 4);
}
inline void ptx_ld_global_v4_b32(unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned long long at) {
    const unsigned char* p = cpu_at(at, 16);
    memcpy(&a, p, 4), memcpy(&b, p + 4, 4), memcpy(&c, p + 8, 4), memcpy(&d, p + 12, 4);
}
template <class D>
inline void ptx_st_global_b16(unsigned long long at, D d) {
    cpu_store<unsigned short>(at, d);
}
template <class D>
inline void ptx_st_global_b32(unsigned long long at, D d) {
    memcpy(cpu_at(at, 4), &d, 4);
}
template <class D>
inline void ptx_st_global_b64(unsigned long long at, D d) {
    memcpy(cpu_at(at, 8), &d, 8);
}
template <class D>
inline void ptx_st_global_u8(unsigned long long at, D d) {
    cpu_store<unsigned char>(at, d);
}
template <class D>
inline void ptx_st_global_s8(unsigned long long at, D d) {
    cpu_store<unsigned char>(at, d);
}
template <class D>
inline void ptx_st_global_u16(unsigned long long at, D d) {
    cpu_store<unsigned short>(at, d);
}
inline void ptx_st_global_v2_b32(unsigned long long at, unsigned a, unsigned b) {
    unsigned char* p = cpu_at(at, 8);
    memcpy(p, &a, 4), memcpy(p + 4, &b, 4);
}
inline void ptx_st_global_v4_b32(unsigned long long at, unsigned a, unsigned b, unsigned c, unsigned d) {
    unsigned char* p = cpu_at(at, 16);
    memcpy(p, &a, 4), memcpy(p + 4, &b, 4), memcpy(p + 8, &c, 4), memcpy(p + 12, &d, 4);
}

// ---- words and predicates ----

template <class D, class S>
inline void ptx_mov_b32(D& d, S s) {
    memcpy(&d, &s, 4);
}
inline void ptx_mov_b32_pack(unsigned& d, unsigned short low, unsigned short high) { d = cpu_two(low, high); }
inline void ptx_mov_b32_unpack(unsigned short& low, unsigned short& high, unsigned s) { low = (unsigned short)s, high = (unsigned short)(s >> 16); }
inline void ptx_setp_ne_s32(bool& p, unsigned a, unsigned b) { p = a != b; }
inline void ptx_setp_ge_s32(bool& p, unsigned a, unsigned b) { p = (int)a >= (int)b; }
inline void ptx_setp_ne_and_b32(bool& p, unsigned a, unsigned b, bool c) { p = a != b && c; }
inline void ptx_or_pred(bool& p, bool a, bool b) { p = a || b; }
inline void ptx_selp_b32(unsigned& d, unsigned a, unsigned b, bool p) { d = p ? a : b; }
inline void ptx_and_b32(unsigned& d, unsigned a, unsigned b) { d = a & b; }
inline void ptx_or_b32(unsigned& d, unsigned a, unsigned b) { d = a | b; }
inline void ptx_not_b32(unsigned& d, unsigned a) { d = ~a; }
inline void ptx_not_b64(unsigned long long& d, unsigned long long a) { d = ~a; }
inline void ptx_shl_b32(unsigned& d, unsigned a, unsigned by) { d = by < 32 ? a << by : 0; }
inline void ptx_shr_b32(unsigned& d, unsigned a, unsigned by) { d = by < 32 ? a >> by : 0; }
inline void ptx_shr_s32(unsigned& d, unsigned a, unsigned by) { d = (unsigned)((int)a >> (by < 31 ? by : 31)); }
inline void ptx_add_s32(unsigned& d, unsigned a, unsigned b) { d = a + b; }
inline void ptx_add_s64(unsigned long long& d, unsigned long long a, unsigned long long b) { d = a + b; }
inline void ptx_cvt_u64_u32(unsigned long long& d, unsigned a) { d = a; }

// ---- floats ----

/// -0 is below +0.
inline bool cpu_below(float a, float b) { return a < b || (a == b && __builtin_signbit(a) && !__builtin_signbit(b)); }
inline float cpu_min_nan(float a, float b) { return a != a || b != b ? a + b : cpu_below(a, b) ? a : b; }
inline float cpu_max_nan(float a, float b) { return a != a || b != b ? a + b : cpu_below(a, b) ? b : a; }
inline float cpu_min(float a, float b) { return a != a ? b : b != b ? a : cpu_min_nan(a, b); }
inline float cpu_max(float a, float b) { return a != a ? b : b != b ? a : cpu_max_nan(a, b); }
inline void ptx_min_f32(float& d, float a, float b) { d = cpu_min(a, b); }
inline void ptx_max_f32(float& d, float a, float b) { d = cpu_max(a, b); }
inline void ptx_min_NaN_f32(float& d, float a, float b) { d = cpu_min_nan(a, b); }
inline void ptx_max_NaN_f32(float& d, float a, float b) { d = cpu_max_nan(a, b); }
inline float cpu_flushed(float v) { return cpu_magnitude(v) < 0x800000u ? cpu_float(cpu_bits(v) & 0x80000000u) : v; }
inline void ptx_mul_ftz_f32(float& d, float a, float b) { d = cpu_flushed(cpu_flushed(a) * cpu_flushed(b)); }
inline void ptx_ex2_approx_f32(float& d, float a) { d = (float)exp2((double)a); }
inline void ptx_lg2_approx_f32(float& d, float a) { d = (float)log2((double)a); }
inline void ptx_sin_approx_f32(float& d, float a) { d = (float)sin((double)a); }
inline void ptx_cos_approx_f32(float& d, float a) { d = (float)cos((double)a); }
inline void ptx_tanh_approx_f32(float& d, float a) { d = (float)tanh((double)a); }
inline void ptx_rcp_approx_f32(float& d, float a) { d = (float)(1 / (double)a); }
inline void ptx_rsqrt_approx_f32(float& d, float a) { d = (float)(1 / sqrt((double)a)); }

// ---- 16-bit and 8-bit floats, single and in pairs ----

inline void ptx_cvt_f32_f16(float& d, unsigned short a) { d = cpu_of_f16(a); }
inline void ptx_cvt_rn_f16_f32(unsigned short& d, float a) { d = cpu_to_f16(a); }
inline void ptx_cvt_rn_bf16_f32(unsigned short& d, float a) { d = cpu_to_bf16(a); }
inline void ptx_cvt_rn_f16x2_f32(unsigned& d, float high, float low) { d = cpu_two(cpu_to_f16(low), cpu_to_f16(high)); }
inline void ptx_cvt_rn_bf16x2_f32(unsigned& d, float high, float low) { d = cpu_two(cpu_to_bf16(low), cpu_to_bf16(high)); }
inline void ptx_cvt_rn_satfinite_e4m3x2_f32(unsigned short& d, float high, float low) {
    d = (unsigned short)(cpu_to_e4m3(low) | cpu_to_e4m3(high) << 8);
}
inline void ptx_cvt_rn_f16x2_e4m3x2(unsigned& d, unsigned short a) {
    d = cpu_two(cpu_to_f16(cpu_of_e4m3((unsigned char)a)), cpu_to_f16(cpu_of_e4m3((unsigned char)(a >> 8))));
}
inline void ptx_cvt_rn_f16x2_e5m2x2(unsigned& d, unsigned short a) {
    d = cpu_two(cpu_to_f16(cpu_of_f16((unsigned short)(a << 8))), cpu_to_f16(cpu_of_f16((unsigned short)(a & 0xff00))));
}
/// A sum or product in float is exact enough to be rounded once more; a product and a sum are rounded to odd first.
#define CPU_HALVES(add, sub, mul, fma, add2, sub2, max2, min2, maxnum2, minnum2, of, to)                                                   \
    inline void add(unsigned short& d, unsigned short a, unsigned short b) { d = to(of(a) + of(b)); }                                      \
    inline void sub(unsigned short& d, unsigned short a, unsigned short b) { d = to(of(a) - of(b)); }                                      \
    inline void mul(unsigned short& d, unsigned short a, unsigned short b) { d = to(of(a) * of(b)); }                                      \
    inline void fma(unsigned short& d, unsigned short a, unsigned short b, unsigned short c) { d = to(cpu_fma_odd(of(a), of(b), of(c))); } \
    CPU_PAIR(add2, to, of(low_a) + of(low_b), of(high_a) + of(high_b))                                                                     \
    CPU_PAIR(sub2, to, of(low_a) - of(low_b), of(high_a) - of(high_b))                                                                     \
    CPU_PAIR(max2, to, cpu_max_nan(of(low_a), of(low_b)), cpu_max_nan(of(high_a), of(high_b)))                                             \
    CPU_PAIR(min2, to, cpu_min_nan(of(low_a), of(low_b)), cpu_min_nan(of(high_a), of(high_b)))                                             \
    CPU_PAIR(maxnum2, to, cpu_max(of(low_a), of(low_b)), cpu_max(of(high_a), of(high_b)))                                                  \
    CPU_PAIR(minnum2, to, cpu_min(of(low_a), of(low_b)), cpu_min(of(high_a), of(high_b)))
#define CPU_PAIR(name, to, low, high)                                                       \
    inline void name(unsigned& d, unsigned a, unsigned b) {                                 \
        const unsigned short low_a = (unsigned short)a, high_a = (unsigned short)(a >> 16); \
        const unsigned short low_b = (unsigned short)b, high_b = (unsigned short)(b >> 16); \
        d = cpu_two(to(low), to(high));                                                     \
    }
CPU_HALVES(ptx_add_rn_f16, ptx_sub_rn_f16, ptx_mul_rn_f16, ptx_fma_rn_f16, ptx_add_rn_f16x2, ptx_sub_rn_f16x2, ptx_max_NaN_f16x2, ptx_min_NaN_f16x2,
           ptx_max_f16x2, ptx_min_f16x2, cpu_of_f16, cpu_to_f16)
CPU_HALVES(ptx_add_rn_bf16, ptx_sub_rn_bf16, ptx_mul_rn_bf16, ptx_fma_rn_bf16, ptx_add_rn_bf16x2, ptx_sub_rn_bf16x2, ptx_max_NaN_bf16x2,
           ptx_min_NaN_bf16x2, ptx_max_bf16x2, ptx_min_bf16x2, cpu_of_bf16, cpu_to_bf16)
#undef CPU_PAIR
#undef CPU_HALVES
