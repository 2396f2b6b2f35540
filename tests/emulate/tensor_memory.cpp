// Tensor memory of the CPU machine and the products that add up there, from the PTX ISA ("TensorCore 5th Generation Instructions": instruction
// descriptor, shared memory descriptor, data path layouts). Products run at a later time, one after the other; what a thread loads is there when it
// has waited for it.
#include <memory>

#include "tests/emulate/product.h"

namespace tegula::on_cpu {

namespace {

constexpr uint32_t kGarbage = 0x7fc0beef;

/// Bits [from, from + count).
unsigned bits(uint64_t v, int from, int count) { return static_cast<unsigned>(v >> from & ((uint64_t{1} << count) - 1)); }

Operand operand_of(uint64_t descriptor) {
    Machine& m = Machine::get();
    if (bits(descriptor, 46, 3) != 1) m.fail("a descriptor of tcgen05 without its fixed bits");
    if (bits(descriptor, 49, 4)) m.fail("base offsets are not emulated");
    const unsigned mode = bits(descriptor, 61, 3);
    return {descriptor, mode == 2 ? 128u : mode == 4 ? 64u : mode == 6 ? 32u : 0u};
}

Fmt operand_format(const std::string& kind, unsigned code) {
    const Fmt none = Fmt::f64;
    Fmt f = none;
    if (kind == "kind::f16") f = code == 0 ? Fmt::f16 : code == 1 ? Fmt::bf16 : none;
    if (kind == "kind::tf32") f = code == 2 ? Fmt::tf32 : none;
    if (kind == "kind::f8f6f4") f = code == 0 ? Fmt::f8e4m3 : code == 1 ? Fmt::f8e5m2 : none;
    if (kind == "kind::i8") f = code == 0 ? Fmt::u8 : code == 1 ? Fmt::i8 : none;
    if (f == none) Machine::get().fail("an instruction descriptor with a format that " + kind + " does not have");
    return f;
}

/// What the instruction descriptor says.
Product product_of(const std::string& kind, uint32_t what, bool& a_k_major, bool& b_k_major) {
    Machine& m = Machine::get();
    if (bits(what, 0, 4) || bits(what, 6, 1) || bits(what, 13, 2) || bits(what, 23, 1) || bits(what, 29, 3))
        m.fail("an instruction descriptor with bits that are not emulated");
    Product p;
    p.a = operand_format(kind, bits(what, 7, 3));
    p.b = operand_format(kind, bits(what, 10, 3));
    p.acc = kind == "kind::i8" ? Fmt::i32 : Fmt::f32;
    if (bits(what, 4, 2) != (p.acc == Fmt::i32 ? 2u : 1u)) m.fail("an instruction descriptor with another format of the sum");
    a_k_major = bits(what, 15, 1) == 0;
    b_k_major = bits(what, 16, 1) == 0;
    p.n = static_cast<int>(bits(what, 17, 6)) * 8;
    p.m = static_cast<int>(bits(what, 24, 5)) * 16;
    p.k = 256 / builtin(p.a).bits;
    if (p.m != 128 || p.n < 16 || p.n > 256 || p.n % 16) m.fail("extents that are not emulated");
    if (!(a_k_major && b_k_major) && p.a == Fmt::tf32) m.fail("tf32 is emulated with k contiguous only");
    p.find_row(MmaRow::tcgen05, m.arch());
    return p;
}

/// tcgen05.mma.cta_group::1.kind::f16 [sum], a, b, what, add. Addresses are checked now, memory is read and written when it is done.
void product(const Instruction& in, Context& c) {
    Machine& m = Machine::get();
    const auto& o = in.operands;
    bool a_k_major = true, b_k_major = true;
    const auto p = std::make_shared<Product>(product_of(parts_of(in.name).at(3), static_cast<uint32_t>(c.read(o.at(3))), a_k_major, b_k_major));
    const unsigned sum = c.address(o.at(0)), bytes = builtin(p->a).bits / 8u;
    const bool add = c.read(o.at(4)) != 0;
    if (sum >> 16) m.fail("a sum of 128 rows starts in lane 0");
    m.check_columns(sum, static_cast<unsigned>(p->n));
    const Operand a = operand_of(c.read(o.at(1))), b = operand_of(c.read(o.at(2)));
    std::vector<unsigned> a_at, b_at;
    for (int i = 0; i < p->m; ++i)
        for (int k = 0; k < p->k; ++k) a_at.push_back(a.address(i, k, bytes, a_k_major));
    for (int k = 0; k < p->k; ++k)
        for (int j = 0; j < p->n; ++j) b_at.push_back(b.address(j, k, bytes, b_k_major));
    for (const auto* list : {&a_at, &b_at})
        for (const unsigned address : *list) m.shared(address, bytes);
    m.tensor_later([=, &m] {
        for (const unsigned address : a_at) p->av.push_back(shared_code(address, bytes));
        for (const unsigned address : b_at) p->bv.push_back(shared_code(address, bytes));
        const auto cell = [&](int i, int j) -> uint32_t& { return m.cell(static_cast<unsigned>(i), sum + static_cast<unsigned>(j)); };
        for (int i = 0; i < p->m; ++i)
            for (int j = 0; j < p->n; ++j) p->cv.push_back(add ? cell(i, j) : 0);
        p->convert_operands();
        for (int i = 0; i < p->m; ++i)
            for (int j = 0; j < p->n; ++j) cell(i, j) = static_cast<uint32_t>(p->element(i, j));
    });
}

/// tcgen05.ld and .st, 32x32b: lane l of warp w has row 32 * (w % 4) + l, its registers consecutive columns.
void move(const Instruction& in, Context& context, bool load) {
    Machine& m = Machine::get();
    m.meet(m.thread() & ~31u, 32, ~0u, &in, &context, [&](void** members) {
        const std::vector<std::string> name = parts_of(in.name);  // tcgen05 ld sync aligned 32x32b x32 b32
        const std::vector<std::string> registers = list_of(in.operands[load ? 0 : 1]);
        if (name.at(4) != "32x32b" || "x" + std::to_string(registers.size()) != name.at(5)) m.fail("a form that is not known: " + in.name);
        const unsigned first = m.thread() & ~31u, lanes = first / 32 % 4 * 32;
        const unsigned address = static_cast<Context*>(members[0])->address(in.operands[load ? 1 : 0]), column = address & 0xffff;
        if (address >> 16 != lanes) m.fail("a warp moves other lanes of tensor memory than its own");
        m.check_columns(column, static_cast<unsigned>(registers.size()));
        for (unsigned lane = 0; lane < 32; ++lane) {
            auto* c = static_cast<Context*>(members[lane]);
            if (c->address(in.operands[load ? 1 : 0]) != address) m.fail("lanes name different addresses in tensor memory");
            for (unsigned i = 0; i < registers.size(); ++i) {
                const std::string& r = registers[i];
                if (load) {
                    c->write(r, kGarbage);
                    m.tensor_load(first + lane, [=, &m] { c->write(r, m.cell(lanes + lane, column + i)); });
                } else {
                    const auto value = static_cast<uint32_t>(c->read(r));
                    m.tensor_store(first + lane, [=, &m] { m.cell(lanes + lane, column + i) = value; });
                }
            }
        }
    });
}

/// One lane of a warp for all.
void by_warp(const Instruction& in, Context& context, const std::function<void(Context& c)>& work) {
    Machine& m = Machine::get();
    m.meet(m.thread() & ~31u, 32, ~0u, &in, &context, [&](void** members) { work(*static_cast<Context*>(members[0])); });
}

}  // namespace

void tcgen05(const Instruction& in, Context& context) {
    Machine& m = Machine::get();
    const auto is = [&](const char* prefix) { return in.name.rfind(prefix, 0) == 0; };
    const auto& o = in.operands;
    if (m.arch() < 100 || m.arch() >= 120 || !m.special()) m.fail("tcgen05 on an architecture without it");
    if (is("tcgen05.fence::")) return;
    if (is("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned")) return by_warp(in, context, [](Context&) {});
    if (is("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"))
        return by_warp(in, context, [&](Context& c) {
            const unsigned address = m.tensor_take(static_cast<unsigned>(c.read(o[1])));
            std::memcpy(m.shared(c.address(o[0]), 4), &address, 4);
        });
    if (is("tcgen05.dealloc.cta_group::1.sync.aligned.b32"))
        return by_warp(in, context, [&](Context& c) { m.tensor_give(static_cast<unsigned>(c.read(o[0])), static_cast<unsigned>(c.read(o[1]))); });
    if (is("tcgen05.mma.cta_group::1.kind::")) return product(in, context);
    if (is("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64")) {
        const SharedPlace barrier = m.place(context.address(o[0]), 8);
        return m.tensor_later([=, &m] { m.mbarrier_commit(barrier); });
    }
    if (is("tcgen05.ld.sync.aligned")) return move(in, context, true);
    if (is("tcgen05.st.sync.aligned")) return move(in, context, false);
    if (in.name == "tcgen05.wait::ld.sync.aligned") return m.tensor_wait_load();
    if (in.name == "tcgen05.wait::st.sync.aligned") return m.tensor_wait_store();
    m.fail("the CPU machine does not know the instruction " + in.name);
}

}  // namespace tegula::on_cpu
