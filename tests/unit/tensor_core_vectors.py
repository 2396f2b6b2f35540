#!/usr/bin/env python3
# What tensor cores compute, in exact rationals and from the measured rules alone (docs/numerics.md): the vectors of tensor_core_test, written once by
#   python3 tests/unit/tensor_core_vectors.py > tests/unit/tensor_core_vectors.txt
# A line is an instruction, the codes of a and b, the accumulator and the result; NaN is written as the format's canonical one.
import random
from fractions import Fraction
from math import inf, isnan, isinf, nan

# bits, exponent bits, mantissa bits, bits below the mantissa that are ignored; e4m3 has no Inf
FORMATS = {"f16": (16, 5, 10, 0), "bf16": (16, 8, 7, 0), "tf32": (32, 8, 10, 13), "f32": (32, 8, 23, 0), "e4m3": (8, 4, 3, 0), "e5m2": (8, 5, 2, 0)}
# a, b, accumulator, k, places below the largest term that a term keeps, mantissa bits of the result
FORMS = {
    "wgmma.f16.f32": ("f16", "f16", "f32", 16, 25, 23),
    "wgmma.f16.f16": ("f16", "f16", "f16", 16, 25, 10),
    "wgmma.bf16.f32": ("bf16", "bf16", "f32", 16, 25, 23),
    "wgmma.tf32.f32": ("tf32", "tf32", "f32", 8, 25, 23),
    "wgmma.e4m3.e4m3.f32": ("e4m3", "e4m3", "f32", 32, 13, 13),
    "wgmma.e5m2.e4m3.f32": ("e5m2", "e4m3", "f32", 32, 13, 13),
    "wgmma.e5m2.e5m2.f16": ("e5m2", "e5m2", "f16", 32, 13, 10),
}


def decode(code, name):
    """(value, exponent of the leading place): subnormals keep the smallest exponent."""
    bits, exponent_bits, mantissa_bits, ignored = FORMATS[name]
    bias = 2 ** (exponent_bits - 1) - 1
    sign = -1 if code >> (bits - 1) else 1
    code = (code & (1 << (bits - 1)) - 1) >> ignored
    biased, mantissa = code >> mantissa_bits, code & (1 << mantissa_bits) - 1
    if name == "e4m3":
        if biased == 15 and mantissa == 7:
            return nan, 0
    elif biased == 2**exponent_bits - 1:
        return (nan if mantissa else sign * inf), 0
    exponent = max(biased, 1) - bias
    return sign * (Fraction(mantissa, 2**mantissa_bits) + (biased > 0)) * Fraction(2) ** exponent, exponent


def floor_log2(x):
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def encode(value, name, keep, nearest):
    """A finite number in f32 (toward zero, with `keep` mantissa bits) or f16 (to nearest, ties to even); what becomes 0 is +0."""
    bits, exponent_bits, mantissa_bits, _ = FORMATS[name]
    bias = 2 ** (exponent_bits - 1) - 1
    if value == 0:
        return 0
    size = abs(value)
    quantum = Fraction(2) ** (max(floor_log2(size), 1 - bias) - keep)
    size = (round(size / quantum) if nearest else size // quantum) * quantum  # round() of a Fraction takes ties to even
    if size == 0:
        return 0
    exponent = max(floor_log2(size), 1 - bias)
    if exponent > bias:
        code = (2**exponent_bits - 1) << mantissa_bits
    else:
        places = int(size / Fraction(2) ** (exponent - mantissa_bits))
        code = places + ((exponent + bias - 1) << mantissa_bits)  # a normal number's leading one adds the last 1 to the exponent
    return code | (value < 0) << (bits - 1)


def step(form, a, b, c):
    fa, fb, out, _, places, keep = FORMS[form]
    canonical_nan = 0x7FC00000 if out == "f32" else 0x7E00
    infinity = 0x7F800000 if out == "f32" else 0x7C00
    a, b = [decode(x, fa) for x in a], [decode(x, fb) for x in b]
    c, c_exponent = decode(c, out)
    special = set()
    for (x, _), (y, _) in list(zip(a, b)) + [((c, 0), (1, 0))]:
        if isnan(x) or isnan(y) or (isinf(x) and y == 0) or (isinf(y) and x == 0):
            return canonical_nan
        if isinf(x) or isinf(y):
            special.add((x < 0) != (y < 0))
    if special:
        return canonical_nan if len(special) > 1 else infinity | special.pop() << (31 if out == "f32" else 15)
    top = -133 if out == "f32" else -21
    terms = [c]
    for (x, ex), (y, ey) in zip(a, b):
        if x and y:
            terms.append(x * y)
            top = max(top, ex + ey)
    if c:
        top = max(top, c_exponent)
    unit = Fraction(2) ** (top - places)
    total = sum((1 if t > 0 else -1) * (abs(t) // unit) for t in terms)
    return encode(total * unit, out, keep, out == "f16")


def finite(code, name):
    value = decode(code, name)[0]
    return not (isnan(value) or isinf(value))


class Data:
    """Operands that meet the rules' corners."""

    def __init__(self, form):
        self.form = form
        self.a, self.b, self.out, self.k = FORMS[form][:4]

    def code(self, name, low=None, high=None):
        """A finite number whose biased exponent lies in [low, high]; any code where those are None."""
        bits, exponent_bits, mantissa_bits, ignored = FORMATS[name]
        if low is None:
            return random.getrandbits(bits)
        top = 2**exponent_bits - (1 if name == "e4m3" else 2)
        biased = max(0, min(random.randint(low, max(low, high)), top))
        number = biased << mantissa_bits | random.getrandbits(mantissa_bits)
        code = random.getrandbits(1) << (bits - 1) | number << ignored | random.getrandbits(ignored)
        return code if finite(code, name) else code ^ 1

    def bias(self, name):
        return 2 ** (FORMATS[name][1] - 1) - 1

    def near_one(self, name, spread=2):
        return self.code(name, self.bias(name) - spread, self.bias(name) + spread)

    def many(self, make):
        return [make(self.a) for _ in range(self.k)], [make(self.b) for _ in range(self.k)]

    def power(self, name, e, subnormal):
        """The code of 2^e, or None."""
        _, exponent_bits, mantissa_bits, ignored = FORMATS[name]
        low, high = 1 - self.bias(name), 2**exponent_bits - 2 - self.bias(name)
        if low <= e <= high and not subnormal:
            return e + self.bias(name) << mantissa_bits + ignored
        return 1 << (e - low + mantissa_bits + ignored) if low - mantissa_bits <= e < low else None

    def probe(self, exponents, subnormal=False):
        """A sum of powers of two as products (a sign per exponent), in any places; products of zero and something large elsewhere."""
        a, b = [0] * self.k, [self.power(self.b, self.bias(self.b), False)] * self.k
        places = random.sample(range(self.k), len(exponents))
        for n, (place, (sign, e)) in enumerate(zip(places, exponents)):
            pairs = [(self.power(self.a, i, subnormal and n == 0), self.power(self.b, e - i, False)) for i in range(-140, 128)]
            pairs = [(x, y) for x, y in pairs if x is not None and y is not None]
            if not pairs:
                return []
            a[place], b[place] = random.choice(pairs)
            a[place] |= (sign < 0) << (FORMATS[self.a][0] - 1)
        return [(a, b, 0)]

    def cuts(self):
        """Terms one place above, at and below the cut, which is counted from the largest exponent, normal or not, or from a floor."""
        places, keep, tie = FORMS[self.form][4], FORMS[self.form][5], self.out == "f16"
        for top, subnormal in ((0, False), (5, False), (-9, False), (-16, True), (-24, True), (-130, True)):
            for distance in range(places - 1 - 10 * subnormal, places + 2, 2 if subnormal else 1):
                half = [(1, top - keep - 1)] if tie else []
                yield from self.probe([(1, top)] + half + [(1 if tie else -1, top - distance)], subnormal)
        for top in (-20, -22, -24) if tie else (-132, -133, -134, -140, -149):
            floor = (-21 if tie else -133) - places
            for e in (floor + 1, floor, floor - 1):
                yield from self.probe([(1, top)] + ([(1, -25)] if tie else []) + [(-1, e)])

    def vectors(self):
        negative = lambda x, name: x ^ 1 << (FORMATS[name][0] - 1)
        one = {name: self.bias(name) << FORMATS[name][2] + FORMATS[name][3] for name in FORMATS}
        yield *self.many(lambda n: 0), 0
        yield *self.many(lambda n: random.getrandbits(1) << (FORMATS[n][0] - 1)), negative(0, self.out)
        for _ in range(3):
            yield *self.many(self.near_one), self.near_one(self.out)
        for _ in range(3):  # every exponent
            yield *self.many(lambda n: self.code(n, 0, 999)), self.code(self.out, 0, 999)
        for _ in range(2):  # subnormal operands, also with nothing else
            yield *self.many(lambda n: self.code(n, 0, 0)), 0
            a, b = self.many(lambda n: self.code(n, 0, 1))
            yield a, b, self.code(self.out, 0, 0)
        for _ in range(2):  # pairs that cancel, and what is left
            a, b = self.many(self.near_one)
            for i in range(0, self.k - 2, 2):
                a[i + 1], b[i + 1] = negative(a[i], self.a), b[i]
            yield a, b, self.code(self.out, 0, self.bias(self.out) - 20)
        for _ in range(2):  # single bits around the cut
            a, b = [0] * self.k, [one[self.b]] * self.k
            a[0] = one[self.a]
            for i in range(1, self.k):
                a[i] = self.code(self.a, self.bias(self.a) - 30, self.bias(self.a) - 10)
            yield a, b, self.code(self.out, self.bias(self.out) - 14, self.bias(self.out) - 8)
        for distance in (8, 13, 14, 25, 26):  # one and an accumulator far below, and the other way round
            below, above = self.bias(self.out) - distance, self.bias(self.out) + distance
            yield [one[self.a]] + [0] * (self.k - 1), [one[self.b]] * self.k, self.code(self.out, below, below)
            yield *self.many(self.near_one), self.code(self.out, above, above)
        for sign in (0, 1):  # overflow
            a, b = self.many(lambda n: self.code(n, 999, 999) & (1 << (FORMATS[n][0] - 1)) - 1)
            yield [x | sign << (FORMATS[self.a][0] - 1) for x in a], b, self.code(self.out, 999, 999)
        for _ in range(4):  # any code: Inf and NaN
            yield *self.many(lambda n: self.code(n)), self.code(self.out)
        if self.a != "e4m3":  # Inf alone, Inf * 0, Inf - Inf, an infinite accumulator
            infinity = (2 ** FORMATS[self.a][1] - 1) << FORMATS[self.a][2] + FORMATS[self.a][3]
            a, b = self.many(self.near_one)
            yield [negative(infinity, self.a)] + a[1:], [one[self.b]] + b[1:], 0
            yield [infinity] + a[1:], [0] + b[1:], 0
            yield [infinity, negative(infinity, self.a)] + a[2:], [one[self.b]] * 2 + b[2:], 0
            yield [infinity + 1] + a[1:], [one[self.b]] + b[1:], 0  # NaN; in tf32 Inf, as the bit is ignored
        yield from self.cuts()
        yield *self.many(self.near_one), 0xFF800000 if self.out == "f32" else 0xFC00


random.seed(2026)
print("# Written by tensor_core_vectors.py.")
for form, (fa, fb, out, *_) in FORMS.items():
    def text(codes, name):
        return "".join(f"{c:0{FORMATS[name][0] // 4}x}" for c in codes)
    for a, b, c in Data(form).vectors():
        print(form, text(a, fa), text(b, fb), text([c], out), text([step(form, a, b, c)], out))
