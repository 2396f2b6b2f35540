// Fuzzes the array file readers of the command: the first byte chooses the file type. Whatever reads must write back to what reads the same.
#include <unistd.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tools/arrays.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace tegula_tool;
    if (size == 0) return 0;
    const bool tensors = data[0] & 1;
    const std::string path = "/dev/shm/tegula-array-fuzz-" + std::to_string(::getpid()) + (tensors ? ".safetensors" : ".npy");
    std::string error;
    if (!write_file(path, std::string(reinterpret_cast<const char*>(data) + 1, size - 1), error)) return 0;
    if (auto array = read_array(path, "", error)) {
        std::string again_error;
        if (write_array(path, "data", *array, again_error)) {
            auto again = read_array(path, tensors ? "data" : "", again_error);
            if (!again || again->data != array->data || again->extents != array->extents || again->type != array->type ||
                again->layout != array->layout || again->order != array->order || again->scales != array->scales)
                std::abort();
        }
    } else if (error.find(path) == std::string::npos) {
        std::abort();  // every error names the file
    }
    ::unlink(path.c_str());
    return 0;
}
