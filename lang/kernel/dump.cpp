// A kernel with the names of its operations (text.h).
#include "lang/kernel/text.h"

namespace tegula::kernel {

std::string call_text(const Call& call) {
    std::string out(call.row->name);
    for (size_t i = 0; i < call.operands.size(); ++i) out += (i ? ", " : " ") + call.operands[i].text();
    return out;
}

std::string dump(const Kernel& kernel) {
    std::string out = "kernel " + kernel.name + " threads " + std::to_string(kernel.threads) + " arch " +
                      std::to_string(kernel.arch) + "\n";
    for (const Ring& ring : kernel.rings) {
        out += "ring " + ring.name + " stages " + std::to_string(ring.stages);
        const auto of = [&](const char* what, const std::string& name) {
            if (!name.empty()) out += std::string(" ") + what + " " + name;
        };
        of("full", ring.full);
        of("empty", ring.empty);
        of("put", ring.put);
        of("get", ring.get);
        of("release", ring.release);
        out += "\n";
    }
    return out + text(kernel.body, 1, call_text);
}

}  // namespace tegula::kernel
