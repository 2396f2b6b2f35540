// One page, as code is loaded (executable_memory.h): written first, executable afterwards, never both.
#include "jit/cpu/executable_memory.h"

#include <cerrno>

#include "lang/plain_text.h"

#ifdef __unix__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace tegula::cpu {

std::string executable_memory_refused() {
#ifdef __unix__
    const auto size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    void* const page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return {};  // short of memory, which says nothing of later
    const int error = ::mprotect(page, size, PROT_READ | PROT_EXEC) == 0 ? 0 : errno;
    ::munmap(page, size);
    if (error) return std::string("the system lets this process make no memory executable: ") + error_text(error);
#endif
    return {};
}

}  // namespace tegula::cpu
