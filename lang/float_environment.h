// The processor's floating-point environment while code of ours computes: rounding to nearest, subnormals honoured, nothing trapped. A host may have
// another one (-ffast-math sets subnormals to zero, feenableexcept traps), and gets it back, its exception flags included. Threads that are started
// meanwhile inherit ours.
#pragma once
#include <cfenv>

namespace tegula {

class DefaultFloats {
public:
    DefaultFloats() {
        std::fegetenv(&host_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~DefaultFloats() { std::fesetenv(&host_); }
    DefaultFloats(const DefaultFloats&) = delete;
    DefaultFloats& operator=(const DefaultFloats&) = delete;

private:
    std::fenv_t host_;
};

}  // namespace tegula
