// Which accesses of a checked run come before which others: the happens-before relation of release and acquire atomics, by vector clocks. A
// program's time is cut into stretches, each of which ends where it releases; an access is known by the number of its stretch.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace tegula::interp {

/// A vector clock: by program, the last of its times that is known to be over. A trie whose parts are shared among clocks and never changed, so that
/// a counter which all programs of a large grid pass costs each of them a path of it.
class Clock {
public:
    uint32_t of(uint32_t program) const;
    void set(uint32_t program, uint32_t time);
    void join(const Clock& other) { root_ = joined(root_, other.root_); }

private:
    static constexpr int kBits = 4, kTop = 28;
    static constexpr size_t kFan = size_t{1} << kBits;
    struct Node;
    using Ref = std::shared_ptr<const Node>;
    struct Node {
        std::array<Ref, kFan> below;
        std::array<uint32_t, kFan> times{};  ///< of a leaf
    };
    static Ref with(const Ref& node, int shift, uint32_t program, uint32_t time);
    static Ref joined(const Ref& a, const Ref& b);
    Ref root_;
};

/// Where a program stands.
struct Strand {
    uint32_t program = 0, time = 1;
    uint32_t stretch = 0;  ///< from 1; 0 is nobody's
    Clock seen;            ///< what its acquires have found
};

class History {
public:
    static constexpr uint32_t kMost = 0x7ffffffe;  ///< stretches; beyond, numbers are used again and a race may go unseen
    /// `ordered`: the kernel's atomics order anything. Otherwise each program is one stretch, and no table is kept.
    explicit History(bool ordered) : ordered_(ordered) {}
    bool ordered() const { return ordered_; }
    Strand begin(uint64_t program);
    /// What a release by the strand hands over.
    static Clock released(const Strand& strand);
    /// The strand has released: what it does from here on is not part of that.
    void go_on(Strand& strand);
    uint32_t program_of(uint32_t stretch) const { return ordered_ ? stretches_[stretch - 1].program : stretch - 1; }
    /// Was the stretch over before what the strand does now?
    bool precedes(uint32_t stretch, const Strand& strand) const;

private:
    struct Stretch {
        uint32_t program, time;
    };
    uint32_t add(const Strand& strand);
    bool ordered_;
    std::vector<Stretch> stretches_;
};

}  // namespace tegula::interp
