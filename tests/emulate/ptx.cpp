// A small interpreter of the PTX in asm statements: registers, predicates and labels of one block, and the instructions that emitted kernels
// use for asynchronous copies, mbarriers and tensor cores (tensor_ops.cpp). What is not known here is an error: nothing runs unchecked.
#include "tests/emulate/ptx.h"

#include <cstdlib>
#include <cstring>

namespace tegula::on_cpu {

CpuOperand& Context::operand(const std::string& name, unsigned number) {
    if (name[0] == '%') {
        const int i = std::atoi(name.c_str() + 1);
        if (i < 0 || i >= count) Machine::get().fail("an asm statement names operand " + name + ", which it does not have");
        return operands[i];
    }
    if (CpuOperand* found = kept->find(number)) return *found;
    return registers[name];
}

uint64_t Context::read(const std::string& name) {
    if (name[0] == '0' && (name[1] == 'f' || name[1] == 'd')) return std::strtoull(name.c_str() + 2, nullptr, 16);
    if (name[0] == '-' || (name[0] >= '0' && name[0] <= '9')) return static_cast<uint64_t>(std::strtoll(name.c_str(), nullptr, 0));
    return read(operand(name));
}

uint64_t Context::read(const CpuOperand& o) {
    if (!o.address) return o.value;
    uint64_t v = 0;
    std::memcpy(&v, o.address, o.kind == 'd' || o.kind == 'l' ? 8 : o.kind == 'h' ? 2 : 4);
    return v;
}

void Context::write(CpuOperand& o, uint64_t value) {
    if (!o.address)
        o.value = value;
    else
        std::memcpy(o.address, &value, o.kind == 'd' || o.kind == 'l' ? 8 : o.kind == 'h' ? 2 : 4);
}

unsigned Context::address(const std::string& operand) { return static_cast<unsigned>(read(list_of(operand)[0])); }

namespace {

bool starts(const std::string& s, const char* prefix) { return s.compare(0, std::strlen(prefix), prefix) == 0; }

/// Instructions whose effect is order that this machine has anyway.
bool is_order(const std::string& name) {
    for (const char* p : {"fence.", "wgmma.fence", "setmaxnreg", "prefetch.", "membar"})
        if (starts(name, p)) return true;
    return false;
}

/// Of another CTA's memory, from an address in the thread's own.
uint64_t address_in_cluster(uint64_t address, uint64_t rank) {
    Machine& m = Machine::get();
    if (rank >= m.cluster()) m.fail("there is no CTA " + std::to_string(rank) + " in a cluster of " + std::to_string(m.cluster()));
    return (address & ((uint64_t{1} << kClusterBit) - 1)) | (rank + 1) << kClusterBit;
}

/// dp4a.atype.btype d, a, b, c: c + the products of four pairs of bytes, modulo 2^32.
void dp4a(const Instruction& in, Context& c) {
    const auto byte = [&](size_t operand, int i) {
        const auto b = static_cast<uint8_t>(c.read(in.operands[operand]) >> (8 * i));
        const std::string type = in.name.substr(operand == 1 ? 5 : 9);
        return starts(type, "s32") ? int64_t{static_cast<int8_t>(b)} : int64_t{b};
    };
    auto sum = static_cast<int64_t>(c.read(in.operands[3]));
    for (int i = 0; i < 4; ++i) sum += byte(1, i) * byte(2, i);
    c.write(in.operands[0], static_cast<uint32_t>(sum));
}

/// Words: shl, shr, shf.r.wrap, mad.lo, prmt and lop3 with any table. false: another instruction.
bool word_operation(const Instruction& in, Context& c) {
    const auto& o = in.operands;
    const auto word = [&](size_t i) { return static_cast<uint32_t>(c.read(o[i])); };
    uint32_t out = 0;
    if (in.name == "shl.b32") {
        out = word(2) < 32 ? word(1) << word(2) : 0;
    } else if (in.name == "shr.u32") {
        out = word(2) < 32 ? word(1) >> word(2) : 0;
    } else if (in.name == "shf.r.wrap.b32") {
        out = static_cast<uint32_t>((uint64_t{word(2)} << 32 | word(1)) >> (word(3) & 31));
    } else if (in.name == "prmt.b32") {
        const uint64_t bytes = uint64_t{word(2)} << 32 | word(1);
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned selector = word(3) >> 4 * i & 15;
            const auto byte = static_cast<uint32_t>(bytes >> 8 * (selector & 7) & 0xff);
            out |= (selector & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * i;
        }
    } else if (in.name == "mad.lo.u32") {
        out = word(1) * word(2) + word(3);
    } else if (in.name == "lop3.b32") {
        for (unsigned bit = 0; bit < 32; ++bit) {
            const unsigned row = (word(1) >> bit & 1) << 2 | (word(2) >> bit & 1) << 1 | (word(3) >> bit & 1);
            out |= (word(4) >> row & 1) << bit;
        }
    } else {
        return false;
    }
    c.write(o[0], out);
    return true;
}

bool is_pair_arithmetic(const std::string& name) {
    for (const char* op : {"add.rn.", "sub.rn.", "mul.rn.", "fma.rn."})
        for (const char* type : {"f16x2", "bf16x2"})
            if (name == std::string(op) + type) return true;
    return false;
}

void check_sums(const Instruction& in, const Context& c) {
    if (c.sums->in_flight == 0 || starts(in.name, "wgmma.")) return;
    for (const std::string& operand : in.operands)
        for (const std::string& name : list_of(operand))
            if (c.sums->contains(Machine::get().number(name)))
                Machine::get().fail("the register " + name + " is touched before its wgmma has been waited for");
}

/// What a statement gives back has been waited for: a compiler may move it anywhere.
void check_operands(const Context& c) {
    if (c.sums->in_flight == 0) return;
    for (unsigned n = 0; n < c.sums->groups.size(); ++n)
        if (c.sums->groups[n] && !c.kept->find(n)) Machine::get().fail("an asm statement ends before its wgmma has been waited for");
}

constexpr uint64_t kEvictFirst = 0x12f0000000000000, kEvictLast = 0x14f0000000000000;  ///< policies, as an H200 makes them

/// createpolicy.fractional.L2::evict_first.b64 d, 1.0: of the whole access.
void create_policy(const Instruction& in, Context& c) {
    const bool first = in.name == "createpolicy.fractional.L2::evict_first.b64", last = in.name == "createpolicy.fractional.L2::evict_last.b64";
    if ((!first && !last) || in.operands.at(1) != "1.0") Machine::get().fail("a policy that the CPU machine does not know: " + in.name);
    c.write(in.operands[0], first ? kEvictFirst : kEvictLast);
}

/// A copy with a hint for the second cache has a policy as its last operand, behind the `others`; a copy without has none.
void check_policy(const Instruction& in, Context& c, size_t others) {
    const bool hinted = in.name.find(".L2::cache_hint") != std::string::npos;
    if (in.operands.size() != others + hinted) Machine::get().fail("a copy has other operands than its name says: " + in.name);
    if (!hinted) return;
    const uint64_t policy = c.read(in.operands.back());
    if (policy != kEvictFirst && policy != kEvictLast) Machine::get().fail("a copy under a policy that nobody made");
}

void execute(const Instruction& in, Context& c) {
    Machine& m = Machine::get();
    const auto& o = in.operands;
    check_sums(in, c);
    if (starts(in.name, "createpolicy")) return create_policy(in, c);
    if (starts(in.name, "wgmma.commit_group")) return static_cast<void>(++c.sums->committed);
    if (starts(in.name, "wgmma.wait_group")) return c.sums->wait(c.read(o[0]));
    if (is_order(in.name)) return;
    if (in.name == "bar.sync") return m.barrier(static_cast<int>(c.read(o[0])), static_cast<unsigned>(c.read(o[1])));
    if (in.name == "setp.ne.b32") return c.write(o[0], static_cast<uint32_t>(c.read(o[1])) != static_cast<uint32_t>(c.read(o[2])));
    if (starts(in.name, "tcgen05.")) return tcgen05(in, c);
    if (starts(in.name, "dp4a.")) return dp4a(in, c);
    if (word_operation(in, c)) return;
    if (is_pair_arithmetic(in.name)) return pair_arithmetic(in, c);
    if (in.name == "add.s32") return c.write(o[0], static_cast<uint32_t>(c.read(o[1]) + c.read(o[2])));
    if (in.name == "add.s64") return c.write(o[0], c.read(o[1]) + c.read(o[2]));
    if (in.name == "mov.b32" || in.name == "mov.u32" || in.name == "mov.b64") return c.write(o[0], c.read(o[1]));
    if (in.name == "ld.shared.u32") {
        uint32_t word = 0;
        std::memcpy(&word, m.shared(c.address(o[1]), 4), 4);
        return c.write(o[0], word);
    }
    if (in.name == "cvt.u16.u32") return c.write(o[0], c.read(o[1]) & 0xffff);
    if (in.name == "cvt.rn.f16x2.e4m3x2" || in.name == "cvt.f32.f16") return widen(in, c);
    if (in.name == "cvt.rn.bf16x2.f32" || in.name == "cvt.rn.f16x2.f32") return convert_pair(in, c);
    if (in.name == "mbarrier.init.shared::cta.b64") return m.mbarrier_init(c.address(o[0]), static_cast<unsigned>(c.read(o[1])));
    if (in.name == "mbarrier.arrive.expect_tx.shared::cta.b64") return m.mbarrier_arrive(c.address(o[1]), static_cast<unsigned>(c.read(o[2])));
    if (in.name == "mbarrier.arrive.shared::cta.b64") return m.mbarrier_arrive(c.address(o[1]), 0);
    if (in.name == "mbarrier.arrive.shared::cluster.b64") return m.mbarrier_arrive(c.address(o[1]), 0);
    if (in.name == "mapa.shared::cluster.u32") return c.write(o[0], address_in_cluster(c.read(o[1]), c.read(o[2])));
    if (in.name == "barrier.cluster.arrive") return m.cluster_arrive();
    if (in.name == "barrier.cluster.wait") return m.cluster_wait();
    if (starts(in.name, "mbarrier.try_wait.parity")) {
        m.mbarrier_wait(c.address(o[1]), static_cast<unsigned>(c.read(o[2])));
        return c.write(o[0], 1);
    }
    if (in.name == "cp.async.commit_group") return m.copy_commit();
    if (in.name == "cp.async.wait_group") return m.copy_wait(static_cast<unsigned>(c.read(o[0])));
    if (in.name == "cp.async.wait_all") return m.copy_commit(), m.copy_wait(0);
    if (starts(in.name, "cp.async.cg.shared") || starts(in.name, "cp.async.ca.shared")) {
        check_policy(in, c, 4);
        const unsigned to = c.address(o[0]), bytes = static_cast<unsigned>(c.read(o[3]));
        const uint64_t from = c.read(list_of(o[1])[0]);
        const auto width = static_cast<unsigned>(c.read(o[2]));
        const bool narrow = (width == 4 || width == 8) && starts(in.name, "cp.async.ca");
        if ((width != 16 && !narrow) || bytes > width) m.fail("cp.async of a size that it does not have");
        if (to % width || (bytes && from % width)) m.fail("cp.async is not aligned");
        return m.copy_async({m.shared(to, width), reinterpret_cast<const unsigned char*>(from), bytes, width});
    }
    if (in.name == "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes") return bulk_copy(in, c);
    if (in.name == "cp.async.bulk.commit_group") return m.bulk_commit();
    if (in.name == "cp.async.bulk.wait_group" || in.name == "cp.async.bulk.wait_group.read") return m.bulk_wait(static_cast<unsigned>(c.read(o[0])));
    if (starts(in.name, "cp.reduce.async.bulk.tensor")) return tensor_reduce(in, c);
    if (starts(in.name, "cp.async.bulk.tensor")) {
        const bool multicast = in.name.find(".multicast::cluster") != std::string::npos;
        check_policy(in, c, in.name.find(".global.shared") != std::string::npos ? 2 : multicast ? 4 : 3);
        return in.name.find(".global.shared") != std::string::npos ? tensor_store(in, c) : tensor_copy(in, c);
    }
    if (starts(in.name, "mma.sync")) return mma_sync(in, c);
    if (starts(in.name, "wgmma.mma_async")) return wgmma(in, c);
    if (starts(in.name, "ldmatrix")) return ldmatrix(in, c);
    if (starts(in.name, "stmatrix")) return stmatrix(in, c);
    if (scalar_operation(in, c)) return;
    m.fail("the CPU machine does not know the instruction " + in.name);
}

}  // namespace

void run_ptx(void** parsed, const char* text, CpuOperand* operands, int count) {
    if (!*parsed) *parsed = new Block(parse_ptx(text));  // lives as long as the kernel's text
    const Block& block = *static_cast<const Block*>(*parsed);
    if (!block.problem.empty()) Machine::get().fail(block.problem);
    Context c{operands, count, {}, &Machine::get().kept_registers(), &Machine::get().wgmma_sums()};
    for (const std::string& name : block.kept)
        if (!c.kept->declare(Machine::get().number(name))) Machine::get().fail("the register " + name + " is declared twice");
    for (size_t at = 0; at < block.instructions.size(); ++at) {
        const Instruction& in = block.instructions[at];
        if (!in.predicate.empty()) {
            const bool negated = in.predicate[0] == '!';
            if ((c.read(in.predicate.substr(negated ? 1 : 0)) != 0) == negated) continue;
        }
        if (in.name == "bra") {
            const auto label = block.labels.find(in.operands[0]);
            if (label == block.labels.end()) Machine::get().fail("a branch to no label");
            at = label->second - 1;
            continue;
        }
        execute(in, c);
    }
    check_operands(c);
    Machine::get().check_loads();
}

}  // namespace tegula::on_cpu
