// Fixed device text around tensor cores and asynchronous copies: barriers in shared memory, bulk copies of tensor parts (TMA), cp.async, what
// frames wgmma, and matrix loads. The products' own wrappers are generated per shape (emit_mma.cpp, emit_wgmma.cpp). PTX ISA 8.0, chapters
// "mbarrier", "cp.async.bulk.tensor", "wgmma". Addresses in shared memory are 32-bit.
#include "jit/cuda/prelude_sections.h"

namespace tegula::cuda {

namespace {

constexpr std::string_view kShared = R"(
/// Address in the window of shared memory.
__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
)";

constexpr std::string_view kFence = R"(
/// Writes of this thread to shared memory become visible to TMA and wgmma.
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
)";

// A wait spins inside PTX; labels are local to the braces, so that inlined copies do not clash.
constexpr std::string_view kMbarrier = R"(
__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Initialised barriers become visible to TMA; other threads see them after a barrier of the CTA.
__device__ __forceinline__ void mbarrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
/// Arrives, and the phase also waits for `bytes` that copies bring.
__device__ __forceinline__ void mbarrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Until the phase of this parity is complete.
__device__ __forceinline__ void mbarrier_wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred complete;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n@complete bra done;\nbra again;\ndone:\n}" ::"r"(
            barrier),
        "r"(parity)
        : "memory");
}
)";

/// Bytes [at, at + bytes) of a tensor, as far as it has them, to shared memory; the barrier's phase waits for them.
constexpr std::string_view kBulk = R"(
__device__ __forceinline__ void bulk_load(unsigned to, const void* tensor, unsigned long long at, unsigned long long size, unsigned bytes, unsigned barrier) {
    if (at >= size)
        bytes = 0;
    else if (size - at < bytes)
        bytes = (unsigned)(size - at) & ~15u;
    mbarrier_expect(barrier, bytes);
    if (bytes)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"((const unsigned char*)tensor + at),
                     "r"(bytes), "r"(barrier)
                     : "memory");
}
)";

constexpr std::string_view kTensorMap = R"(
struct alignas(64) TensorMap {
    unsigned long long words[16];
};
)";

// A coordinate far outside the tensor is as good as any other outside: it only must not wrap.
constexpr std::string_view kTma = R"(
__device__ __forceinline__ void tma_prefetch(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
__device__ __forceinline__ int tma_coordinate(long long x) {
    return (int)(x < -0x40000000ll ? -0x40000000ll : x > 0x7fff0000ll ? 0x7fff0000ll : x);
}
__device__ __forceinline__ void tma_load(unsigned to, const TensorMap* map, unsigned barrier, int x) {
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];" ::"r"(to), "l"(map), "r"(x), "r"(barrier)
                 : "memory");
}
__device__ __forceinline__ void tma_load(unsigned to, const TensorMap* map, unsigned barrier, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(x), "r"(y),
                 "r"(barrier)
                 : "memory");
}
__device__ __forceinline__ void tma_load(unsigned to, const TensorMap* map, unsigned barrier, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to), "l"(map), "r"(x),
                 "r"(y), "r"(z), "r"(barrier)
                 : "memory");
}
__device__ __forceinline__ void tma_load(unsigned to, const TensorMap* map, unsigned barrier, int x, int y, int z, int u) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to), "l"(map), "r"(x),
                 "r"(y), "r"(z), "r"(u), "r"(barrier)
                 : "memory");
}
__device__ __forceinline__ void tma_load(unsigned to, const TensorMap* map, unsigned barrier, int x, int y, int z, int u, int v) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(to), "l"(map),
                 "r"(x), "r"(y), "r"(z), "r"(u), "r"(v), "r"(barrier)
                 : "memory");
}
)";

// A part of a tile goes to the same place in the shared memory of all CTAs of the mask, and counts at the barrier at the same place there.
constexpr std::string_view kMulticast = R"(
__device__ __forceinline__ void tma_multicast(unsigned short mask, unsigned to, const TensorMap* map, unsigned barrier, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5}], [%2], %3;" ::"r"(to),
                 "l"(map), "r"(barrier), "h"(mask), "r"(x), "r"(y)
                 : "memory");
}
__device__ __forceinline__ void tma_multicast(unsigned short mask, unsigned to, const TensorMap* map, unsigned barrier, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(to),
                 "l"(map), "r"(barrier), "h"(mask), "r"(x), "r"(y), "r"(z)
                 : "memory");
}
__device__ __forceinline__ void tma_multicast(unsigned short mask, unsigned to, const TensorMap* map, unsigned barrier, int x, int y, int z, int u) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(to),
                 "l"(map), "r"(barrier), "h"(mask), "r"(x), "r"(y), "r"(z), "r"(u)
                 : "memory");
}
__device__ __forceinline__ void tma_multicast(unsigned short mask, unsigned to, const TensorMap* map, unsigned barrier, int x, int y, int z, int u, int v) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(to),
                 "l"(map), "r"(barrier), "h"(mask), "r"(x), "r"(y), "r"(z), "r"(u), "r"(v)
                 : "memory");
}
)";

// Peers start, and end, together: nobody touches the shared memory of a CTA that is not there yet or no more.
constexpr std::string_view kCluster = R"(
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
/// Where in the memory of a cluster the CTA of that rank has what this one has at `address`.
__device__ __forceinline__ unsigned address_in_cluster(unsigned address, unsigned rank) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}
__device__ __forceinline__ void mbarrier_arrive_at(unsigned there) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}
)";

// A box of 16 rows per warp: written, made visible to TMA, sent by lane 0. The other lanes have nothing to wait for.
constexpr std::string_view kTmaStore = R"(
__device__ __forceinline__ void stmatrix_x2(unsigned to, unsigned a, unsigned b) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}
__device__ __forceinline__ void stmatrix_x4(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
/// Until all but `newer` copies of this thread have read shared memory.
template <int newer>
__device__ __forceinline__ void tma_store_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(newer) : "memory"); }
/// Until all copies of this thread are in global memory.
__device__ __forceinline__ void tma_store_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ __forceinline__ void tma_store(int lane, const TensorMap* map, unsigned from, int x, int y) {
    asm volatile(
        "{\n.reg .pred other;\nsetp.ne.b32 other, %0, 0;\n@!other cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%1, {%3, %4}], [%2];\n"
        "@!other cp.async.bulk.commit_group;\n}" ::"r"(lane), "l"(map), "r"(from), "r"(x), "r"(y)
        : "memory");
}
__device__ __forceinline__ void tma_store(int lane, const TensorMap* map, unsigned from, int x, int y, int z) {
    asm volatile(
        "{\n.reg .pred other;\nsetp.ne.b32 other, %0, 0;\n@!other cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%1, {%3, %4, %5}], [%2];\n"
        "@!other cp.async.bulk.commit_group;\n}" ::"r"(lane), "l"(map), "r"(from), "r"(x), "r"(y), "r"(z)
        : "memory");
}
__device__ __forceinline__ void tma_store(int lane, const TensorMap* map, unsigned from, int x, int y, int z, int u) {
    asm volatile(
        "{\n.reg .pred other;\nsetp.ne.b32 other, %0, 0;\n@!other cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%1, {%3, %4, %5, %6}], [%2];\n"
        "@!other cp.async.bulk.commit_group;\n}" ::"r"(lane), "l"(map), "r"(from), "r"(x), "r"(y), "r"(z), "r"(u)
        : "memory");
}
__device__ __forceinline__ void tma_store(int lane, const TensorMap* map, unsigned from, int x, int y, int z, int u, int v) {
    asm volatile(
        "{\n.reg .pred other;\nsetp.ne.b32 other, %0, 0;\n@!other cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%1, {%3, %4, %5, %6, %7}], [%2];\n"
        "@!other cp.async.bulk.commit_group;\n}" ::"r"(lane), "l"(map), "r"(from), "r"(x), "r"(y), "r"(z), "r"(u), "r"(v)
        : "memory");
}
)";

constexpr std::string_view kStmatrixTrans = R"(
__device__ __forceinline__ void stmatrix_x2_trans(unsigned to, unsigned a, unsigned b) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}
__device__ __forceinline__ void stmatrix_x4_trans(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
)";

// Producer warps give registers to the others; both statements are executed by whole warp groups.
constexpr std::string_view kRegisterText = R"(
template <int count>
__device__ __forceinline__ void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count)); }
template <int count>
__device__ __forceinline__ void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count)); }
)";

constexpr std::string_view kCpAsync = R"(
/// 16 bytes, of which the first `bytes` are read and the rest is zero.
__device__ __forceinline__ void copy_async_16(unsigned to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
template <int width>
__device__ __forceinline__ void copy_async(unsigned to, const void* from, int bytes) {
    if (width == 16)
        copy_async_16(to, from, bytes);
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(width), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Until at most `newer` groups are on their way (a smaller number waits for more than is asked).
__device__ __forceinline__ void copy_async_wait(int newer) {
    if (newer >= 3)
        asm volatile("cp.async.wait_group 3;" ::: "memory");
    else if (newer == 2)
        asm volatile("cp.async.wait_group 2;" ::: "memory");
    else if (newer == 1)
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    else
        asm volatile("cp.async.wait_group 0;" ::: "memory");
}
)";

// Descriptor of an operand in shared memory, offsets in bytes. swizzle: 1 128, 2 64, 3 32 bytes.
constexpr std::string_view kWgmma = R"(
__device__ __forceinline__ unsigned long long wgmma_descriptor(unsigned address, unsigned leading, unsigned stride, unsigned long long swizzle) {
    return (unsigned long long)((address & 0x3ffffu) >> 4) | (unsigned long long)(leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 |
           swizzle << 62;
}
/// The same in all lanes, and known to be: what depends on it lies in uniform registers.
__device__ __forceinline__ int uniform(int v) { return __shfl_sync(0xffffffffu, v, 0); }
)";

// Tensor memory: one warp takes and gives back columns; address = lane << 16 | column. Descriptor of an operand in shared memory: offsets in bytes,
// swizzle 2 128, 4 64, 6 32 bytes, bit 46 says sm_100.
constexpr std::string_view kTcgen05 = R"(
template <int columns>
__device__ __forceinline__ void take_tensor_memory(unsigned to) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(to), "n"(columns) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}
/// Orders this thread's work in tensor memory before what follows the next meeting, and after it.
__device__ __forceinline__ void tensor_fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ __forceinline__ void tensor_fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
template <int columns>
__device__ __forceinline__ void give_tensor_memory(unsigned from) {
    tensor_fence_after();
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(from), "n"(columns) : "memory");
}
/// Until this thread's stores are in tensor memory.
__device__ __forceinline__ void tensor_stored() {
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    tensor_fence_before();
}
__device__ __forceinline__ unsigned long long tensor_descriptor(unsigned address, unsigned leading, unsigned stride, unsigned long long swizzle) {
    return (unsigned long long)((address & 0x3ffffu) >> 4) | (unsigned long long)(leading >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 |
           1ull << 46 | swizzle << 61;
}
/// Arrives when all products that this thread has asked for are done.
__device__ __forceinline__ void products_commit(unsigned barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
}
/// All warps arrive; until the products are done and all have come.
__device__ __forceinline__ void products_wait(int t, unsigned done, unsigned phase) {
    if (t == 0) products_commit(done);
    __syncwarp();
    if ((t & 31) == 0) mbarrier_arrive(done);
    mbarrier_wait(done, phase);
    __syncwarp();  // what follows is for whole warps
    tensor_fence_after();
}
)";

constexpr std::string_view kLdmatrix = R"(
__device__ __forceinline__ void ldmatrix_x2(unsigned& a, unsigned& b, unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(from) : "memory");
}
__device__ __forceinline__ void ldmatrix_x2_trans(unsigned& a, unsigned& b, unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(from) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4(unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory");
}
)";

constexpr Section kTensorSections[] = {
    {"shared", "", kShared},           {"fence_async", "", kFence},
    {"mbarrier", "", kMbarrier},       {"tensor_map", "", kTensorMap},
    {"bulk", "mbarrier", kBulk},
    {"multicast", "tma", kMulticast},  {"cluster", "", kCluster},
    {"tma", "tensor_map", kTma},       {"registers", "", kRegisterText},
    {"tma_store", "tma", kTmaStore},   {"cp_async", "", kCpAsync},
    {"wgmma", "shared", kWgmma},       {"ldmatrix", "shared", kLdmatrix},
    {"tcgen05", "mbarrier", kTcgen05}, {"stmatrix_trans", "", kStmatrixTrans},
};

}  // namespace

std::span<const Section> tensor_sections() { return kTensorSections; }

}  // namespace tegula::cuda
