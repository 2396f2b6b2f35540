// Random functions of index arithmetic, and the facts of their launches: what the range proofs of lower/bounds.cpp are asked about. Constants,
// divisors of extents, tiles of grids and steps of loops are drawn around one number, so that many proofs hold or fail by one.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "lower/lower.h"

namespace tegula::testing {

/// A draw that is the same with every standard library.
struct Draw {
    std::mt19937_64 bits;
    explicit Draw(uint64_t seed) : bits(seed * 0x9E3779B97F4A7C15u + 1) {}
    int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }
    int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
    bool chance(int64_t percent) { return below(100) < percent; }
    template <class T>
    T of(std::initializer_list<T> all) {
        return all.begin()[below(static_cast<int64_t>(all.size()))];
    }
    template <class T>
    const T& of(const std::vector<T>& all) {
        return all[static_cast<size_t>(below(static_cast<int64_t>(all.size())))];
    }
};

class IndexProgram {
public:
    /// `small`: no numbers that loops could take too long for, of memory or of large shifts.
    explicit IndexProgram(uint64_t seed, bool small = false) : r_(seed), small_(small), unit_(r_.of<int64_t>({2, 3, 4, 4, 5, 8, 8, 16})) {
        const std::string head = parameters();
        scalars_ = {"%M", "%N", "%K", "%n", "%m"};
        for (int axis = 0; axis < 3; ++axis)
            if (axis == 0 || r_.chance(50)) {
                const std::string which = " {axis = " + std::to_string(axis) + "} : i64";
                scalars_.push_back(define("program_id" + which));
                if (!r_.chance(40)) continue;
                const std::string programs = define("num_programs" + which), first = define("sub " + programs + ", " + constant(1) + " : i64");
                scalars_.push_back(programs);
                scalars_.push_back(define("sub " + first + ", " + scalars_[scalars_.size() - 2] + " : i64"));  // the last program first
            }
        for (const int64_t c : {int64_t{0}, int64_t{1}, unit_}) scalars_.push_back(constant(c));
        statements(static_cast<int>(r_.between(6, 14)));
        text = "kernel @k(" + head + ") {\n" + body_ + "  ret\n}\n";
    }
    std::string text;
    LaunchFacts facts;

private:
    std::string parameters() {
        for (const char* name : {"M", "N", "K"}) {
            if (r_.chance(25)) continue;
            LaunchFacts::Fact f;
            f.extent = name;
            f.divisor = near();
            if (f.divisor < 1) f.divisor = 1;
            if (r_.chance(60)) f.at_least = std::max<int64_t>(near() * r_.between(0, 2), 0);
            if (r_.chance(40)) f.at_most = (f.at_least / f.divisor + 1 + r_.below(4)) * f.divisor + r_.below(3);
            facts.facts.push_back(f);
        }
        for (int axis = 0; axis < 3; ++axis) {
            if (r_.chance(15)) continue;
            LaunchFacts::GridFact g;
            g.axis = axis;
            if (r_.chance(80)) g.extent = r_.of<const char*>({"M", "N", "K"}), g.tile = std::max<int64_t>(near(), 1);
            if (g.extent.empty() || r_.chance(20)) g.at_most = r_.below(9);
            facts.grid.push_back(g);
        }
        std::string head;
        for (const char* name : {"x", "y"}) {
            const auto rank = static_cast<size_t>(r_.between(1, 2));
            std::string dims;
            std::vector<int64_t> shape;
            for (size_t d = 0; d < rank; ++d) {
                const bool open = r_.chance(75);
                shape.push_back(open ? -1 : std::max<int64_t>(near() * r_.between(1, 3) + r_.between(-1, 1), 1));
                if (open && r_.chance(85)) facts.dims.push_back({name, static_cast<int>(d), r_.of<const char*>({"M", "N", "K"})});
                dims += (d ? ", " : "") + (open ? "?" : std::to_string(shape[d]));
            }
            tensors_.push_back({std::string("%") + name, shape});
            head += std::string("%") + name + ": tensor<i64>[" + dims + "] inout, ";
        }
        return head + "%p: ptr<i64>, %n: i64, %m: i64, %M: extent, %N: extent, %K: extent";
    }
    /// A number of this function's, or one beside it.
    int64_t near() { return r_.of<int64_t>({unit_, unit_, unit_, 2 * unit_, 2 * unit_, 1, unit_ + 1, unit_ - 1, 3, 6}); }

    std::string define(const std::string& what) {
        const std::string name = "%v" + std::to_string(next_++);
        body_ += indent() + name + " = " + what + "\n";
        return name;
    }
    std::string indent() const { return std::string(static_cast<size_t>(2 * depth_ + 2), ' '); }
    std::string constant(int64_t c) { return define("constant " + std::to_string(c) + " : i64"); }
    std::string op(const std::string& name, const std::string& a, const std::string& b) { return define(name + " " + a + ", " + b + " : i64"); }
    std::string some() {  // later ones, loop counters among them, more often
        if (r_.chance(50)) return r_.of(scalars_);
        return scalars_[scalars_.size() - 1 - static_cast<size_t>(r_.below(std::min<int64_t>(4, static_cast<int64_t>(scalars_.size()))))];
    }
    std::string known() { return constant(near() * r_.of<int64_t>({1, 1, 1, 1, 2, -1, 0}) + r_.of<int64_t>({0, 0, 0, 1, -1})); }
    std::string extent() { return std::string("%") + r_.of<const char*>({"M", "N", "K"}); }

    std::string scalar() {
        switch (r_.below(17)) {
            case 16: {  // multiples and what is beside them
                const std::string by = known(), beside = op("add", op("mul", some(), by), constant(r_.between(-2, 2)));
                return op(r_.of<const char*>({"div", "div", "rem"}), beside, by);
            }
            case 0:
            case 1:
                return op("add", some(), r_.chance(60) ? known() : some());
            case 2:
                return op("sub", r_.chance(40) ? extent() : some(), r_.chance(60) ? known() : some());
            case 3:
            case 4:
                return op("mul", some(), r_.chance(95) ? known() : some());
            case 5:
                return op("shl", some(), constant(small_ ? r_.below(3) : r_.of<int64_t>({0, 1, 2, 3, 61, 62, 64, -1})));
            case 6:
            case 7:
                return op("div", some(), known());
            case 8: {  // the block that x lies in
                const std::string by = known();
                return op("mul", op("div", some(), by), r_.chance(85) ? by : known());
            }
            case 9:
            case 10:
                return op("rem", some(), known());
            case 11:
                return op("min", some(), r_.chance(50) ? op("sub", extent(), known()) : some());
            case 12:
                return op("max", some(), r_.chance(50) ? known() : some());
            case 13:
                return op(r_.of<const char*>({"div_ceil", "rem_trunc", "div_trunc"}), some(), known());
            case 14: {
                const std::string c = define(std::string(r_.of<const char*>({"lt", "ge"})) + " " + some() + ", " + some() + " : bool");
                return define("select " + c + ", " + some() + ", " + some() + " : i64");
            }
            default: {
                const auto& [name, shape] = r_.of(tensors_);
                const auto axis = std::to_string(r_.below(static_cast<int64_t>(shape.size())));
                return define(r_.chance(50) ? "dim " + name + " {axis = " + axis + "} : i64"
                                            : "num_programs {axis = " + std::to_string(r_.below(3)) + "} : i64");
            }
        }
    }
    void compare() {
        const std::string a = some(), b = r_.chance(50) ? extent() : r_.chance(50) ? op("add", a, known()) : some();
        define(std::string(r_.of<const char*>({"lt", "le", "gt", "ge"})) + " " + a + ", " + b + " : bool");
    }
    void access() {
        const auto& [name, shape] = r_.of(tensors_);
        std::string places, dims;
        for (size_t d = 0; d < shape.size(); ++d) {
            places += (d ? ", " : "");
            const int64_t kind = r_.below(10);
            if (kind < 3) {
                places += some();
            } else if (kind == 3 && shape[d] > 0) {
                places += ":";
                dims += (dims.empty() ? "" : ", ") + std::to_string(shape[d]);
            } else {
                const int64_t n = std::max<int64_t>(near(), 1), step = r_.of<int64_t>({1, 1, 1, 1, 2, 3, -1, -2});
                places += some() + " +: " + std::to_string(n) + (step == 1 ? "" : " step " + std::to_string(step));
                dims += (dims.empty() ? "" : ", ") + std::to_string(n);
            }
        }
        const std::string size = dims.empty() ? "" : "[" + dims + "]";
        const std::string type = dims.empty() ? "i64" : "tile<i64>" + size, mask_type = dims.empty() ? "bool" : "tile<bool>" + size;
        std::string tail;
        if (r_.chance(50)) tail += " else " + define("constant -7 : " + type);
        if (r_.chance(40)) tail += " mask " + mask(size);
        const std::string loaded = define("load " + name + "[" + places + "]" + tail + " : " + type);
        if (dims.empty() && !small_ && r_.chance(50)) scalars_.push_back(loaded);
        if (r_.chance(40)) body_ += indent() + "store " + name + "[" + places + "] = " + loaded + "\n";
    }
    /// A tile of numbers: iotas and scalars.
    std::string lanes(const std::string& size) {
        const std::string type = size.empty() ? " : i64" : " : tile<i64>" + size;
        const auto wide = [&](const std::string& v) { return size.empty() ? v : define("broadcast " + v + type); };
        if (size.empty()) return some();
        std::string sum = wide(some());
        const int rank = 1 + static_cast<int>(std::count(size.begin(), size.end(), ','));
        for (int d = 0; d < rank; ++d) {
            if (r_.chance(30)) continue;
            std::string iota = define("iota {axis = " + std::to_string(d) + "}" + type);
            if (r_.chance(30)) iota = define("mul " + iota + ", " + wide(known()) + type);
            sum = define(std::string(r_.chance(80) ? "add " : "sub ") + sum + ", " + iota + type);
        }
        return sum;
    }
    std::string mask(const std::string& size) {
        const std::string number = size.empty() ? " : i64" : " : tile<i64>" + size, truth = size.empty() ? " : bool" : " : tile<bool>" + size;
        const auto wide = [&](const std::string& v) { return size.empty() ? v : define("broadcast " + v + number); };
        const auto one = [&] {
            const std::string place = lanes(size);
            if (r_.chance(60))
                return define(std::string(r_.of<const char*>({"lt", "lt", "le"})) + " " + place + ", " + wide(r_.chance(70) ? extent() : some()) +
                              truth);
            return define(std::string(r_.of<const char*>({"ge", "ge", "gt"})) + " " + place + ", " + wide(known()) + truth);
        };
        const std::string first = one();
        return r_.chance(40) ? define("bit_and " + first + ", " + one() + truth) : first;
    }
    /// Numbers of M elements behind `p`, under a mask that may be one of others, and back again.
    void through_pointer() {
        const std::string size = "[" + std::to_string(std::max<int64_t>(near(), 1)) + (r_.chance(30) ? ", 2]" : "]");
        const std::string place = " : tile<ptr<i64>>" + size, number = " : tile<i64>" + size, truth = " : tile<bool>" + size;
        const std::string at = lanes(size), zero = define("constant 0" + number), end = define("broadcast %M" + number);
        const std::string low = define("ge " + at + ", " + zero + truth), high = define("lt " + at + ", " + end + truth);
        std::string on = define("bit_and " + low + ", " + high + truth);
        if (r_.chance(30)) on = define("bit_and " + on + ", " + mask(size) + truth);
        const std::string pointers = define("ptr_add " + define("broadcast %p" + place) + ", " + at + place);
        std::string flags = " {flags = 2}";
        if (r_.chance(40)) flags = ", " + define("constant 5" + number) + " {flags = 3}";
        const std::string loaded = define("ptr_load " + pointers + ", " + on + flags + number);
        if (r_.chance(60)) body_ += indent() + "ptr_store " + pointers + ", " + loaded + ", " + on + " {flags = 2}\n";
    }
    void loop() {
        const int64_t by = std::max<int64_t>(near(), 1);
        const std::string step = r_.chance(90) ? constant(by) : some();
        std::string lo = some();
        switch (r_.below(6)) {
            case 0:
            case 1:
                lo = constant(0);
                break;
            case 2:
                lo = constant(near() * r_.between(-1, 2));
                break;
            case 3:
                lo = op("mul", lo, constant(by * r_.of<int64_t>({1, 1, 2, -1})));
                break;
            default:
                break;
        }
        std::string hi = r_.chance(60) ? extent() : some();
        if (!small_ && r_.chance(10)) {  // what wraps
            const std::string far = op("shl", extent(), constant(r_.of<int64_t>({61, 62})));
            (r_.chance(50) ? lo : hi) = op(r_.of<const char*>({"add", "sub"}), some(), far);
        }
        const std::string counter = "%v" + std::to_string(next_++), carried = "%v" + std::to_string(next_++), result = "%v" + std::to_string(next_++);
        const bool carries = r_.chance(25);
        const size_t scope = scalars_.size();
        if (carries)
            body_ += indent() + result + " = for_loop " + lo + ", " + hi + ", " + step + ", " + some() + " : i64 (" + counter + ": i64, " + carried +
                     ": i64) {\n";
        else
            body_ += indent() + "for_loop " + lo + ", " + hi + ", " + step + " (" + counter + ": i64) {\n";
        ++depth_;
        if (carries) scalars_.push_back(carried);
        scalars_.push_back(counter);
        statements(static_cast<int>(r_.between(3, 8)));
        body_ += indent() + "yield" + (carries ? " " + some() : "") + "\n";
        --depth_;
        body_ += indent() + "}\n";
        scalars_.resize(scope);
        if (carries) scalars_.push_back(result);
    }
    void statements(int n) {
        while (n-- > 0) {
            const int64_t kind = r_.below(20);
            if (kind < 2 && depth_ < 3)
                loop();
            else if (kind < 4)
                through_pointer();
            else if (kind < 9)
                access();
            else if (kind < 10)
                compare();
            else
                scalars_.push_back(scalar());
        }
    }

    Draw r_;
    bool small_;
    int64_t unit_;
    std::string body_;
    std::vector<std::string> scalars_;  ///< in scope
    std::vector<std::pair<std::string, std::vector<int64_t>>> tensors_;
    int next_ = 0, depth_ = 0;
};

}  // namespace tegula::testing
