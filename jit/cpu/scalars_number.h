// What the general rounding works on, as in lang/round.cpp; private to scalars_*.cpp.
#pragma once
#include "jit/cpu/scalars.h"

namespace tegula::cpu {

/// (-1)^negative * significand * 2^exponent and, if sticky, a little more; i64 and i1 per lane.
struct Scalars::Number {
    Value *significand, *exponent, *negative, *sticky, *infinite, *nan;
};
/// Whole quanta, and the lost part as a 64-bit fraction.
struct Scalars::Cut {
    Value *whole, *fraction, *sticky;
};

}  // namespace tegula::cpu
