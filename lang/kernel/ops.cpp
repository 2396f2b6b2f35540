// The rows of kernel_ops.def, their operands read by the compiler.
#include "lang/kernel/ops.h"

namespace tegula::kernel {

namespace {

constexpr std::string_view kWords[] = {"any",    "number",   "wide",    "constant",  "newer",   "count",   "results",
                                       "result", "sum",      "counter", "area_from", "area_to", "barrier", "peer",
                                       "map",    "function", "type",    "named",     "form"};

/// A word that names no operand ends the build: throw is no constant expression.
constexpr Operand operand_of(std::string_view word) {
    for (size_t i = 0; i < std::size(kWords); ++i)
        if (kWords[i] == word) return static_cast<Operand>(i);
    throw "no kind of operand has this name";
}

constexpr Signature signature_of(std::string_view text) {
    Signature out;
    while (!text.empty()) {
        const size_t end = text.find(' ');
        std::string_view word = text.substr(0, end);
        text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
        if (word.back() == '?' || word.back() == '*') {
            if (out.open >= 0) throw "two operands of a row may be left out";
            out.open = static_cast<int8_t>(out.size);
            out.many = word.back() == '*';
            word.remove_suffix(1);
        }
        out.word[out.size++] = operand_of(word);
    }
    return out;
}

constexpr Row kRows[] = {
#define KERNEL_OP(name, operands, effects, threads, queue, first, last, cuda, section, doc) \
    {KernelOp::name,                                                                        \
     #name,                                                                                 \
     signature_of(operands),                                                                \
     static_cast<uint16_t>(effects),                                                        \
     threads,                                                                               \
     Queue::queue,                                                                          \
     first,                                                                                 \
     last,                                                                                  \
     cuda,                                                                                  \
     section,                                                                               \
     doc},
#include "lang/kernel/kernel_ops.def"
};

}  // namespace

std::span<const Row> all_rows() { return kRows; }

}  // namespace tegula::kernel
