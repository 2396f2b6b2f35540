#include "jit/cuda/device_text.h"

#include <algorithm>
#include <charconv>

#include "lang/check.h"

namespace tegula::cuda {

namespace {

constexpr std::string_view kInclude = "#include \"jit/cuda/device/", kAtLeast = "#if __CUDA_ARCH__ >= ", kBelow = "#if __CUDA_ARCH__ < ";

/// "#if __CUDA_ARCH__ >= 800" on an architecture.
bool holds(std::string_view line, int arch) {
    const bool at_least = line.starts_with(kAtLeast);
    TEGULA_CHECK(at_least || line.starts_with(kBelow), "a condition in device text that is none of its two forms: " + std::string(line));
    const std::string_view digits = line.substr(at_least ? kAtLeast.size() : kBelow.size());
    int number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return (10 * arch >= number) == at_least;
}

}  // namespace

void DeviceText::need(std::string_view section) {
    const std::span<const DeviceFile> files = device_files();
    const auto file = std::lower_bound(files.begin(), files.end(), section, [](const DeviceFile& f, std::string_view name) { return f.name < name; });
    TEGULA_CHECK(file != files.end() && file->name == section, "no section of device text has this name: " + std::string(section));
    if (!needed_.insert(file->name).second) return;
    std::string own;
    bool begun = false, active = true;  // what stands before "#pragma once" is for readers of the file
    for (std::string_view rest = file->text; !rest.empty();) {
        const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
        const std::string_view line = rest.substr(0, end);
        rest.remove_prefix(end);
        if (line.starts_with("#pragma once"))
            begun = true;
        else if (line.starts_with("#if"))
            active = holds(line, arch_);
        else if (line.starts_with("#else"))
            active = !active;
        else if (line.starts_with("#endif"))
            active = true;
        else if (begun && active && line.starts_with(kInclude))
            need(line.substr(kInclude.size(), line.rfind('.') - kInclude.size()));
        else if (begun && active)
            own += line;
    }
    text_ += own;
}

}  // namespace tegula::cuda
