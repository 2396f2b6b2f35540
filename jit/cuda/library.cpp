// dlopen and what can be learnt of an open library.
#include "jit/cuda/library.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>

#include <cstring>

namespace tegula::cuda {

Library Library::open(std::span<const std::string> candidates, std::vector<std::string>& looked_for) {
    Library library;
    const PlainLocale locale;
    for (const std::string& name : candidates) {
        library.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library.handle_) {
            looked_for.push_back(name + ": found");
            return library;
        }
        const char* why = dlerror();
        const std::string reason = why ? why : "cannot be opened";
        looked_for.push_back(reason.starts_with(name + ":") ? reason : name + ": " + reason);  // the loader names most files itself
    }
    return library;
}

void* Library::symbol(const char* name) const { return handle_ ? dlsym(handle_, name) : nullptr; }

std::string Library::path_of(void* address) {
    Dl_info info{};
    if (!dladdr(address, &info) || !info.dli_fname) return {};
    char real[PATH_MAX];
    return realpath(info.dli_fname, real) ? real : info.dli_fname;
}

namespace {

struct BuildIdSearch {
    uintptr_t address;
    std::string hex;
};

std::string build_id_in(const uint8_t* notes, size_t size) {
    static constexpr char kHex[] = "0123456789abcdef";
    size_t at = 0;
    while (at + sizeof(ElfW(Nhdr)) <= size) {
        ElfW(Nhdr) head;
        std::memcpy(&head, notes + at, sizeof head);
        const size_t name = at + sizeof head, desc = name + ((head.n_namesz + 3u) & ~3u), next = desc + ((head.n_descsz + 3u) & ~3u);
        if (next > size) break;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && !std::memcmp(notes + name, "GNU", 4)) {
            std::string hex;
            for (size_t i = 0; i < head.n_descsz; ++i) (hex += kHex[notes[desc + i] >> 4]) += kHex[notes[desc + i] & 15];
            return hex;
        }
        at = next;
    }
    return {};
}

int visit(dl_phdr_info* info, size_t, void* data) {
    auto& search = *static_cast<BuildIdSearch*>(data);
    bool ours = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& segment = info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
        ours = ours || (segment.p_type == PT_LOAD && search.address >= begin && search.address - begin < segment.p_memsz);
    }
    if (!ours) return 0;
    for (int i = 0; i < info->dlpi_phnum && search.hex.empty(); ++i) {
        const auto& segment = info->dlpi_phdr[i];
        if (segment.p_type == PT_NOTE) search.hex = build_id_in(reinterpret_cast<const uint8_t*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz);
    }
    return 1;
}

}  // namespace

std::string Library::build_id_of(void* address) {
    BuildIdSearch search{reinterpret_cast<uintptr_t>(address), {}};
    dl_iterate_phdr(visit, &search);
    return search.hex;
}

}  // namespace tegula::cuda
