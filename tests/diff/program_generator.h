// The generator at work (generator.h): what it draws from, and one member function for each way to make a statement. Those give false, and nothing
// is added, where no value fits.
#pragma once
#include <functional>

#include "tests/diff/generator.h"

namespace tegula::diff {

constexpr int64_t kMaxElements = 4096;

inline int64_t elements(const std::vector<int64_t>& shape) {
    int64_t n = 1;
    for (int64_t e : shape) n *= e;
    return n;
}

class Generator {
public:
    Generator(uint64_t seed, bool nan_bits) : nan_bits_(nan_bits), state_(seed) {
        state_ = next();  // else the numbers of the next seed would be these, less the first
        p_.seed = seed;
    }
    Program run();

private:
    uint64_t next() {  // splitmix64
        uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    int below(int n) { return static_cast<int>(next() % static_cast<uint64_t>(n)); }
    bool chance(int percent) { return below(100) < percent; }
    int64_t pick(std::initializer_list<int64_t> v) { return v.begin()[below(static_cast<int>(v.size()))]; }
    std::string pick(std::initializer_list<const char*> v) { return v.begin()[below(static_cast<int>(v.size()))]; }
    std::string pick(const std::vector<std::string>& v) { return v[static_cast<size_t>(below(static_cast<int>(v.size())))]; }

    std::string element();
    std::vector<int64_t> shape();

    void add_input();
    /// One of the orders of storage that fit.
    std::string layout(const std::vector<int64_t>& extents);

    int values() const { return static_cast<int>(p_.inputs.size() + p_.statements.size()); }
    const TileType& type(int v) const { return p_.type(v); }
    /// A random value for which `wanted` holds, later ones more often.
    std::optional<int> find(const std::function<bool(const TileType&)>& wanted);
    bool add(const TileType& t, const std::string& text, std::vector<int> operands, std::optional<Memory> memory = {});

    void add_statement();

    static bool has_arithmetic(const TileType& t) { return element_of(t.elem).kind != Kind::boolean && element_of(t.elem).kind != Kind::table; }
    bool arithmetic();
    bool unary();
    bool function();
    bool compare();
    bool choice();
    bool conversion();
    bool reduction();
    bool order();
    bool histogram();
    /// Reductions and scans by functions of the program's own, which need not commute; over one tile, or two whose members go along.
    bool lambda();
    static std::string with(std::string text, char hole, int64_t value);
    /// Tiles by their indices: permuted, shifted out of range, and sums that are no products, or not quite.
    bool index_form();
    bool random_words();
    /// Through a block format and back, or to its parts.
    bool blocks();
    bool pairing();
    /// Part of a tile is replaced by a part of another, in strides of either sign.
    bool deposit();
    /// A row of memory per program, read and written in parts that overlap.
    bool own_rows();
    /// Rows whose extent has a name and conditions, at indices that these may or may not keep inside.
    bool named_rows();
    /// Writes what an input tensor was read from: its values stay what they were. Several programs would race.
    bool overwriting();
    /// Rows of a matrix that nobody writes, by numbers some of which are outside.
    bool picked_rows();
    bool stepping();
    bool reshaping();
    bool broadcasting();
    bool parts();
    std::string window(const std::vector<int64_t>& shape, int d);
    bool gathering();
    bool product();
    /// Scales are elements of the operands themselves; blocks need not nest.
    bool scaled_product(int a, int b);
    bool looping();
    bool branching();

    /// A loop whose end depends on the data, with a bound on its passes.
    bool repeating();
    std::optional<int> find_mask(const TileType& t);
    /// "0, 1, .." in the shape of t, forward or backward: one place per element.
    std::string places(const TileType& t);
    std::string program() const { return p_.grid.size() == 1 ? "pid" : "(pid * num_programs(1) + program_id(1))"; }
    int64_t programs() const { return elements(p_.grid); }

    /// Programs and lanes meet in the same elements, by an operation whose order cannot matter; the old values are not looked at.
    bool atomic();
    /// Every lane has an element of its own, so that the old value is known.
    bool exchange();
    /// Loads at a start and a pitch along each axis.
    bool pointer_rows();
    /// These, loads from anywhere, scatters whose last value stays, stores to an element per lane.
    bool pointers();
    /// A matrix product over K: tiles of two more inputs meet in a loop.
    void add_product_loop();

    void choose_outputs();

    bool nan_bits_;
    uint64_t state_;
    Program p_;
    int64_t loop_step_ = 1;  ///< of the loop over a product
};

}  // namespace tegula::diff
