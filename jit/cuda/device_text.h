// Device text: the fixed functions that emitted kernels call, in CUDA C++ files (device/NAME.cuh) that are embedded at build time. A file is a
// section of text; what it includes are the sections that it needs. A kernel gets the sections that something asked for, each once and behind those
// it needs, as its architecture has them: tests of __CUDA_ARCH__ are decided here. To add a section: a file.
#pragma once
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace tegula::cuda {

struct DeviceFile {
    std::string_view name, text;
};
std::span<const DeviceFile> device_files();  ///< sorted by name

class DeviceText {
public:
    /// `arch`: 90 for sm_90a; 0 for the text that every architecture has.
    explicit DeviceText(int arch) : arch_(arch) {}
    void need(std::string_view section);
    const std::string& text() const { return text_; }

private:
    int arch_;
    std::set<std::string_view> needed_;
    std::string text_;
};

}  // namespace tegula::cuda
