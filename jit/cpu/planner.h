// How make_plan works (plan.h): uses and sites of evaluation backwards, sizes of fused trees forwards, then storage classes and their slots.
#pragma once
#include <map>
#include <set>

#include "jit/cpu/plan.h"
#include "lang/uses.h"

namespace tegula::cpu {

class Planner {
public:
    Planner(const ir::Function& fn, const CompileOptions& options) : fn_(fn), options_(options), uses_(fn) {}
    Plan run();

private:
    using Use = ir::Use;
    /// A value that a fused tree reads, and by which chain of point maps (0: at the very point).
    using Leaf = std::pair<uint32_t, uint32_t>;
    using Tree = std::vector<Leaf>;  ///< sorted

    // plan.cpp: what is fused
    void number(ir::BlockId block);
    bool is_tile(ir::ValueId v) const;
    bool is_root(ir::InstId id) const;
    bool cheap(ir::ValueId v);
    void find_cost(ir::ValueId v);
    void find_sites(ir::ValueId v);
    bool load_may_move(ir::ValueId v) const;
    bool may_touch_same(ir::InstId load, ir::InstId writer) const;
    bool updates_in_place(ir::InstId load, ir::InstId store) const;
    ir::InstId heavy_site(ir::ValueId v) const;
    bool is_better_stored(ir::ValueId v) const;
    int param_of(ir::ValueId tensor) const;
    const char* why_stored(ir::ValueId v);
    void decide();
    void grow_trees();
    ir::ValueId cut_tree(ir::InstId user, const Tree& tree);
    void add_tree(Tree& tree, ir::InstId user, uint32_t k);
    uint32_t point_map(ir::InstId id, uint32_t k, uint32_t inner);
    static bool keeps_point(const ir::Function& fn, const ir::Inst& inst, uint32_t k);

    // plan_nans.cpp
    bool is_nan_with(ir::ValueId v, ir::ValueId source) const;
    bool nan_is_unseen(ir::ValueId bits, ir::ValueId source) const;
    void find_unseen_nans();

    // plan_storage.cpp: where the stored lie
    struct Transfer {  ///< values handed to block arguments or results, in order
        ir::InstId at;
        std::vector<ir::ValueId> from, to;
    };
    bool stored(ir::ValueId v) const { return plan_.values[v.v].kind == Home::stored; }
    void store_all();
    uint32_t find(uint32_t v) const;
    void unite(ir::ValueId a, ir::ValueId b);
    void touch(ir::ValueId v, uint32_t at);
    void read_tree(ir::ValueId v, ir::InstId site);
    void live_ranges();
    void find_transfers();
    void unite_views();
    bool read_within(uint32_t storage, uint32_t except, uint32_t from, uint32_t to) const;
    bool dies_in_place(ir::InstId def, ir::ValueId target) const;
    void unite_result(const Transfer& t, size_t i);
    void unite_init(const Transfer& t, size_t i);
    bool reads(ir::ValueId v, uint32_t storage, bool elsewhere_only) const;
    void hold(const Transfer& t);
    std::vector<bool> find_arithmetic() const;
    void find_unsettled();
    void place();

    const ir::Function& fn_;
    const CompileOptions& options_;
    Plan plan_;
    std::vector<uint32_t> at_, end_;  ///< by instruction: position, last position of what it owns
    std::vector<ir::InstId> order_;   ///< by position
    std::vector<ir::BlockId> home_;   ///< by value: the block that defines it
    ir::Uses uses_;
    std::vector<uint32_t> cost_;
    std::vector<uint8_t> cheap_;                  ///< 0: unknown, 1: no, 2: yes
    std::vector<std::vector<ir::InstId>> sites_;  ///< roots that evaluate the value; at most kMaxSites
    std::vector<uint32_t> writers_;               ///< positions
    std::vector<Tree> trees_;
    std::map<std::pair<uint64_t, uint32_t>, uint32_t> maps_;

    std::vector<uint32_t> parent_;              ///< union-find over values: what shares storage
    std::vector<uint32_t> first_, last_;        ///< by value
    std::vector<std::vector<uint32_t>> reads_;  ///< by stored value: positions
    std::vector<Transfer> transfers_;
    struct Held {
        ir::InstId at;
        uint32_t number;
        uint64_t bytes;
    };
    std::vector<Held> held_;
};

}  // namespace tegula::cpu
