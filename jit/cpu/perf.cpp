// perf (perf.h).
#include "jit/cpu/perf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/DebugInfo/DWARF/DWARFContext.h>
#include <llvm/Object/ELFObjectFile.h>

#include "lang/plain_text.h"

namespace tegula::cpu {

namespace {

// Of the file's format, version 1.
constexpr uint32_t kMagic = 0x4A695444, kVersion = 1, kCodeLoad = 0, kDebugInfo = 2;

struct Line {
    uint64_t at;
    uint32_t number;
    std::string file;
};

struct Function {
    std::string symbol;
    uint64_t at = 0, bytes = 0;  ///< in the object's code
    std::vector<Line> lines;
};

/// Lines of the code, whatever function they are in; `of`: a relocatable object.
std::vector<Line> lines_of(const llvm::object::ObjectFile& of) {
    std::vector<Line> out;
    const auto ignore = [](llvm::Error e) { llvm::consumeError(std::move(e)); };
    const auto context = llvm::DWARFContext::create(of, llvm::DWARFContext::ProcessDebugRelocations::Process, nullptr, "", ignore, ignore);
    for (const auto& unit : context->compile_units()) {
        const auto* table = context->getLineTableForUnit(unit.get());
        if (!table) continue;
        for (const auto& row : table->Rows) {
            Line line{row.Address.Address, row.Line, {}};
            const auto kind = llvm::DILineInfoSpecifier::FileLineInfoKind::AbsoluteFilePath;
            if (row.EndSequence || row.Line == 0 || !table->getFileNameByIndex(row.File, unit->getCompilationDir(), kind, line.file)) continue;
            out.push_back(std::move(line));
        }
    }
    return out;
}

/// The kernel and the functions that it calls, which lie in one section.
std::vector<Function> functions_of(const std::string& object) {
    std::vector<Function> out;
    auto file = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "kernel"));
    if (!file) return llvm::consumeError(file.takeError()), out;
    const std::vector<Line> lines = lines_of(**file);
    for (const llvm::object::ELFSymbolRef symbol : llvm::cast<llvm::object::ELFObjectFileBase>(**file).symbols()) {
        if (symbol.getELFType() != llvm::ELF::STT_FUNC || symbol.getSize() == 0) continue;
        auto name = symbol.getName();
        auto at = symbol.getValue();
        if (name && at) {
            Function f{name->str(), *at, symbol.getSize(), {}};
            std::copy_if(lines.begin(), lines.end(), std::back_inserter(f.lines), [&](const Line& l) { return l.at - f.at < f.bytes; });
            out.push_back(std::move(f));
        }
        if (!name) llvm::consumeError(name.takeError());
        if (!at) llvm::consumeError(at.takeError());
    }
    return out;
}

/// Fields one after the other, as they lie in memory.
template <typename... Fields>
std::string joined(Fields... fields) {
    std::string out;
    (out.append(reinterpret_cast<const char*>(&fields), sizeof fields), ...);
    return out;
}

/// perf's clock with `-k mono`, in nanoseconds.
uint64_t now() {
    timespec t;
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

uint32_t elf_machine() {
#if defined(__aarch64__)
    return llvm::ELF::EM_AARCH64;
#else
    return llvm::ELF::EM_X86_64;
#endif
}

/// All of it or, on a full disk, a part: perf stops reading there.
bool write_all(int file, std::string_view text) { return ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()); }

}  // namespace

Perf::Perf() : process_(::getpid()) {
    // Each engine has a directory of its own: the name of the file is what perf knows it by.
    const char* base = std::getenv("JITDUMPDIR");
    std::string folder = std::string(base && *base ? base : "/tmp") + "/tegula-perf-XXXXXX";
    if (!::mkdtemp(folder.data())) return;
    const std::string path = folder + "/jit-" + std::to_string(process_) + ".dump";
    dump_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    const std::string header =
        joined(kMagic, kVersion, uint32_t{40}, elf_machine(), uint32_t{0}, static_cast<uint32_t>(process_), now(), uint64_t{0});
    if (dump_ >= 0 && write_all(dump_, header)) {
        marker_ = ::mmap(nullptr, static_cast<size_t>(::sysconf(_SC_PAGESIZE)), PROT_READ | PROT_EXEC, MAP_PRIVATE, dump_, 0);
        if (marker_ != MAP_FAILED) return;
        marker_ = nullptr;
    }
    if (dump_ >= 0) ::close(dump_), ::unlink(path.c_str()), dump_ = -1;
    ::rmdir(folder.c_str());
}

Perf::~Perf() {
    if (marker_) ::munmap(marker_, static_cast<size_t>(::sysconf(_SC_PAGESIZE)));
    if (dump_ >= 0) ::close(dump_);
}

void Perf::write_record(uint32_t kind, std::string_view body) {
    const std::string head = joined(kind, static_cast<uint32_t>(16 + body.size()), now());
    if (write_all(dump_, head + std::string(body))) return;
    ::close(dump_);
    dump_ = -1;
}

void Perf::tell(const std::string& object, const void* code, const std::string& name) {
    const std::vector<Function> functions = functions_of(object);
    const auto kernel = std::find_if(functions.begin(), functions.end(), [](const Function& f) { return f.symbol == "kernel"; });
    if (kernel == functions.end()) return;
    std::string map;
    for (const Function& f : functions) {
        const uint64_t at = reinterpret_cast<uint64_t>(code) + f.at - kernel->at;
        const std::string shown = name + (f.symbol == "kernel" ? "" : ": " + f.symbol);
        map += hex_text(at) + " " + hex_text(f.bytes) + " " + shown + "\n";
        if (dump_ < 0 || process_ != ::getpid()) continue;
        std::string lines;
        for (const Line& l : f.lines) lines += joined(at + (l.at - f.at), l.number, uint32_t{0}) + l.file + '\0';
        if (!f.lines.empty()) write_record(kDebugInfo, joined(at, static_cast<uint64_t>(f.lines.size())) + lines);
        if (dump_ < 0) continue;
        const std::string place = joined(static_cast<uint32_t>(process_), static_cast<uint32_t>(::syscall(SYS_gettid)), at, at, f.bytes, told_++);
        write_record(kCodeLoad, place + shown + '\0' + std::string(reinterpret_cast<const char*>(at), f.bytes));
    }
    const std::string path = "/tmp/perf-" + std::to_string(::getpid()) + ".map";
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file < 0) return;
    write_all(file, map);
    ::close(file);
}

}  // namespace tegula::cpu
