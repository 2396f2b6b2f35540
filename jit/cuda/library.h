// Shared libraries opened at run time: one attempt per candidate, each remembered for the "what was looked for" lists.
#pragma once
#include <locale.h>

#include <span>
#include <string>
#include <vector>

namespace tegula::cuda {

/// A library that stays mapped for the life of the process (the driver and NVRTC own threads and cannot be unmapped safely); the object is a name for
/// it and may be copied.
class Library {
public:
    /// The first of `candidates` (names or paths) that opens; every failure adds a line to `looked_for`, and so does the success.
    static Library open(std::span<const std::string> candidates, std::vector<std::string>& looked_for);
    explicit operator bool() const { return handle_ != nullptr; }
    void* symbol(const char* name) const;
    /// Real path of the file that `address` (a function of the library) was loaded from, and its GNU build id in hexadecimal ("" when it has none).
    static std::string path_of(void* address);
    static std::string build_id_of(void* address);

private:
    void* handle_ = nullptr;
};

/// The calling thread in the C locale: the loader's messages are not translated, and what a compiler of others does with numbers does not follow the
/// locale of the host. Not around callbacks of the host.
class PlainLocale {
public:
    PlainLocale() : host_(::uselocale(plain_)) {}
    ~PlainLocale() {
        ::uselocale(host_);
        ::freelocale(plain_);
    }
    PlainLocale(const PlainLocale&) = delete;

private:
    const locale_t plain_ = ::newlocale(LC_ALL_MASK, "C", nullptr);
    const locale_t host_;
};

}  // namespace tegula::cuda
