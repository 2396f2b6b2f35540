/* LLVM's archives ask glibc 2.36 for this one function; all else that the shared library needs is in 2.34. Hidden: programs keep their own. */
#include <errno.h>
#include <stdint.h>
#include <sys/random.h>
#include <time.h>

__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
    uint32_t number = 0;
    while (getrandom(&number, sizeof number, 0) != sizeof number) {
        if (errno != EINTR) return (uint32_t)clock(); /* LLVM names temporary files by it, and tries another name where one exists */
    }
    return number;
}
