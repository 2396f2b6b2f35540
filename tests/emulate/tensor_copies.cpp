// TMA copies and reductions of the CPU machine, from PTX ISA 8.0 ("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor", "Swizzling modes"): boxes
// of tensors, zeros or nothing beyond the edges, and multicast to the CTAs of a cluster.
#include <algorithm>

#include "tests/emulate/product.h"

namespace tegula::on_cpu {

namespace {

/// A box of a tensor: what its map says, and where it starts.
struct Box {
    MapContents map;
    std::vector<int64_t> start;
    uint64_t elements = 1;
    Box(Context& context, const std::string& operand) {
        const std::vector<std::string> parts = list_of(operand);
        std::memcpy(&map, reinterpret_cast<const void*>(context.read(parts[0])), sizeof map);
        const std::vector<std::string> coordinates = list_of(parts[1]);
        if (map.magic != kMapMagic || coordinates.size() != map.rank) Machine::get().fail("a tensor copy does not fit its map");
        for (const std::string& x : coordinates) start.push_back(static_cast<int32_t>(context.read(x)));
        for (int d = 0; d < map.rank; ++d) elements *= map.box[d];
        // As an H200 has it, in every swizzle mode; PTX does not say so.
        if (start[0] * map.elem_bytes % 16) Machine::get().fail("a tensor copy that does not begin on whole 16 bytes: an illegal instruction");
    }
    unsigned bytes() const { return static_cast<unsigned>(elements * map.elem_bytes); }
    /// Address in global memory of element i; null outside of the tensor.
    unsigned char* at(uint64_t i) const {
        uint64_t to = map.address;
        for (int d = 0; d < map.rank; ++d) {
            const int64_t x = start[static_cast<size_t>(d)] + static_cast<int64_t>(i % map.box[d]);
            i /= map.box[d];
            if (x < 0 || x >= static_cast<int64_t>(map.extents[d])) return nullptr;
            to += static_cast<uint64_t>(x) * (d == 0 ? map.elem_bytes : map.strides[d]);
        }
        return reinterpret_cast<unsigned char*>(to);
    }
    /// Offset of element i from the box's `address` in shared memory.
    unsigned offset(unsigned address, uint64_t i) const {
        return xor_swizzle(address + static_cast<unsigned>(i * map.elem_bytes), map.swizzle) - address;
    }
};

}  // namespace

/// To the same place, with word to the barrier at the same place, of every CTA of the mask: each at its own time.
void tensor_copy(const Instruction& in, Context& context) {
    Machine& m = Machine::get();
    const unsigned to = context.address(in.operands[0]), barrier = context.address(in.operands[2]);
    const Box box(context, in.operands[1]);
    if (to % 128) m.fail("a tensor copy into shared memory that is not aligned to 128 bytes");
    const bool multicast = in.name.find(".multicast::cluster") != std::string::npos;
    const SharedPlace own = m.place(to, box.bytes()), signal = m.place(barrier, 8);
    const uint64_t mask = multicast ? context.read(in.operands.at(3)) : uint64_t{1} << own.cta;
    if (mask == 0 || mask >> m.cluster()) m.fail("a multicast to CTAs that are none");
    if (own.cta != signal.cta) m.fail("a tensor copy reports to another CTA than it goes to");
    for (unsigned cta = 0; cta < m.cluster(); ++cta) {
        if (!(mask >> cta & 1)) continue;
        m.later([=, &m] {
            unsigned char* base = m.shared(SharedPlace{cta, own.offset});
            for (uint64_t i = 0; i < box.elements; ++i) {
                unsigned char* element = base + box.offset(own.offset, i);
                if (const unsigned char* from = box.at(i))
                    std::memcpy(element, from, box.map.elem_bytes);
                else
                    std::memset(element, 0, box.map.elem_bytes);
            }
            m.mbarrier_complete({cta, signal.offset}, box.bytes());
        });
    }
}

/// Bytes that lie together in memory ("cp.async.bulk").
void bulk_copy(const Instruction& in, Context& context) {
    Machine& m = Machine::get();
    const unsigned to = context.address(in.operands[0]), barrier = context.address(in.operands[3]);
    const auto from = static_cast<uint64_t>(context.read(list_of(in.operands[1])[0]));
    const auto bytes = static_cast<unsigned>(context.read(in.operands[2]));
    if (to % 16 || from % 16 || bytes % 16) m.fail("a bulk copy that is not aligned to 16 bytes");
    const SharedPlace own = m.place(to, bytes), signal = m.place(barrier, 8);
    if (own.cta != signal.cta) m.fail("a bulk copy reports to another CTA than it goes to");
    m.later([=, &m] {
        std::memcpy(m.shared(own), reinterpret_cast<const unsigned char*>(from), bytes);
        m.mbarrier_complete(signal, bytes);
    });
}

namespace {

/// Reads a box out of shared memory at any later time, and gives every element inside the tensor to `each`.
void send_box(const Instruction& in, Context& context, void (*each)(int type, const std::string& op, void* to, const void* from)) {
    Machine& m = Machine::get();
    const unsigned from = context.address(in.operands[1]);
    const Box box(context, in.operands[0]);
    if (from % 128) m.fail("a tensor copy out of shared memory that is not aligned to 128 bytes");
    const unsigned char* base = m.shared(from, box.bytes());
    const std::vector<std::string> name = parts_of(in.name);  // cp reduce async bulk tensor 2d global shared::cta add bulk_group
    const std::string op = name.size() > 8 ? name[8] : "";
    m.bulk_store([=] {
        for (uint64_t i = 0; i < box.elements; ++i)
            if (unsigned char* to = box.at(i)) each(box.map.type, op, to, base + box.offset(from, i));
    });
}

template <class T>
void combine(const std::string& op, void* to, const void* from) {
    T a, b;
    std::memcpy(&a, to, sizeof a);
    std::memcpy(&b, from, sizeof b);
    const T r = op == "add"   ? static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b))
                : op == "min" ? std::min(a, b)
                : op == "max" ? std::max(a, b)
                : op == "and" ? static_cast<T>(a & b)
                : op == "or"  ? static_cast<T>(a | b)
                              : static_cast<T>(a ^ b);
    std::memcpy(to, &r, sizeof r);
}

/// Sums of two numbers of these formats are exact in double precision or rounded once.
void add_reals(Fmt format, void* to, const void* from) {
    const Format& f = builtin(format);
    uint64_t a = 0, b = 0;
    std::memcpy(&a, to, f.container_bytes());
    std::memcpy(&b, from, f.container_bytes());
    const uint64_t r = encode(f, decode(f, a) + decode(f, b));
    std::memcpy(to, &r, f.container_bytes());
}

/// By the map's type, as cuTensorMapEncodeTiled numbers them.
void reduce_element(int type, const std::string& op, void* to, const void* from) {
    constexpr int kU32 = 2, kI32 = 3, kF16 = 6, kF32 = 7, kBF16 = 9;
    const bool known = op == "add" || op == "min" || op == "max" || op == "and" || op == "or" || op == "xor";
    const bool bits = op == "and" || op == "or" || op == "xor";
    if (known && (type == kU32 || (bits && type == kI32))) return combine<uint32_t>(op, to, from);
    if (known && type == kI32) return combine<int32_t>(op, to, from);
    if (op == "add" && type == kF32) return add_reals(Fmt::f32, to, from);
    if (op == "add" && type == kF16) return add_reals(Fmt::f16, to, from);
    if (op == "add" && type == kBF16) return add_reals(Fmt::bf16, to, from);
    Machine::get().fail("a tensor reduction that is not known");
}

}  // namespace

void tensor_store(const Instruction& in, Context& context) {
    send_box(in, context, [](int type, const std::string&, void* to, const void* from) {
        static constexpr size_t kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
        std::memcpy(to, from, kBytes[type]);
    });
}

void tensor_reduce(const Instruction& in, Context& context) { send_box(in, context, reduce_element); }

}  // namespace tegula::on_cpu
