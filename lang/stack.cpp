// What the system knows of a thread's stack (stack.h).
#include "lang/stack.h"

#include <cstdint>

#ifdef __linux__
#include <thread>
#endif

namespace tegula {

size_t stack_left() {
#ifdef __linux__
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return SIZE_MAX;
    void* lowest = nullptr;
    size_t size = 0;
    const bool known = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
    pthread_attr_destroy(&attributes);
    const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)), end = reinterpret_cast<uintptr_t>(lowest);
    if (known) return here > end && here - end <= size ? here - end : SIZE_MAX;  // else on a stack of the host's own making
#endif
    return SIZE_MAX;
}

}  // namespace tegula
