// A producer, a ring of stages and a consumer in time, for pictures and their tests.
#pragma once
#include <vector>

namespace tegula::picture {

struct Trip {
    double copy_begin = 0, copy_end = 0;        ///< of its tiles to their stage
    double compute_begin = 0, compute_end = 0;  ///< of its products, at whose end the stage is free
};
/// `copy`: clocks that a trip's bytes keep the way from memory; `latency`: from the start of a copy to its end at least.
std::vector<Trip> run_pipeline(int trips, int stages, double copy, double latency, double compute);

}  // namespace tegula::picture
