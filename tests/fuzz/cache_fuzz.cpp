// Fuzzes what comes back from the disk cache: the first byte chooses the reader. Damaged bytes are a miss; whatever is read is exactly what was put.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "jit/cache/disk.h"
#include "jit/cache/entry.h"
#include "jit/cuda/state.h"

namespace {

using namespace tegula;

constexpr std::string_view kKey = "key";

void check(bool good) {
    if (!good) std::abort();
}

/// The bytes as they are: an entry has one form only.
void read_entry(std::string_view bytes) {
    const auto blob = cache::decode_entry(bytes, kKey);
    check(!blob || cache::encode_entry(kKey, *blob) == bytes);
}

/// An entry for a key that the input chooses: only that key reads it, and no longer when a bit of its sizes or its end is lost.
void read_made_entry(std::string_view bytes) {
    if (bytes.size() < 2) return;
    const size_t key_size = std::min<size_t>(static_cast<uint8_t>(bytes[0]), bytes.size() - 2);
    const uint8_t damage = static_cast<uint8_t>(bytes[1]);
    const std::string_view key = bytes.substr(2, key_size), blob = bytes.substr(2 + key_size);
    std::string entry = cache::encode_entry(key, blob);
    check(cache::decode_entry(entry, key) == blob);
    check(key == kKey || !cache::decode_entry(entry, kKey));
    entry[cache::kMagic.size() + damage % 16] ^= static_cast<char>(1 << damage / 32);
    check(!cache::decode_entry(entry, key));
    entry.resize(entry.size() - 1);
    check(!cache::decode_entry(entry, key));
}

/// A compiled kernel in a blob.
void read_kernel(std::string_view bytes) {
    const auto kernel = cuda::from_blob(bytes);
    if (!kernel) return;
    const std::string again = cuda::to_blob(*kernel);
    const auto twice = cuda::from_blob(again);
    check(twice && cuda::to_blob(*twice) == again && twice->image == kernel->image && twice->entry == kernel->entry);
}

/// The file that the key's entry would be, in a directory of this process.
void read_file(std::string_view bytes) {
    const std::string folder = "/dev/shm/tegula-cache-fuzz-" + std::to_string(::getpid());
    const std::string path = folder + "/" + cache::key_name(kKey) + ".entry";
    ::mkdir(folder.c_str(), 0700);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const bool written = file >= 0 && ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
    if (file >= 0) ::close(file);
    if (written) {
        cache::Disk disk(folder, 1 << 20, nullptr);
        check(disk.find(kKey) == cache::decode_entry(bytes, kKey));
        disk.put(kKey, bytes);
        check(disk.find(kKey) == bytes);
    }
    ::unlink(path.c_str());
    ::rmdir(folder.c_str());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0] % 4) {
        case 0:
            read_entry(bytes);
            break;
        case 1:
            read_made_entry(bytes);
            break;
        case 2:
            read_kernel(bytes);
            break;
        default:
            read_file(bytes);
    }
    return 0;
}
