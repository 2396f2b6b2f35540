// Runs with fixed arguments, for programs that have nothing to make ready.
#include "lang/program.h"

#include <array>
#include <vector>

namespace tegula {

namespace {

class Repeated final : public BoundRun {
public:
    Repeated(const Program& program, std::span<const Argument> args, std::span<const uint64_t, 3> grid, const RunOptions& options)
        : program_(program), args_(args.begin(), args.end()), grid_{grid[0], grid[1], grid[2]}, options_(options) {}
    RunResult run() const override { return program_.run(args_, grid_, options_); }

private:
    const Program& program_;
    const std::vector<Argument> args_;
    const std::array<uint64_t, 3> grid_;
    const RunOptions options_;
};

}  // namespace

std::unique_ptr<const BoundRun> Program::bind(std::span<const Argument> args, std::span<const uint64_t, 3> grid, const RunOptions& options,
                                              const RunOptions& /*making*/, RunResult& /*refused*/) const {
    return std::make_unique<Repeated>(*this, args, grid, options);
}

}  // namespace tegula
