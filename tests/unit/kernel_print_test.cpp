// Statements of kernels as text: what the builder is told is what stands there, with the spelling of every operation.
#include <gtest/gtest.h>

#include "jit/cuda/print.h"
#include "jit/cuda/products.h"
#include "lang/check.h"
#include "lang/kernel/builder.h"
#include "lang/kernel/text.h"

namespace tegula::kernel {
namespace {

struct KernelPrint : testing::Test {
    Pool pool;
    Kernel kernel;
    Builder b{kernel, pool};

    Ex n(int64_t v) { return pool.number(v); }
    Ex name(const char* text) { return pool.name(Type::i32, text); }
    Ex address(const char* text) { return pool.text(Type::u32, text, false); }
    std::string printed() { return cuda::print(kernel.body); }
};

TEST_F(KernelPrint, RawText) {
    b.line("int x = 1;");
    b.open_if(name("x"));
    b.line("y += x;");
    b.otherwise();
    b.open_block();
    b.line("#pragma unroll 1");
    b.line("z();");
    b.close();
    b.leave();
    b.close();
    EXPECT_EQ(b.depth(), 0u);
    EXPECT_EQ(printed(), R"(    int x = 1;
    if (x) {
        y += x;
    } else {
        {
            #pragma unroll 1
            z();
        }
        return;
    }
)");
    EXPECT_THROW(b.close(), InternalError);
    EXPECT_THROW(b.otherwise(), InternalError);
}

TEST_F(KernelPrint, Statements) {
    b.let("int", "x", name("t") & 31);
    b.declare("float", "v", 8);
    b.declare("unsigned", "w", 2, " = {}");
    b.declare("long long", "n");
    const Ex r = b.open_count("r", 8, kUnrollAll);
    b.assign(pool.index(Type::other, pool.name(Type::other, "v"), r ^ 1), pool.text(Type::other, "0.0f", true));
    b.close();
    b.open_for({"long long", "i", pool.constant(Type::i64, 0), {}, {increment(pool.name(Type::i64, "i"))}, 2, {}});
    b.break_if(negation(lt(pool.name(Type::i64, "i"), pool.name(Type::i64, "n"))));
    b.assign(name("phase"), n(1), AssignOp::bit_xor);
    b.close();
    b.open_for({});
    b.break_if(eq(name("x"), 3));
    b.close();
    For loop;
    loop.test = lt(name("x"), 4);
    b.open_for(loop);
    b.close();
    loop.next = {{name("x"), n(3), AssignOp::add}, {name("y"), n(1), AssignOp::shift_right}};
    b.open_for(loop);
    b.close();
    b.open_if(eq(name("t"), 0));
    b.when(gt(name("x"), 2));
    b.assign(name("x"), n(7));
    b.when(pool.truth(true));
    b.assign(name("x"), n(8));
    b.otherwise();
    b.open_block();
    b.line("f();");
    b.close();
    b.close();
    const Ex y = b.constant("y4", name("x") + 1);
    EXPECT_EQ(y.text(), "y4_0");
    EXPECT_EQ(printed(), R"(    const int x = t & 31;
    float v[8];
    unsigned w[2] = {};
    long long n;
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
        v[r ^ 1] = 0.0f;
    }
    #pragma unroll 2
    for (long long i = 0ll;; ++i) {
        if (!(i < n)) break;
        phase ^= 1;
    }
    for (;;) {
        if (x == 3) break;
    }
    while (x < 4) {
    }
    for (; x < 4; x += 3, y >>= 1) {
    }
    if (t == 0) {
        if (x > 2) x = 7;
        x = 8;
    } else {
        {
            f();
        }
    }
    const int y4_0 = x + 1;
)");
}

TEST_F(KernelPrint, Roles) {
    b.open_role({"producer", 256, 288, 40, ge(name("t"), 256), {}});
    b.call(KernelOp::fewer_registers, {n(40)});
    b.open_if(eq(name("t"), 256));
    b.line("produce();");
    b.close();
    b.next_role({"consumers", 0, 256, 232, {}, {}});
    b.call(KernelOp::more_registers, {n(232)});
    b.call(KernelOp::meet_group, {n(256)});
    b.close();
    EXPECT_EQ(printed(), R"(    if (t >= 256) {
        fewer_registers<40>();
        if (t == 256) {
            produce();
        }
    } else {
        more_registers<232>();
        group_barrier(256);
    }
)");
    EXPECT_EQ(kernel.sections, (std::set<std::string>{"barrier", "registers"}));
    EXPECT_THROW(b.next_role({}), InternalError);
}

/// The texts are those that the emitters write.
TEST_F(KernelPrint, Operations) {
    const Ex full = pool.name(Type::u32, "full"), s = pool.name(Type::u32, "put"), at = full + 8;
    const Ex phase = pool.name(Type::u32, "put_phase"), map = address("&map"), d = pool.name(Type::other, "d");
    const Ex a = pool.name(Type::u64, "a"), function = pool.name(Type::other, "f0"), to = pool.name(Type::u32, "to");
    b.call(KernelOp::meet_cta);
    b.call(KernelOp::meet_warp);
    b.call(KernelOp::mbarrier_init, {full + s * 8, n(1)});
    b.call(KernelOp::mbarrier_wait, {at, phase ^ 1});
    b.call(KernelOp::advance, {s, n(4), phase});
    b.call(KernelOp::advance_stage, {s, n(4)});
    b.call(KernelOp::advance_phase, {phase});
    b.call(KernelOp::count_put, {pool.name(Type::u32, "ahead")});
    b.call(KernelOp::copy_async_of, {n(8), to, address("from + 8"), n(4)});
    b.call(KernelOp::copy_wait, {n(2)});
    b.when(eq(name("t") & 31, 0));
    b.call(KernelOp::mbarrier_arrive, {at});
    b.call(KernelOp::tma_load, {pool.name(Type::other, "tma_load"), to + 128, map, at, n(0), name("x")});
    b.call(KernelOp::tma_multicast, {pool.name(Type::other, "tma_multicast"), s, to, map, at, n(0)});
    b.call(KernelOp::bulk_load, {to, address("tensor"), a, a, n(64), full});
    b.call(KernelOp::tma_store, {pool.name(Type::other, "tma_store"), name("t") & 31, map, to, n(0), n(64)});
    b.call(KernelOp::tma_store_read, {n(1)});
    b.call(KernelOp::wgmma_wait, {n(1)});
    b.call(KernelOp::shuffle_xor, {d, d, n(16)});
    b.call(KernelOp::store_shared, {address("uint4"), address("p + 16"), address("make_uint4(0, 0, 0, 0)")});
    b.call(KernelOp::load_shared, {d, address("uint4"), address("p + 16")});
    b.call(KernelOp::atomic_get, {d, address("atomic1"), pool.truth(true), a});
    b.call(KernelOp::tensor_take, {n(128), to + 8});
    b.call(KernelOp::products_wait, {name("t"), full, phase});
    b.call(KernelOp::ldmatrix_x2_trans, {pool.index(Type::u32, d, n(0)), pool.index(Type::u32, d, n(1)), to});
    EXPECT_EQ(printed(), R"(    __syncthreads();
    __syncwarp();
    mbarrier_init(full + put * 8, 1);
    mbarrier_wait(full + 8, put_phase ^ 1);
    if (++put == 4) put = 0, put_phase ^= 1;
    if (++put == 4) put = 0;
    put_phase ^= 1;
    ++ahead;
    copy_async<8>(to, from + 8, 4);
    copy_async_wait(2);
    if ((t & 31) == 0) mbarrier_arrive(full + 8);
    tma_load(to + 128, &map, full + 8, 0, x);
    tma_multicast(put, to, &map, full + 8, 0);
    bulk_load(to, tensor, a, a, 64, full);
    tma_store(t & 31, &map, to, 0, 64);
    tma_store_read<1>();
    asm volatile("wgmma.wait_group.sync.aligned 1;" : : : "memory");
    d = __shfl_xor_sync(0xffffffffu, d, 16);
    *(uint4*)(p + 16) = make_uint4(0, 0, 0, 0);
    d = *(const uint4*)(p + 16);
    d = atomic1(true, a);
    take_tensor_memory<128>(to + 8);
    products_wait(t, full, put_phase);
    ldmatrix_x2_trans(d[0], d[1], to);
)");
    EXPECT_THROW(b.call(KernelOp::copy_wait, {}), InternalError);
    EXPECT_THROW(b.call(KernelOp::wgmma_issue, {function, n(4), d}), InternalError);
}

/// Every spelling takes operands that its row has, and every row that is called has a sentence or speaks for itself.
TEST_F(KernelPrint, Rows) {
    for (const Row& row : all_rows()) {
        Call call{&row, {}};
        for (size_t i = 0; i < row.operands.size; ++i) call.operands.push_back(pool.name(Type::i32, "operand" + std::to_string(i)));
        ASSERT_TRUE(row.operands.takes(call.operands.size())) << row.name;
        EXPECT_EQ(&row, &kernel::row(row.op));
        if (row.cuda.empty()) {
            EXPECT_THROW(cuda::spelled(call), InternalError) << row.name;
            continue;
        }
        const std::string text = cuda::spelled(call);
        EXPECT_EQ(text.find('$'), std::string::npos) << text;
        for (size_t i = 0; i < row.operands.size; ++i)
            EXPECT_EQ(text.find("operand" + std::to_string(i)) != std::string::npos,
                      is_printed(row.operands.of(i, row.operands.size)) || row.cuda.find("$" + std::to_string(i)) != row.cuda.npos)
                << row.name << ": " << text;
        EXPECT_EQ(row.has(COMMITS) || row.has(AWAITS) || (row.has(ISSUES) && row.queue != Queue::barrier),
                  row.queue != Queue::none && row.queue != Queue::barrier)
            << row.name;
    }
}

struct KernelProducts : KernelPrint {
    Ex d = pool.name(Type::other, "d"), a = pool.name(Type::u64, "a"), b_ = pool.name(Type::u64, "b");
    Ex form = pool.call(Type::other, "m64n8k16.f32.f16.f16", {n(1), n(1), n(0), n(1)});
    std::string joined() {
        const std::string functions = cuda::print_products(kernel);
        return functions + printed();
    }
};

/// From the fence to the wait it is one statement, which names every register once.
TEST_F(KernelProducts, OneStatement) {
    b.call(KernelOp::wgmma_fence);
    b.call(KernelOp::wgmma_start, {form, n(4), d + 4, a + 6, b_});
    b.call(KernelOp::wgmma_issue, {form, n(4), d + 4, a + 8, b_ + 32});
    b.call(KernelOp::wgmma_issue, {form, n(2), d + 2, d + 12, a + 6, b_ + 32});
    b.call(KernelOp::wgmma_commit);
    b.call(KernelOp::wgmma_wait, {n(1)});
    b.call(KernelOp::wgmma_wait, {n(0)});
    EXPECT_EQ(joined(), R"(// m64n8k16.f32.f16.f16, 3 instructions
__device__ __forceinline__ void wgmma_m64n8k16_0_steps(float* d, unsigned long long a, unsigned long long b) {
    asm volatile(
        "{\n.reg .pred no, yes;\n.reg .b64 a, b;\nsetp.ne.b32 no, 0, 0;\nsetp.ne.b32 yes, 1, 0;\n"
        "wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
        "{%2, %3, %4, %5}, %8, %9, no, 1, 1, 0, 1;\n"
        "add.s64 a, %8, 2; add.s64 b, %9, 32;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
        "{%2, %3, %4, %5}, a, b, yes, 1, 1, 0, 1;\n"
        "add.s64 b, %9, 32;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
        "{%0, %1, %6, %7}, %8, b, yes, 1, 1, 0, 1;\n"
        "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\n}"
        : "+f"(d[2]), "+f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]), "=f"(d[7]), "+f"(d[12]), "+f"(d[13])
        : "l"(a), "l"(b)
        : "memory");
}
    wgmma_m64n8k16_0_steps(d, a + 6, b);
    asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
)");
}

/// Of registers that PTX knows by name none is an operand; equal statements are one function.
TEST_F(KernelProducts, NamedRegisters) {
    kernel.named = {{"sum_", 4}, {"held_", 8}};
    const Ex sum = pool.name(Type::other, "sum_"), held = pool.name(Type::u32, "held_"), f = pool.name(Type::u32, "f");
    b.call(KernelOp::named_set, {sum, n(0)});
    b.call(KernelOp::named_set, {held, f});
    b.open_if(name("x"));
    for (int i = 0; i < 2; ++i) {
        b.call(KernelOp::wgmma_fence);
        b.call(KernelOp::wgmma_issue, {form, n(4), sum, held + 4, b_ + i});
        b.call(KernelOp::wgmma_commit);
    }
    b.otherwise();
    b.call(KernelOp::wgmma_fence);
    b.call(KernelOp::wgmma_issue, {form, n(4), sum, f + 4, b_});
    b.call(KernelOp::wgmma_commit);
    b.close();
    b.call(KernelOp::named_get, {d, sum});
    EXPECT_EQ(joined(), R"(// m64n8k16.f32.f16.f16, 1 instructions
__device__ __forceinline__ void wgmma_m64n8k16_0_steps(unsigned long long b) {
    asm volatile(
        "{\n.reg .pred no, yes;\n.reg .b64 a, b;\nsetp.ne.b32 no, 0, 0;\nsetp.ne.b32 yes, 1, 0;\n"
        "wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
        "{sum_0, sum_1, sum_2, sum_3}, {held_4, held_5, held_6, held_7}, %0, yes, 1, 1, 0, 1;\n"
        "wgmma.commit_group.sync.aligned;\n}"
        : 
        : "l"(b)
        : "memory");
}
// m64n8k16.f32.f16.f16, 1 instructions
__device__ __forceinline__ void wgmma_m64n8k16_1_steps(const unsigned* a, unsigned long long b) {
    asm volatile(
        "{\n.reg .pred no, yes;\n.reg .b64 a, b;\nsetp.ne.b32 no, 0, 0;\nsetp.ne.b32 yes, 1, 0;\n"
        "wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
        "{sum_0, sum_1, sum_2, sum_3}, {%0, %1, %2, %3}, %4, yes, 1, 1, 0, 1;\n"
        "wgmma.commit_group.sync.aligned;\n}"
        : 
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)
        : "memory");
}
    asm volatile(".reg .b32 sum_<4>;");
    asm volatile(".reg .b32 held_<8>;");
    asm volatile("mov.b32 sum_0, 0; mov.b32 sum_1, 0; mov.b32 sum_2, 0; mov.b32 sum_3, 0; ");
    asm volatile("mov.b32 held_0, %0; mov.b32 held_1, %1; mov.b32 held_2, %2; mov.b32 held_3, %3; mov.b32 held_4, %4; mov.b32 held_5, %5; mov.b32 held_6, %6; mov.b32 held_7, %7; " :: "r"(f[0]), "r"(f[1]), "r"(f[2]), "r"(f[3]), "r"(f[4]), "r"(f[5]), "r"(f[6]), "r"(f[7]));
    if (x) {
        wgmma_m64n8k16_0_steps(b);
        wgmma_m64n8k16_0_steps(b + 1);
    } else {
        wgmma_m64n8k16_1_steps(f + 4, b);
    }
    asm volatile("mov.b32 %0, sum_0; mov.b32 %1, sum_1; mov.b32 %2, sum_2; mov.b32 %3, sum_3; " : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]));
)");
}

/// Sums of one statement lie in one array; registers that nobody declares cannot be moved.
TEST_F(KernelProducts, Refused) {
    b.call(KernelOp::wgmma_issue, {form, n(4), d, a, b_});
    b.call(KernelOp::wgmma_issue, {form, n(4), pool.name(Type::other, "e"), a, b_});
    EXPECT_THROW(cuda::print_products(kernel), InternalError);
    kernel.body.clear();
    b.call(KernelOp::named_get, {d, pool.name(Type::other, "sum_")});
    EXPECT_THROW(cuda::print_products(kernel), InternalError);
}

TEST_F(KernelPrint, Marks) {
    SourceMap sources;
    const uint32_t file = sources.add("dir/a \"b\".tile", "one\ntwo\nthree\n");
    b.mark(&sources, {file, 0, 1});
    b.open_if(name("x"));
    b.mark(&sources, {file, 1, 2});  // the same line
    b.line("f();");
    b.mark(&sources, {file, 4, 5});
    b.mark(&sources, {file, 9, 10});
    b.close();
    b.mark(nullptr, {file, 0, 1});
    b.mark(&sources, {});
    b.line("g();");
    EXPECT_EQ(printed(), R"(#line 1 "dir/a__b_.tile"
    if (x) {
        f();
#line 3 "dir/a__b_.tile"
    }
    g();
)");
}

TEST_F(KernelPrint, FreshNames) {
    b.reserve("x1");
    EXPECT_EQ(b.fresh("x"), "x0");
    EXPECT_EQ(b.fresh("x"), "x2");
    EXPECT_EQ(b.fresh("a-b"), "a_b3");
    EXPECT_EQ(b.fresh("u8"), "u8_4");
    EXPECT_EQ(b.fresh("9"), "_9_5");
    EXPECT_EQ(b.fresh(""), "_6");
    EXPECT_EQ(b.fresh(std::string(60, 'y')), std::string(40, 'y') + "7");
}

TEST_F(KernelPrint, WhatIsPendingComesFirst) {
    std::string pending;
    b.before_each([&] {
        if (!pending.empty()) b.line(std::exchange(pending, ""));
    });
    b.open_if(name("x"));
    pending = "first();";
    b.line("second();");
    pending = "third();";
    b.otherwise();
    pending = "fourth();";
    b.close();
    pending = "fifth();";
    b.when(eq(name("t"), 0));
    b.call(KernelOp::meet_warp);
    EXPECT_EQ(printed(), R"(    if (x) {
        first();
        second();
        third();
    } else {
        fourth();
    }
    fifth();
    if (t == 0) __syncwarp();
)");
}

TEST_F(KernelPrint, TwiceTheSame) {
    b.open_for({});
    const size_t start = b.position();
    b.open_block();
    b.let("int", "x", n(3));
    b.close();
    const Body again = b.copy_since(start);
    b.line("++i;");
    b.append(again);
    b.close();
    EXPECT_EQ(printed(), R"(    for (;;) {
        {
            const int x = 3;
        }
        ++i;
        {
            const int x = 3;
        }
    }
)");
}

TEST_F(KernelPrint, Dump) {
    kernel.name = "k";
    kernel.rings.push_back({"a", 4, "full", "empty"});
    b.call(KernelOp::meet_group, {n(128)});
    b.call(KernelOp::mbarrier_wait, {pool.name(Type::u32, "full"), n(1)});
    EXPECT_EQ(dump(kernel), R"(kernel k threads 128 arch 90
ring a stages 4 full full empty empty
    meet_group 128;
    mbarrier_wait full, 1;
)");
}

}  // namespace
}  // namespace tegula::kernel
