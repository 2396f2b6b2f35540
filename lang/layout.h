// Layouts: how logical indices become physical storage. See language.md section 8 and architecture.md section 3.
//
// A Layout is a list of physical index expressions over logical indices and extents; the physical tuple is read row-major, its last
// member is the packed (innermost) one. BoundLayout is a layout at concrete extents: build one wherever more than a few points are
// placed. LinearLayout is the bit-linear (GF(2)) form used where extents are powers of two.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lang/type.h"

namespace tegula {

constexpr int kMaxLayoutDepth = 128;                      ///< nesting of an index expression
constexpr uint32_t kMaxLayoutNodes = 4096;                ///< size of an index expression, shared parts counted each time
constexpr int kMaxLayoutMembers = 32;                     ///< members of a physical tuple
constexpr int64_t kMaxLayoutElements = int64_t{1} << 56;  ///< storage of one tensor, so that bit addresses fit 64 bits
constexpr int64_t kMaxLayoutEnumeration = int64_t{1} << 24;

/// a / b towards negative infinity; b is not 0, and not -1 with the least a.
inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/// Integer expression over logical indices i0.. and extents e0.. (64-bit, floor division; x / 0 = 0, x % 0 = x). Value semantics
/// through shared immutable nodes. `make` folds constants and normalises (shifts and masks by constants become *, / and %).
struct LayoutExpr {
    enum Op : uint8_t { constant, index, extent, add, sub, mul, div, rem, bit_xor, bit_and, bit_or, shl, shr, min, max, too_deep } op = constant;
    uint16_t depth = 1;  ///< leaves have depth 1
    uint32_t nodes = 1;
    int64_t value = 0;  ///< constant; number of the index or extent
    std::shared_ptr<const LayoutExpr> a, b;
    static LayoutExpr make_constant(int64_t v);
    static LayoutExpr make_index(int i);
    static LayoutExpr make_extent(int i);
    /// Past kMaxLayoutDepth or kMaxLayoutNodes the result is a `too_deep` leaf, which Layout::problem() reports and eval treats as overflow.
    static LayoutExpr make(Op op, LayoutExpr a, LayoutExpr b);
    /// Value at a point; `overflow` is set on 64-bit overflow (result then unspecified).
    int64_t eval(std::span<const int64_t> indices, std::span<const int64_t> extents, bool* overflow = nullptr) const;
    /// The expression with every index k replaced by indices[k] and every extent k by extents[k] (left alone where the span is shorter).
    LayoutExpr substitute(std::span<const LayoutExpr> indices, std::span<const LayoutExpr> extents) const;
    bool is_constant(int64_t v) const { return op == constant && value == v; }
    std::string text() const;  ///< "(i0 / 8) + (i1 % e1)"
};

struct LayoutConflict {                  ///< two logical points that land on the same element, or one that is out of range
    std::vector<int64_t> first, second;  ///< `second` empty: `first` maps to a physical index that is negative, or not below `pinned`
    int64_t offset = 0;
    int64_t pinned = 0;        ///< the declared extent of that member
    std::string text() const;  ///< "(0, 1) and (1, 0) both land on element 5"
};

enum class Injectivity : uint8_t { proved, refuted, unknown };
struct LayoutCheck {
    Injectivity result = Injectivity::proved;
    LayoutConflict conflict;  ///< refuted
    std::string reason;       ///< unknown: why, as the end of a sentence ("the storage needs more than 2^56 elements")
};

class Layout {
public:
    Layout() = default;  ///< row-major of any rank
    static Layout row();
    static Layout col();  ///< column-major: last index slowest
    /// Explicit element strides, one per logical dimension; the physical tuple is the one-dimensional offset. Negative strides are
    /// representable and refuted by `check`.
    static Layout with_strides(std::vector<int64_t> strides);
    /// `pins`: declared extents of the physical members, expressions of extents alone; nullopt: what the largest index asks for. Empty: none is
    /// pinned.
    using Pins = std::vector<std::optional<LayoutExpr>>;
    static Layout from_exprs(std::string name, int logical_rank, std::vector<LayoutExpr> physical, Pins pins = {});
    /// outer(inner(i)). Ranks that do not match, or an outer layout whose extents cannot be written down, give a layout with a problem().
    static Layout compose(const Layout& outer, const Layout& inner);
    /// first(i..), second(j..): the first indices go through one layout, the others through the second one. Both have a rank of their own, else the
    /// result has a problem().
    static Layout product(const Layout& first, const Layout& second);
    /// The inverse map, valid on the image of `layout` (padding maps anywhere); nullopt with a reason when it cannot be written as
    /// expressions (then use inverse_table). Without extents it must hold for all of them.
    static std::optional<Layout> inverse(const Layout& layout, std::string* why);
    static std::optional<Layout> inverse(const Layout& layout, std::span<const int64_t> extents, std::string* why);

    enum class Kind : uint8_t { row, col, strides, exprs };
    Kind kind() const { return kind_; }
    const std::string& name() const { return name_; }
    /// Logical rank, or -1 when it fits any.
    int rank() const { return rank_; }
    /// Empty, or why this is no usable layout (too deep, unknown index, rank mismatch). Callers of everything below have seen it empty.
    std::string problem() const;
    /// Canonical text, without the name: equal text means equal layout. Also the interning key and the source of `hash()`.
    std::string text() const;
    uint64_t hash() const;  ///< FNV-1a of text(): stable across versions and machines
    /// The physical tuple as expressions, for any kind.
    std::vector<LayoutExpr> physical(int logical_rank) const;
    bool is_pinned() const { return !pins_.empty(); }

    /// Extents of the physical tuple for logical `extents` (1 + largest index in each member, or what is pinned if that is more). Exact where
    /// interval or mixed-radix analysis proves it or the indices a member uses span at most 2^20 points, else an upper bound; INT64_MAX where that
    /// overflows. A zero extent gives zeros.
    std::vector<int64_t> physical_extents(std::span<const int64_t> extents) const;
    /// Element offset (row-major within physical_extents) of a logical point, ignoring row padding of sub-byte storage.
    int64_t offset(std::span<const int64_t> index, std::span<const int64_t> extents) const;
    /// Bit address of a point for elements of `bits` bits: every physical innermost row starts on a byte.
    int64_t bit_offset(std::span<const int64_t> index, std::span<const int64_t> extents, unsigned bits) const;
    /// Bytes of storage for a tensor of these logical extents; -1 when it needs more than kMaxLayoutElements elements.
    int64_t storage_bytes(std::span<const int64_t> extents, unsigned bits) const;
    /// Affine form when bit addresses are linear in the indices: bit strides per logical dimension for `bits`-wide elements (0 for an
    /// extent of 1 that the address ignores); nullopt otherwise.
    std::optional<std::vector<int64_t>> bit_strides(std::span<const int64_t> extents, unsigned bits) const;
    /// Which logical dimension is contiguous in storage over its whole extent (row: last, col: first), or -1 when none is.
    int innermost_dimension(int logical_rank) const;
    /// Is every point in range and no two on the same element? By mixed radix, strides or GF(2) where they apply, else by enumeration
    /// of up to kMaxLayoutEnumeration points; beyond that `unknown`. Padding (injective, not onto) is legal.
    LayoutCheck check(std::span<const int64_t> extents) const;
    /// The conflict of a refuted check; nullopt when proved *or unknown*.
    std::optional<LayoutConflict> find_conflict(std::span<const int64_t> extents) const;
    /// Element offset -> row-major logical index, -1 for padding. Nullopt when the storage exceeds 2^26 elements or two points collide.
    std::optional<std::vector<int64_t>> inverse_table(std::span<const int64_t> extents) const;
    friend bool operator==(const Layout& a, const Layout& b) { return a.text() == b.text(); }

private:
    Kind kind_ = Kind::row;
    std::string name_ = "row", problem_;
    int rank_ = -1;
    std::vector<int64_t> strides_;
    std::vector<LayoutExpr> exprs_;
    Pins pins_;
    /// Of a pinned member at these extents; 0 where it is not pinned, INT64_MAX where it overflows.
    int64_t pinned_extent(size_t member, std::span<const int64_t> extents) const;
    std::optional<LayoutCheck> check_pins(std::span<const int64_t> extents) const;
};

/// One expression at concrete extents as a postfix program.
class LayoutProgram {
public:
    LayoutProgram(const LayoutExpr& expr, std::span<const int64_t> extents);
    int64_t operator()(const int64_t* index, bool& overflow) const;

private:
    void emit(const LayoutExpr& expr, std::span<const int64_t> extents);
    struct Step {
        LayoutExpr::Op op;
        int64_t value;
    };
    std::vector<Step> steps_;
};

/// A layout at concrete extents and element width: everything that placing a point needs, computed once. `tables` spends one 64-bit word
/// per index value where the address is a sum of functions of single indices, to make placement a few loads.
class BoundLayout {
public:
    BoundLayout(const Layout& layout, std::span<const int64_t> extents, unsigned bits, bool tables = true);
    /// The physical tuple of a point; false on 64-bit overflow or a negative member.
    bool place(const int64_t* index, int64_t* physical) const;
    int64_t element_offset(const int64_t* index) const;
    int64_t element_at(const int64_t* physical) const;  ///< element offset of a physical tuple
    int64_t bit_offset(const int64_t* index) const;
    const std::vector<int64_t>& physical_extents() const { return extents_; }
    int64_t elements() const { return elements_; }            ///< of storage, padding included; -1: more than kMaxLayoutElements
    int64_t storage_bytes() const { return storage_bytes_; }  ///< -1: as above

private:
    int64_t address(const int64_t* index, const std::vector<int64_t>& pitch) const;
    void build_tables(const std::vector<LayoutExpr>& exprs, std::span<const int64_t> extents);
    std::vector<LayoutProgram> members_;
    std::vector<int64_t> extents_, element_pitch_, bit_pitch_;
    std::vector<std::vector<int64_t>> tables_;  ///< bit address contribution per index, the origin's in the first
    int64_t elements_ = 0, storage_bytes_ = 0;
};

/// Host-side packing of a tensor: `row_major` is plain packed row-major storage (rows of the last dimension start on a byte), `out` is
/// storage_bytes(extents, bits) bytes in `layout` order, padding zero. The layout must be proved injective for these extents.
void pack(const Layout& layout, std::span<const int64_t> extents, unsigned bits, const uint8_t* row_major, uint8_t* out);
/// The exact inverse: `packed` in layout order to `row_major`, whose row padding becomes zero.
void unpack(const Layout& layout, std::span<const int64_t> extents, unsigned bits, const uint8_t* packed, uint8_t* row_major);

/// A GF(2)-linear map: column k is where input bit k goes. At most 64 input and 64 output bits.
struct LinearLayout {
    int in_bits = 0, out_bits = 0;
    std::vector<uint64_t> columns;
    uint64_t operator()(uint64_t x) const;
    int rank() const;
    bool injective() const { return rank() == in_bits; }
    bool invertible() const { return injective() && in_bits == out_bits; }
    std::optional<LinearLayout> inverse() const;  ///< of an invertible map
    std::optional<uint64_t> kernel() const;       ///< a non-zero input that maps to zero; nullopt when injective
    static LinearLayout identity(int bits);
    static LinearLayout compose(const LinearLayout& outer, const LinearLayout& inner);  ///< inner.out_bits == outer.in_bits
    static LinearLayout product(const LinearLayout& low, const LinearLayout& high);     ///< block diagonal
    /// CuTe's Swizzle<bits, base, shift>: XORs the `bits` bits at `base + shift` into the bits at `base`; base + shift + bits <= total_bits.
    static LinearLayout swizzle(int bits, int base, int shift, int total_bits);
    friend bool operator==(const LinearLayout&, const LinearLayout&) = default;
};
/// The linear form of a layout for power-of-two extents: input bits are the logical indices (last index lowest), output bits the element
/// offset. Proved bit by bit or by enumeration; nullopt when an extent is no power of two, or the map is not (provably) linear.
std::optional<LinearLayout> to_linear(const Layout& layout, std::span<const int64_t> extents);

}  // namespace tegula
