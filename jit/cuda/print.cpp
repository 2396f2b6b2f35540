// Fills the texts of kernel_ops.def in (print.h).
#include "jit/cuda/print.h"

#include "jit/cuda/device_text.h"
#include "jit/cuda/products.h"
#include "lang/check.h"
#include "lang/kernel/text.h"

namespace tegula::cuda {

std::string spelled(const kernel::Call& call) {
    const std::string_view spelling = call.row->cuda;
    TEGULA_CHECK(!spelling.empty(), std::string(call.row->name) + " is printed with its neighbours");
    const size_t count = call.operands.size();
    uint32_t by_number = 0;
    for (size_t i = 0; i + 1 < spelling.size(); ++i)
        if (spelling[i] == '$' && spelling[i + 1] != '*') by_number |= 1u << (spelling[i + 1] - '0');
    std::string out;
    for (size_t i = 0; i < spelling.size(); ++i) {
        if (spelling[i] != '$') {
            out += spelling[i];
            continue;
        }
        if (spelling[++i] != '*') {
            const auto at = static_cast<size_t>(spelling[i] - '0');
            TEGULA_CHECK(at < count, std::string(call.row->name) + ": a text with more operands");
            out += call.operands[at].text();
            continue;
        }
        const char* between = "";
        for (size_t k = 0; k < count; ++k) {
            if (by_number >> k & 1 || !kernel::is_printed(call.row->operands.of(k, count))) continue;
            out += between + call.operands[k].text();
            between = ", ";
        }
    }
    return out;
}

std::string print(const kernel::Body& body, int depth) { return kernel::text(body, depth, spelled); }

KernelText printed(KernelText kernel) {
    DeviceText device(kernel.arch);
    for (const std::string& section : kernel.sections) device.need(section);
    const std::string products = print_products(kernel.form);
    kernel.source = device.text() + products + kernel.head;
    const size_t before = kernel.source.size();
    kernel.source += kernel::text(kernel.form.body, 1, spelled, &kernel.marks) + "}\n";
    for (kernel::Stretch& mark : kernel.marks) mark.begin += before, mark.end += before;
    static_cast<Unprinted&>(kernel) = {.form = {}, .pool = nullptr, .head = {}, .sections = {}};
    return kernel;
}

}  // namespace tegula::cuda
