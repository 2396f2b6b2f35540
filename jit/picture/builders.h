// One builder for each kind of picture: from what the phases know to a Picture. Nothing here compiles or runs anything, and nothing is drawn.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jit/picture/picture.h"
#include "lang/explanation.h"
#include "lang/ir.h"
#include "lang/layout.h"
#include "lang/type.h"
#include "lower/gpu/gpu.h"

namespace tegula::picture {

/// A type that is shown: an element format, and where asked for the extents and the storage order of a tensor of it.
struct Subject {
    std::string name;  ///< of a parameter; empty: none
    std::string type;  ///< as the language writes it
    FormatId format{};
    LayoutId layout{};
    std::vector<int64_t> extents;
};

/// A launch that leaves choices of `tune` open, and what is known of each: by the cost model, by measuring, or both.
struct WeighedLaunch {
    struct Candidate {
        std::vector<explain::Setting> values;
        std::optional<GpuEstimate> estimate;  ///< none: the machine has no cost model, or the kernel no instance for these values
        double seconds = 0;                   ///< measured; 0: it was not
        std::string refused;                  ///< why measuring refused it; empty: it did not
    };
    std::string launch;             ///< what was bound before: "K = 512, M = 16"
    std::string machine, hardware;  ///< that measured; empty: nothing was measured
    std::string checked;            ///< what compared the chosen candidate with the interpreter: "tests", "arguments"
    std::vector<Candidate> candidates;
    std::optional<size_t> chosen, preferred;  ///< by launches; by those that know no measurement
};

/// A kernel as a launch on a GPU would have it.
struct KernelView {
    std::string name;
    const ir::Function* form = nullptr;  ///< after the GPU passes
    const Arch* arch = nullptr;
    const Explanation* said = nullptr;  ///< what `explain` says of it
    std::vector<std::pair<std::string, int64_t>> extents;
    std::vector<std::string> assumed;  ///< extents that nobody gave
    uint64_t grid[3] = {1, 1, 1};
    std::string of;  ///< what to show, of several: a parameter, or the line of an operation; empty: all, as far as there is room
    const SourceMap* sources = nullptr;
    std::vector<WeighedLaunch> measured;      ///< of launches with these generics and extents, as far as they are given
    std::vector<std::string> other_launches;  ///< that were measured, as a line of text each
    /// "f.tile:12" of an operation.
    std::string place(Span span) const;
    int line(Span span) const;
    /// Is what stands there, of that name, to be shown?
    bool wants(Span span, std::string_view name) const;
};

std::string short_text(double v);  ///< four digits
/// "(i, j)".
std::string point(std::span<const int64_t> index);
/// The logical points that lie at the storage places [0, places) of elements: row-major numbers, several where they collide. nullopt: there are too
/// many points to look at all of them, and the layout has no inverse that can be written down.
std::optional<std::vector<std::vector<int64_t>>> points_of_places(const Layout& layout, std::span<const int64_t> extents, int64_t places);

Picture layout_picture(std::span<const Subject> subjects, const TypeTable& types);
Picture bits_picture(std::span<const Subject> subjects, const TypeTable& types);
Picture format_picture(std::span<const Subject> subjects, const TypeTable& types);

Picture place_picture(const KernelView& k);
/// Operands of tensor-core instructions: of the kernel's products, and of an instruction by name, as the architecture has it (nullopt: there is none
/// of it).
Picture fragment_picture(const KernelView& k);
std::optional<Picture> instruction_picture(std::string_view name, const Arch& arch);
std::vector<std::string_view> instruction_names();
Picture banks_picture(std::span<const Subject> subjects, const TypeTable& types);
Picture kernel_banks_picture(const KernelView& k);
Picture sectors_picture(const KernelView& k);
Picture convert_picture(const KernelView& k);
Picture pipeline_picture(const KernelView& k);
Picture smem_picture(const KernelView& k);
Picture resources_picture(const KernelView& k);
Picture roofline_picture(const KernelView& k);
Picture grid_picture(const KernelView& k);
Picture tune_picture(const KernelView& k);

/// Two arrays of a format that is none of blocks: codes by row-major number, extended as load_bits does.
Picture diff_picture(const std::string& type, const Format& format, const Shape& shape, const std::function<uint64_t(int64_t)>& a,
                     const std::function<uint64_t(int64_t)>& b);

}  // namespace tegula::picture
