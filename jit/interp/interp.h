// The reference interpreter: runs tile IR on whole tiles. It is the specification of every op; other machines are compared with it.
#pragma once
#include <memory>

#include "lang/program.h"

namespace tegula::interp {

/// A function prepared for running: buffer plan and per-instruction kernels chosen once.
class Program : public tegula::Program {
public:
    /// `fn` must be verified and outlive the program.
    static std::unique_ptr<Program> prepare(const ir::Function& fn);
    /// Expression functions: parameters are tiles by value, results are what `ret` returns.
    virtual RunResult evaluate(std::span<const TileData> args, std::vector<TileData>& results, const RunOptions& options) const = 0;
};

}  // namespace tegula::interp
