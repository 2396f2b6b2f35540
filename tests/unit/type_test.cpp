// Shapes, broadcasting and interning.
#include "lang/type.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "lang/layout.h"

using namespace tegula;

namespace {

TEST(type, shapes) {
    EXPECT_EQ(to_string(Shape{}), "[]");
    EXPECT_EQ(to_string(Shape{7, kDynamic}), "[7, ?]");
    EXPECT_EQ(broadcast({7, 1}, {128}), (Shape{7, 128}));
    EXPECT_EQ(broadcast({3}, {2, 4, 1}), (Shape{2, 4, 3}));
    EXPECT_EQ(broadcast({}, {5}), (Shape{5}));
    EXPECT_EQ(broadcast({2}, {3}), std::nullopt);
    EXPECT_EQ(broadcast({4, 2}, {4}), std::nullopt);
}

TEST(type, names) {
    TypeTable types;
    EXPECT_EQ(types.name({}), "none");
    EXPECT_EQ(types.name(types.tile(Fmt::f32)), "f32");
    EXPECT_EQ(types.name(types.tile(Fmt::f32, {7, 128})), "tile<f32>[7, 128]");
    EXPECT_EQ(types.name(types.pointer(id_of(Fmt::f16))), "ptr<f16>");
    EXPECT_EQ(types.name(types.pointer(id_of(Fmt::f16), {4})), "tile<ptr<f16>>[4]");
    Type tensor;
    tensor.kind = Type::tensor;
    tensor.elem = *types.builtin("i4");
    tensor.shape = {kDynamic, 128};
    EXPECT_EQ(types.name(types.intern(tensor)), "tensor<i4>[?, 128]");
    tensor.layout = types.intern(Layout::col());
    EXPECT_EQ(types.name(types.intern(tensor)), "tensor<i4>[?, 128] @ col");
}

TEST(type, equal_means_equal_id) {
    TypeTable types;
    EXPECT_EQ(types.tile(Fmt::f32, {7}), types.tile(Fmt::f32, {7}));
    EXPECT_NE(types.tile(Fmt::f32, {7}).v, types.tile(Fmt::f32, {7, 1}).v);
    EXPECT_NE(types.tile(Fmt::f32, {7}).v, types.pointer(id_of(Fmt::f32), {7}).v);
    EXPECT_EQ(types.intern(Layout::row()).v, 0u);
    EXPECT_EQ(types.intern(float_format(5, 10)), id_of(Fmt::f16));
    EXPECT_EQ(types.intern(int_format(8, true)), id_of(Fmt::i8));
    Format plain;  // fields that integers do not use must not matter
    plain.bits = 8;
    plain.man_bits = 77;
    EXPECT_EQ(types.intern(plain), id_of(Fmt::i8));
    EXPECT_EQ(types.format(types.intern(float_format(3, 4))).name, "float<3, 4>");
    Format block;
    block.kind = FormatKind::block;
    block.bits = 4;
    block.elem = id_of(Fmt::f4e2m1);
    block.scale = id_of(Fmt::f8e8m0);
    block.block_size = 32;
    EXPECT_EQ(types.format(types.intern(block)).name, "block<f4e2m1, 32, scale = f8e8m0>");
}

TEST(type, builtin_names) {
    TypeTable types;
    EXPECT_EQ(types.builtin("f16"), id_of(Fmt::f16));
    EXPECT_EQ(types.builtin("bool"), id_of(Fmt::boolean));
    EXPECT_EQ(types.builtin("i8"), id_of(Fmt::i8));
    EXPECT_EQ(types.format(*types.builtin("u1")).bits, 1);
    EXPECT_EQ(types.format(*types.builtin("i64")).bits, 64);
    for (const char* bad : {"", "i", "i0", "i65", "u08", "i1x", "f17", "boolean", "i-1", "i+1", "none_"}) EXPECT_FALSE(types.builtin(bad)) << bad;
}

TEST(type, threads_agree) {
    TypeTable types;
    std::vector<std::vector<TypeId>> seen(4);
    std::vector<std::thread> threads;
    for (auto& mine : seen)
        threads.emplace_back([&] {
            for (int64_t i = 1; i < 500; ++i) mine.push_back(types.tile(Fmt::f32, {i}));
        });
    for (auto& t : threads) t.join();
    for (auto& mine : seen) EXPECT_EQ(mine, seen[0]);
    for (int64_t i = 1; i < 500; ++i) EXPECT_EQ(types.type(seen[0][size_t(i - 1)]).shape, Shape{i});
}

}  // namespace
