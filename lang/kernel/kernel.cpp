// Bodies of statements (kernel.h).
#include "lang/kernel/kernel.h"

namespace tegula::kernel {

Body::Body() = default;
Body::Body(const Body&) = default;
Body::Body(Body&&) noexcept = default;
Body& Body::operator=(const Body&) = default;
Body& Body::operator=(Body&&) noexcept = default;
Body::~Body() = default;

}  // namespace tegula::kernel
