// Arithmetic of single registers, for the instructions that programs declare: integers of 16 to 64 bits, f32 and f64, predicates, and bytes side by
// side.
#include <bit>
#include <cmath>
#include <cstring>

#include "tests/emulate/ptx.h"

namespace tegula::on_cpu {

namespace {

/// "mul.lo.u32": the operation, its modifiers, and the type, which stands last.
struct Name {
    std::string op, modifiers, type;
    explicit Name(const std::string& text) {
        const size_t first = text.find('.'), last = text.rfind('.');
        op = text.substr(0, first);
        if (first == std::string::npos) return;
        type = text.substr(last + 1);
        if (last > first) modifiers = text.substr(first + 1, last - first - 1);
    }
    bool is_float() const { return type == "f32" || type == "f64"; }
    bool is_signed() const { return type[0] == 's'; }
    unsigned bits() const { return static_cast<unsigned>(std::atoi(type.c_str() + 1)); }
};

uint64_t low(uint64_t v, unsigned bits) { return bits >= 64 ? v : v & ((uint64_t{1} << bits) - 1); }

int64_t extended(uint64_t v, const Name& n) {
    const unsigned rest = 64 - n.bits();
    return n.is_signed() ? static_cast<int64_t>(v << rest) >> rest : static_cast<int64_t>(low(v, n.bits()));
}

template <class T>
int order(T a, T b) {
    return a < b ? -1 : a > b;
}

bool holds(const std::string& comparison, int order) {
    if (comparison == "eq") return order == 0;
    if (comparison == "ne" || comparison == "neu") return order != 0;
    if (comparison == "lt" || comparison == "lo") return order < 0;
    if (comparison == "le" || comparison == "ls") return order <= 0;
    if (comparison == "gt" || comparison == "hi") return order > 0;
    return order >= 0;
}

template <class F, class Bits>
bool float_operation(const Name& n, const Instruction& in, Context& c) {
    const auto x = [&](size_t i) { return std::bit_cast<F>(static_cast<Bits>(c.read(in.operands[i]))); };
    const auto give = [&](F v) { return c.write(in.operands[0], std::bit_cast<Bits>(v)), true; };
    if (n.op == "setp") {
        const bool nan = std::isnan(x(1)) || std::isnan(x(2));
        return c.write(in.operands[0], nan ? n.modifiers == "neu" : holds(n.modifiers, order(x(1), x(2)))), true;
    }
    if (n.op == "neg") return give(-x(1));
    if (n.op == "abs") return give(std::fabs(x(1)));
    if (n.op == "min") return give(std::fmin(x(1), x(2)));
    if (n.op == "max") return give(std::fmax(x(1), x(2)));
    if (!n.modifiers.empty() && n.modifiers != "rn") return false;
    if (n.op == "add") return give(x(1) + x(2));
    if (n.op == "sub") return give(x(1) - x(2));
    if (n.op == "mul") return give(x(1) * x(2));
    if (n.op == "div") return give(x(1) / x(2));
    if (n.op == "sqrt") return give(std::sqrt(x(1)));
    if (n.op == "fma") return give(std::fma(x(1), x(2), x(3)));
    return false;
}

bool integer_operation(const Name& n, const Instruction& in, Context& c) {
    const auto x = [&](size_t i) { return extended(c.read(in.operands[i]), n); };
    const auto u = [&](size_t i) { return low(c.read(in.operands[i]), n.bits()); };
    const auto give = [&](auto v) { return c.write(in.operands[0], low(static_cast<uint64_t>(v), n.bits())), true; };
    if (n.op == "setp") {
        const int by = n.is_signed() ? order(x(1), x(2)) : order(u(1), u(2));
        return c.write(in.operands[0], holds(n.modifiers, by)), true;
    }
    if (n.op == "and") return give(u(1) & u(2));
    if (n.op == "or") return give(u(1) | u(2));
    if (n.op == "xor") return give(u(1) ^ u(2));
    if (n.op == "not") return give(~u(1));
    if (n.op == "cnot") return give(u(1) == 0);
    if (n.op == "add") return give(u(1) + u(2));
    if (n.op == "sub") return give(u(1) - u(2));
    if (n.op == "neg") return give(-u(1));
    if (n.op == "abs") return give(x(1) < 0 ? -u(1) : u(1));
    if (n.op == "min") return give((n.is_signed() ? x(1) < x(2) : u(1) < u(2)) ? u(1) : u(2));
    if (n.op == "max") return give((n.is_signed() ? x(1) > x(2) : u(1) > u(2)) ? u(1) : u(2));
    if (n.op == "mul" && n.modifiers == "lo") return give(u(1) * u(2));
    if (n.op == "mad" && n.modifiers == "lo") return give(u(1) * u(2) + u(3));
    if (n.op == "popc") return give(std::popcount(u(1)));
    if (n.op == "clz") return give(std::countl_zero(u(1)) - 64 + static_cast<int>(n.bits()));
    const uint64_t by = low(c.read(in.operands.at(2)), 32);
    if (n.op == "shl") return give(by < n.bits() ? u(1) << by : 0);
    if (n.op == "shr")
        return give(by < n.bits() ? n.is_signed() ? static_cast<uint64_t>(x(1) >> by) : u(1) >> by : n.is_signed() && x(1) < 0 ? ~uint64_t{0} : 0);
    return false;
}

/// mov between one register and several, the first one lowest.
bool move(const Name& n, const Instruction& in, Context& c) {
    const std::vector<std::string> to = list_of(in.operands[0]), from = list_of(in.operands[1]);
    const unsigned part = n.bits() / static_cast<unsigned>(std::max(to.size(), from.size()));
    uint64_t whole = 0;
    for (size_t i = 0; i < from.size(); ++i) whole |= low(c.read(from[i]), from.size() > 1 ? part : n.bits()) << part * i;
    for (size_t i = 0; i < to.size(); ++i) c.write(c.operand(to[i]), low(whole >> (to.size() > 1 ? part * i : 0), to.size() > 1 ? part : n.bits()));
    return true;
}

}  // namespace

bool scalar_operation(const Instruction& in, Context& c) {
    const Name n(in.name);
    if (in.name == "vabsdiff4.u32.u32.u32.add") {
        uint64_t sum = c.read(in.operands[3]);
        for (unsigned i = 0; i < 32; i += 8)
            sum += static_cast<uint64_t>(std::abs(int64_t(c.read(in.operands[1]) >> i & 255) - int64_t(c.read(in.operands[2]) >> i & 255)));
        c.write(in.operands[0], static_cast<uint32_t>(sum));
        return true;
    }
    if (n.bits() == 0) return false;
    if (n.op == "mov") return move(n, in, c);
    if (n.op == "selp") return c.write(in.operands[0], low(c.read(in.operands[c.read(in.operands[3]) ? 1 : 2]), n.bits())), true;
    if (n.type == "f32") return float_operation<float, uint32_t>(n, in, c);
    if (n.type == "f64") return float_operation<double, uint64_t>(n, in, c);
    return (n.type[0] == 'u' || n.type[0] == 's' || n.type[0] == 'b') && integer_operation(n, in, c);
}

}  // namespace tegula::on_cpu
