// Updates of elements by compare-and-swap on the smallest aligned word that holds them (support_atomic.h). Such a word may reach out of the tensor,
// never out of its page, and what is not the element's is written back as it was.
#include "jit/cpu/support_atomic.h"

#include <optional>

#include "lang/joining.h"
#include "lang/scalar.h"

namespace tegula::cpu {

namespace {

struct Update {
    const Format& format;
    ir::AtomicKind kind;
    uint64_t value, expected;

    /// What comes after `old`; nothing: it stays.
    std::optional<uint64_t> next(uint64_t old) const {
        if (kind == ir::AtomicKind::xchg) return value;
        if (kind == ir::AtomicKind::cas) return old == expected ? std::optional(value) : std::nullopt;
        const uint64_t codes[2] = {old, value};
        return scalar::eval_elementwise(ir::joining_op(kind), format, codes);
    }
};

/// The word, whose bits in `own` then are what `next` makes of them, unless that is nothing.
template <class Word, class Next>
__attribute__((no_sanitize("address", "thread"))) Word exchange(Word* at, Word own, const Next& next) {
    Word old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
    for (;;) {
        const std::optional<Word> bits = next(static_cast<Word>(old & own));
        if (!bits) return old;
        const Word wanted = static_cast<Word>((old & static_cast<Word>(~own)) | *bits);
        if (__atomic_compare_exchange_n(at, &old, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return old;
    }
}

template <class Word>
uint64_t in_word(const Update& u, uintptr_t at, unsigned shift) {
    shift += static_cast<unsigned>(at % sizeof(Word)) * 8;
    const uint64_t low = low_bits(u.format.bits);
    const auto element = [&](Word word) { return extend_code(u.format, uint64_t{word} >> shift & low); };
    const Word old = exchange(reinterpret_cast<Word*>(at / sizeof(Word) * sizeof(Word)), static_cast<Word>(low << shift), [&](Word word) {
        const std::optional<uint64_t> code = u.next(element(word));
        return code ? std::optional(static_cast<Word>((*code & low) << shift)) : std::nullopt;
    });
    return element(old);
}

/// In turns with others of the launch; bytes that neighbours share are theirs to update meanwhile.
uint64_t in_bytes(const Update& u, uint8_t* at, unsigned shift, std::mutex& turn) {
    std::lock_guard lock(turn);
    const uint64_t old = extend_code(u.format, load_bits(u.format, at, shift));
    const std::optional<uint64_t> code = u.next(old);
    if (!code) return old;
    using Wide = unsigned __int128;
    Wide own = Wide{low_bits(u.format.bits)} << shift, bits = Wide{*code & low_bits(u.format.bits)} << shift;
    for (; own; own >>= 8, bits >>= 8) exchange(at++, static_cast<uint8_t>(own), [&](uint8_t) { return std::optional(static_cast<uint8_t>(bits)); });
    return old;
}

}  // namespace

uint64_t update_element(Launch& launch, uint32_t inst, uint8_t* data, uint64_t bit, uint64_t value, uint64_t expected) {
    const ir::Inst& i = launch.fn.inst(ir::InstId{inst});
    const Format& f = launch.fn.elem(launch.fn.operands(i)[0]);
    const Update u{f, static_cast<ir::AtomicKind>(launch.fn.attrs(i)[1]), extend_code(f, value), extend_code(f, expected)};
    const unsigned shift = static_cast<unsigned>(bit % 8);
    const auto first = reinterpret_cast<uintptr_t>(data + bit / 8), last = first + (shift + f.bits - 1) / 8;
    if (first == last) return in_word<uint8_t>(u, first, shift);
    if (first / 2 == last / 2) return in_word<uint16_t>(u, first, shift);
    if (first / 4 == last / 4) return in_word<uint32_t>(u, first, shift);
    if (first / 8 == last / 8) return in_word<uint64_t>(u, first, shift);
    return in_bytes(u, data + bit / 8, shift, launch.memory);
}

}  // namespace tegula::cpu
