// The log of a compilation as data, and the list of compilers that are known to be wrong.
#include <elf.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "jit/cuda/nvrtc.h"

namespace tegula::cuda {

namespace {

/// The number that ends right before `unit` in `line`; -1 when the unit is not there.
int64_t number_before(std::string_view line, std::string_view unit) {
    const size_t at = line.find(unit);
    if (at == std::string_view::npos) return -1;
    size_t begin = at;
    while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
    int64_t value = -1;
    std::from_chars(line.data() + begin, line.data() + at, value);
    return value;
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
    return text;
}

/// "ptxas info    : (C7510) Potential .." -> "C7510: Potential .."; "ptxas warning : text" -> "text"; else empty.
std::string warning_in(std::string_view line) {
    if (!line.starts_with("ptxas")) return {};
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return {};
    const std::string_view text = trimmed(line.substr(colon + 1));
    if (text.size() > 8 && text.starts_with("(C") && text[6] == ')')
        return std::string(text.substr(1, 5)) + ": " + std::string(trimmed(text.substr(7)));
    return line.find("warning") < colon ? std::string(text) : std::string();
}

/// "'name'" of "Function properties for name" or "Compiling entry function 'name' for 'sm_90a'".
std::string_view function_named(std::string_view line, std::string_view lead) {
    const size_t at = line.find(lead);
    if (at == std::string_view::npos) return {};
    std::string_view name = line.substr(at + lead.size());
    if (!name.empty() && name.front() == '\'') {
        name.remove_prefix(1);
        return name.substr(0, name.find('\''));
    }
    return trimmed(name);
}

void read_properties(std::string_view line, bool of_entry, Resources& out) {
    const int64_t stack = number_before(line, " bytes stack frame");
    if (stack < 0) return;
    if (of_entry) out.stack_bytes = stack;
    out.spill_stores += std::max<int64_t>(number_before(line, " bytes spill stores"), 0);
    out.spill_loads += std::max<int64_t>(number_before(line, " bytes spill loads"), 0);
}

}  // namespace

std::string refused_ptx(std::string_view log) {
    std::string out;
    while (!log.empty()) {
        const std::string_view line = log.substr(0, log.find('\n'));
        log.remove_prefix(std::min(line.size() + 1, log.size()));
        const size_t error = line.find("; error");
        const size_t colon = error == std::string_view::npos ? error : line.find(':', error);
        if (!line.starts_with("ptxas") || colon == std::string_view::npos) continue;
        const std::string text(trimmed(line.substr(colon + 1)));
        if (out.find(text) == std::string::npos) out += (out.empty() ? "" : "; ") + text;
    }
    return out;
}

CompilerLog parse_log(std::string_view log, std::string_view entry) {
    CompilerLog out;
    std::string_view function, compiling;
    for (size_t at = 0; at < log.size();) {
        const size_t end = std::min(log.find('\n', at), log.size());
        const std::string_view line = log.substr(at, end - at);
        at = end + 1;
        if (std::string warning = warning_in(line); !warning.empty()) out.remarks.push_back(std::move(warning));
        if (const auto name = function_named(line, "Compiling entry function "); !name.empty()) compiling = name;
        if (const auto name = function_named(line, "Function properties for "); !name.empty()) function = name;
        read_properties(line, function == entry, out.resources);
        const int64_t registers = number_before(line, " registers");
        if (registers < 0 || compiling != entry || line.find("Used ") == std::string_view::npos) continue;
        out.resources.registers = static_cast<int>(registers);
        out.resources.static_shared = std::max<int64_t>(number_before(line, " bytes smem"), 0);
    }
    return out;
}

std::span<const BadCompiler> bad_compilers() {
    // 12.8 on sm_90a: wrong numbers from PTX that 13.1 compiles rightly (fla-org/flash-linear-attention, 1262). 13.0.88 rejects that PTX, which
    // shows, and is not listed.
    static constexpr BadCompiler kRows[] = {
        {{12, 8, 0}, {12, 8, 9999}, 90, 90, "ptxas 12.8 makes wrong code of some kernels for sm_90a"},
    };
    return kRows;
}

const BadCompiler* find_bad_compiler(std::span<const BadCompiler> rows, const std::array<int, 3>& version, const Arch& arch) {
    for (const BadCompiler& row : rows)
        if (row.first <= version && version <= row.last && arch.number >= row.min_arch && arch.number <= row.max_arch) return &row;
    return nullptr;
}

std::array<int, 3> compiler_of(std::string_view cubin) {
    static constexpr std::string_view kLead = "Cuda compilation tools, release ";
    const size_t at = cubin.find(kLead);
    const size_t v = at == std::string_view::npos ? at : cubin.substr(0, std::min(cubin.size(), at + 80)).find(", V", at);
    if (v == std::string_view::npos) return {};
    std::array<int, 3> version{};
    const char* text = cubin.data() + v + 3;
    const char* const end = cubin.data() + std::min(cubin.size(), v + 40);
    for (int& part : version) {
        const auto parsed = std::from_chars(text, end, part);
        if (parsed.ec != std::errc()) return {};
        text = parsed.ptr + (parsed.ptr < end && *parsed.ptr == '.');
    }
    return version;
}

bool has_opcode(std::string_view cubin, uint64_t opcode) {
    constexpr uint64_t kOpcode = 0xfff;
    constexpr size_t kInstructionBytes = 16;  // from sm_70 on
    Elf64_Ehdr head;
    if (cubin.size() < sizeof head || !cubin.starts_with(ELFMAG)) return false;
    std::memcpy(&head, cubin.data(), sizeof head);
    for (size_t i = 0; i < head.e_shnum; ++i) {
        Elf64_Shdr section;
        const uint64_t at = head.e_shoff + i * sizeof section;
        if (at > cubin.size() || cubin.size() - at < sizeof section) return false;
        std::memcpy(&section, cubin.data() + at, sizeof section);
        if (section.sh_type != SHT_PROGBITS || !(section.sh_flags & SHF_EXECINSTR)) continue;
        if (section.sh_offset > cubin.size() || section.sh_size > cubin.size() - section.sh_offset) return false;
        const std::string_view code = cubin.substr(section.sh_offset, section.sh_size);
        for (size_t p = 0; p + kInstructionBytes <= code.size(); p += kInstructionBytes) {
            uint64_t instruction;
            std::memcpy(&instruction, code.data() + p, sizeof instruction);
            if ((instruction & kOpcode) == opcode) return true;
        }
    }
    return false;
}

}  // namespace tegula::cuda
