// sort and histogram (support_order.h). Order of floats: by value, -0 below +0; NaN last ascending and first descending; among equals the lower index
// comes first, descending as well. An element's key with its index below is one number, so that no two are equal: short lines are ordered by counting
// what is smaller, long ones digit by digit from the lowest, of which few elements may be wanted.
#include "jit/cpu/support_order.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "jit/cpu/order_keys.h"
#include "jit/cpu/tile_memory.h"
#include "lang/axis.h"

namespace tegula::cpu {

namespace {

__extension__ using Wide = unsigned __int128;

constexpr int64_t kPiece = 1 << 17;   ///< elements between two polls
constexpr int64_t kShort = 40;        ///< a line of so many is ordered by counting
constexpr int64_t kHandful = 16;      ///< at most so many of a line that is not longer than
constexpr int64_t kMedium = 1 << 12;  ///< .. are held in order while it is gone through
constexpr int64_t kFew = 1 << 16;     ///< at most so many are selected
constexpr int64_t kPage = 4096;       ///< bytes; each is touched before digits go to all of them between two polls
constexpr unsigned kDigit = 8;        ///< bits
constexpr size_t kValues = size_t{1} << kDigit;

/// Calls body(from, to) for the pieces of [0, n); false: the run is over.
template <class Body>
bool in_pieces(int64_t n, const Poll& poll, Body&& body) {
    for (int64_t from = 0; from < n; from += kPiece) {
        if (from > 0 && poll()) return false;
        body(from, std::min(n, from + kPiece));
    }
    return true;
}

/// Items, keys above indices, in two buffers that change places.
template <class Item>
class Line {
public:
    static constexpr unsigned kIndexBits = sizeof(Item) * 4;
    Line(int64_t n, unsigned key_bits, const Poll& poll)
        : all_(static_cast<Item*>(allocate_tiles(static_cast<size_t>(2 * n) * sizeof(Item)))),
          other_(all_.get() + n),
          digits_((key_bits + kDigit - 1) / kDigit),
          poll_(poll),
          items(all_.get()) {}

    /// The `wanted` lowest of the first n items come first, in order; false: the run is over.
    bool order(int64_t n, int64_t wanted) {
        if (wanted <= kHandful && wanted <= n / 2 && n <= kMedium) return insert(n, wanted), true;
        if (wanted <= kFew && wanted <= n / 4 && n > kShort) {
            if (!select(n, wanted)) return false;
            std::sort(items, items + wanted);  // by index, too: digits keep the order of equal keys
            return true;
        }
        return n <= kShort ? count(n), true : by_digits(n);
    }

private:
    void count(int64_t n) {
        for (int64_t k = 0; k < n; ++k) {
            const Item item = items[k];
            int64_t smaller = 0;
            for (int64_t j = 0; j < n; ++j) smaller += items[j] < item;
            other_[smaller] = item;
        }
        std::swap(items, other_);
    }

    void insert(int64_t n, int64_t wanted) {
        for (int64_t k = 1; k < n; ++k) {
            const Item item = items[k];
            int64_t at = std::min(k, wanted);
            if (at == wanted && items[at - 1] <= item) continue;
            for (at -= at == wanted; at > 0 && item < items[at - 1]; --at) items[at] = items[at - 1];
            items[at] = item;
        }
    }

    bool by_digits(int64_t n) {
        uint32_t places[sizeof(Item) / 2][kValues] = {};
        const auto digit = [](Item item, unsigned d) { return static_cast<uint8_t>(item >> (kIndexBits + d * kDigit)); };
        const bool counted = in_pieces(n, poll_, [&, digits = digits_](int64_t from, int64_t to) {
            for (int64_t k = from; k < to; ++k)
                for (unsigned d = 0; d < digits; ++d) ++places[d][digit(items[k], d)];
            for (int64_t k = from; k < to; k += kPage / static_cast<int64_t>(sizeof(Item))) other_[k] = 0;
        });
        for (unsigned d = 0; counted && d < digits_; ++d) {
            if (places[d][digit(items[0], d)] == n) continue;  // all have this digit
            uint32_t sum = 0;
            for (uint32_t& place : places[d]) sum += std::exchange(place, sum);
            const bool moved = in_pieces(n, poll_, [&, in = items, out = other_](int64_t from, int64_t to) {
                for (int64_t k = from; k < to; ++k) out[places[d][digit(in[k], d)]++] = in[k];
            });
            if (!moved) return false;
            std::swap(items, other_);
        }
        return counted;
    }

    /// The `wanted` lowest come first, in any order: candidates are those below the highest of so many of the candidates before.
    bool select(int64_t n, int64_t wanted) {
        const int64_t room = 2 * wanted + 16;
        int64_t found = 0;
        Item limit = ~Item{0};
        const auto choose = [&] {
            std::nth_element(items, items + wanted - 1, items + found);
            limit = items[wanted - 1];
            found = wanted;
        };
        const bool all = in_pieces(n, poll_, [&](int64_t from, int64_t to) {
            for (int64_t k = from; k < to; ++k) {
                if (items[k] >= limit) continue;
                items[found++] = items[k];
                if (found == room) choose();
            }
        });
        if (all) choose();
        return all;
    }

    std::unique_ptr<Item, FreeTiles> all_;
    Item* other_;
    unsigned digits_;
    const Poll& poll_;

public:
    Item* items;
};

struct Sort {
    const Format& format;
    bool descending;
    Axis axis;
    int64_t wanted;
    const Poll& poll;

    template <class Code, class Item>
    void run(const Code* in, Code* values, int32_t* indices) const {
        using Key = std::conditional_t<sizeof(Item) == 8, uint32_t, uint64_t>;
        const unsigned bits = key_bits(format);
        const Key turned = descending ? static_cast<Key>(low_bits(bits)) : Key{0};
        Line<Item> line(axis.n, bits, poll);
        with_keys<Code, Key>(format, [&](auto key) {
            int64_t done = 0;
            for (int64_t l = 0; l < axis.lines(); ++l) {
                const int64_t base = l / axis.inner * axis.n * axis.inner + l % axis.inner;
                const auto make = [&](int64_t from, int64_t to) {
                    for (int64_t k = from; k < to; ++k)
                        line.items[k] =
                            Item{static_cast<Key>(key(in[base + k * axis.inner]) ^ turned)} << Line<Item>::kIndexBits | static_cast<Item>(k);
                };
                const auto put = [&](int64_t from, int64_t to) {
                    for (int64_t k = from; k < to; ++k) {
                        const auto index = static_cast<uint32_t>(line.items[k]);
                        values[base + k * axis.inner] = in[base + index * axis.inner];
                        indices[base + k * axis.inner] = static_cast<int32_t>(index);
                    }
                };
                if (!in_pieces(axis.n, poll, make) || !line.order(axis.n, wanted) || !in_pieces(wanted, poll, put)) return;
                done += axis.n;
                if (done >= kPiece && poll()) return;
                done %= kPiece;
            }
        });
    }
};

}  // namespace

void sort_tile(const ir::Function& fn, uint32_t inst, const void* in, void* values, int32_t* indices, int64_t wanted, const Poll& poll) {
    const ir::Inst& i = fn.inst(ir::InstId{inst});
    const Type& type = fn.type(fn.operands(i)[0]);
    const Format& f = fn.types().format(type.elem);
    const Sort sort{f, fn.attrs(i)[1] != 0, Axis(type.shape, fn.attrs(i)[0]), wanted, poll};
    const auto run = [&]<class Code>(Code) {
        const auto* from = static_cast<const Code*>(in);
        if (key_bits(f) <= 32)
            sort.run<Code, uint64_t>(from, static_cast<Code*>(values), indices);
        else
            sort.run<Code, Wide>(from, static_cast<Code*>(values), indices);
    };
    switch (f.container_bytes()) {
        case 1:
            return run(uint8_t{});
        case 2:
            return run(uint16_t{});
        case 4:
            return run(uint32_t{});
        default:
            return run(uint64_t{});
    }
}

namespace {

/// Negative values are huge.
template <class Code>
void count_values(const Code* in, const uint8_t* mask, int64_t n, int32_t* counts, uint64_t bins, const Poll& poll) {
    const auto count = [&](auto wanted) {
        in_pieces(n, poll, [&](int64_t from, int64_t to) {
            for (int64_t e = from; e < to; ++e)
                if (const auto v = static_cast<uint64_t>(in[e]); v < bins && wanted(e)) ++counts[v];
        });
    };
    mask ? count([mask](int64_t e) { return mask[e] != 0; }) : count([](int64_t) { return true; });
}

}  // namespace

void count_tile(const ir::Function& fn, uint32_t inst, const void* in, const uint8_t* mask, int32_t* counts, const Poll& poll) {
    const ir::Inst& i = fn.inst(ir::InstId{inst});
    const ir::ValueId operand = fn.operands(i)[0];
    const Format& f = fn.elem(operand);
    const int64_t n = fn.type(operand).shape.elements(), bins = fn.type(fn.result(i)).shape.elements();
    std::fill_n(counts, bins, 0);
    const auto run = [&]<class Signed>(Signed) {
        using Unsigned = std::make_unsigned_t<Signed>;
        const auto b = static_cast<uint64_t>(bins);
        f.is_signed ? count_values(static_cast<const Signed*>(in), mask, n, counts, b, poll)
                    : count_values(static_cast<const Unsigned*>(in), mask, n, counts, b, poll);
    };
    switch (f.container_bytes()) {
        case 1:
            return run(int8_t{});
        case 2:
            return run(int16_t{});
        case 4:
            return run(int32_t{});
        default:
            return run(int64_t{});
    }
}

}  // namespace tegula::cpu
