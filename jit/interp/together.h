// Programs that may wait for each other: they take turns on one thread, so that whoever waits lets the others go on, and it shows when nobody can.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "jit/interp/draws.h"
#include "jit/interp/machine.h"
#include "lang/grid_order.h"

namespace tegula::interp {

/// Does the plan's function have programs that may wait for others? Then Together runs it.
inline bool takes_turns(const Plan& plan) { return plan.order.together || (plan.order.polls && plan.rings == 0); }

class Together {
public:
    /// `prepare` sets a machine up that begins its first program; `done`: how many programs have ended.
    Together(Shared& shared, const GridOrder& order, uint64_t total, std::function<void(Machine&)> prepare, std::atomic<uint64_t>& done);
    ~Together();
    void run();

private:
    struct Place {
        std::unique_ptr<Machine> machine;
        bool runs = false;  ///< a program, which has not ended
    };
    bool begin(Place& place);
    Place* next();
    void turn(Place& place);
    bool can_go_on(const Machine& m) const;
    bool leave_meeting();
    void report_missed(Machine& m);
    void report_standstill();

    Shared& shared_;
    const GridOrder& order_;
    const uint64_t total_;
    const uint32_t end_;
    std::function<void(Machine&)> prepare_;
    std::atomic<uint64_t>& done_;
    std::vector<Place> places_;
    uint64_t begun_ = 0;
    Draws random_;
    size_t last_ = 0;
};

}  // namespace tegula::interp
