// libFuzzer on the readers of .npy and .safetensors: the first byte picks the format, the rest is the file. What is read must survive being written
// and read again; what is refused must say why.
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "tools/arrays.h"

using namespace tegula_tool;

namespace {

/// A directory for the files, removed at exit.
struct Scratch {
    std::string path;
    Scratch() {
        char name[] = "/tmp/array_fuzz.XXXXXX";
        if (!::mkdtemp(name)) std::abort();
        path = name;
    }
    ~Scratch() {
        for (const char* file : {"/in.npy", "/in.safetensors", "/out.npy", "/out.safetensors"}) ::unlink((path + file).c_str());
        ::rmdir(path.c_str());
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const Scratch scratch;
    if (size == 0) return 0;
    const std::string ending = data[0] & 1 ? ".safetensors" : ".npy", in = scratch.path + "/in" + ending, out = scratch.path + "/out" + ending;
    std::string error;
    if (!write_file(in, std::string(reinterpret_cast<const char*>(data + 1), size - 1), error)) std::abort();
    const auto array = read_array(in, data[0] & 2 ? "w" : "", error);
    if (!array) {
        if (error.find(in) != 0) std::abort();
        return 0;
    }
    if (!write_array(out, "w", *array, error)) std::abort();
    const auto again = read_array(out, "w", error);
    if (!again || again->type != array->type || again->extents != array->extents || again->column_major != array->column_major ||
        again->data != array->data)
        std::abort();
    return 0;
}
