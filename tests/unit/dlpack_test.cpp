// DLPack in and out. Type codes are those of dlpack.h 1.1, written down a second time.
#include "jit/engine/dlpack.h"

#include <gtest/gtest.h>

#include "lang/layout.h"

namespace tegula::dlpack {
namespace {

class DlpackTest : public ::testing::Test {
protected:
    Tensor tensor(DataType type, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
        shape_ = std::move(shape);
        strides_ = std::move(strides);
        Tensor t{};
        t.data = memory_;
        t.device = {kCpu, 0};
        t.ndim = static_cast<int32_t>(shape_.size());
        t.dtype = type;
        t.shape = shape_.data();
        t.strides = strides_.empty() ? nullptr : strides_.data();
        return t;
    }
    std::string refused(const Tensor& t) {
        std::string why;
        EXPECT_FALSE(from_dlpack(t, types_, why));
        EXPECT_FALSE(why.empty());
        return why;
    }
    TensorArg taken(const Tensor& t) {
        std::string why;
        const auto out = from_dlpack(t, types_, why);
        EXPECT_TRUE(out) << why;
        return out.value_or(TensorArg{});
    }

    TypeTable types_;
    alignas(256) uint8_t memory_[1024] = {};
    std::vector<int64_t> shape_, strides_;
    static constexpr DataType kF32{2, 32, 1};
};

TEST_F(DlpackTest, element_types) {
    const std::pair<DataType, const char*> rows[] = {
        {{0, 8, 1}, "i8"},      {{0, 64, 1}, "i64"},        {{1, 16, 1}, "u16"},    {{2, 16, 1}, "f16"},    {{2, 32, 1}, "f32"},
        {{2, 64, 1}, "f64"},    {{4, 16, 1}, "bf16"},       {{6, 8, 1}, "u8"},      {{10, 8, 1}, "f8e4m3"}, {{11, 8, 1}, "f8e4m3fnuz"},
        {{12, 8, 1}, "f8e5m2"}, {{13, 8, 1}, "f8e5m2fnuz"}, {{14, 8, 1}, "f8e8m0"}, {{15, 6, 1}, "f6e2m3"}, {{16, 6, 1}, "f6e3m2"},
        {{17, 4, 1}, "f4e2m1"}, {{0, 4, 1}, "i4"},          {{1, 1, 1}, "u1"},
    };
    for (const auto& [type, name] : rows) {
        const TensorArg t = taken(tensor(type, {8}));
        EXPECT_EQ(types_.format(t.elem).name, name);
        EXPECT_EQ(t.bytes, type.bits);
    }
    EXPECT_NE(refused(tensor({5, 64, 1}, {8})).find("complex of 64 bits"), std::string::npos);
    EXPECT_NE(refused(tensor({7, 8, 1}, {8})).find("float8_e3m4"), std::string::npos);
    EXPECT_NE(refused(tensor({2, 32, 4}, {8})).find("4 lanes"), std::string::npos);
    EXPECT_NE(refused(tensor({99, 8, 1}, {8})).find("type code 99"), std::string::npos);
    refused(tensor({2, 8, 1}, {8}));
    refused(tensor({17, 8, 1}, {8}));
    refused(tensor({0, 0, 1}, {8}));
}

TEST_F(DlpackTest, strides) {
    TensorArg t = taken(tensor(kF32, {3, 4}));
    EXPECT_FALSE(t.has_strides);
    EXPECT_EQ(t.bytes, 48u);
    t = taken(tensor(kF32, {3, 4}, {4, 1}));
    EXPECT_FALSE(t.has_strides);
    t = taken(tensor(kF32, {1, 4}, {77, 1}));
    EXPECT_FALSE(t.has_strides) << "the stride of a single row says nothing";
    t = taken(tensor(kF32, {3, 4}, {10, 2}));
    EXPECT_TRUE(t.has_strides);
    EXPECT_EQ(t.strides[0], 10);
    EXPECT_EQ(t.strides[1], 2);
    EXPECT_EQ(t.bytes, (2 * 10 + 3 * 2 + 1) * 4u);
    t = taken(tensor(kF32, {3, 4}, {0, 1}));
    EXPECT_TRUE(t.has_strides);
    EXPECT_EQ(t.bytes, 16u);
    EXPECT_EQ(taken(tensor(kF32, {0, 4}, {9, 9})).bytes, 0u);
    EXPECT_EQ(taken(tensor(kF32, {})).bytes, 4u);
    EXPECT_NE(refused(tensor(kF32, {3, 4}, {-4, 1})).find("stride 0 is negative"), std::string::npos);
    EXPECT_NE(refused(tensor(kF32, {int64_t{1} << 40, int64_t{1} << 40})).find("2^56"), std::string::npos);
    EXPECT_NE(refused(tensor(kF32, {2, 2}, {INT64_MAX, 1})).find("2^56"), std::string::npos);
    EXPECT_NE(refused(tensor(kF32, {-1})).find("negative"), std::string::npos);
    EXPECT_NE(refused(tensor(kF32, std::vector<int64_t>(9, 1))).find("9 dimensions"), std::string::npos);
}

TEST_F(DlpackTest, rows_below_a_byte) {
    EXPECT_EQ(taken(tensor({0, 4, 1}, {3, 6})).bytes, 9u);
    EXPECT_EQ(taken(tensor({0, 4, 1}, {7})).bytes, 4u);
    EXPECT_NE(refused(tensor({0, 4, 1}, {3, 5})).find("within a byte"), std::string::npos);
    EXPECT_NE(refused(tensor({0, 4, 1}, {3, 6}, {8, 1})).find("row-major"), std::string::npos);
}

TEST_F(DlpackTest, devices_and_offsets) {
    Tensor t = tensor(kF32, {4});
    t.byte_offset = 16;
    EXPECT_EQ(taken(t).data, memory_ + 16);
    EXPECT_EQ(taken(t).memory, Memory::host);
    t.device = {kCuda, 3};
    EXPECT_EQ(taken(t).memory, Memory::cuda);
    EXPECT_EQ(taken(t).device, 3);
    t.device = {kCudaHost, 0};
    EXPECT_EQ(taken(t).memory, Memory::host);
    t.device = {10, 0};
    EXPECT_NE(refused(t).find("device of type 10"), std::string::npos);
    t = tensor(kF32, {4});
    t.data = nullptr;
    EXPECT_NE(refused(t).find("no data"), std::string::npos);
}

TEST_F(DlpackTest, versions_and_flags) {
    VersionedTensor v{};
    v.major = 1;
    v.flags = kReadOnly;
    v.dl_tensor = tensor(kF32, {4});
    bool read_only = false;
    std::string why;
    EXPECT_TRUE(from_dlpack(v, types_, read_only, why));
    EXPECT_TRUE(read_only);
    v.flags = kPadded;
    EXPECT_TRUE(from_dlpack(v, types_, read_only, why)) << "whole bytes have no padding";
    EXPECT_FALSE(read_only);
    v.dl_tensor.dtype = {17, 4, 1};
    EXPECT_FALSE(from_dlpack(v, types_, read_only, why));
    v.major = 2;
    EXPECT_FALSE(from_dlpack(v, types_, read_only, why));
    EXPECT_NE(why.find("version 2"), std::string::npos);
}

TEST_F(DlpackTest, out_and_back) {
    auto owner = std::make_shared<int>(1);
    TensorArg t;
    t.elem = id_of(Fmt::bf16);
    t.data = memory_;
    t.bytes = 48;
    t.extents = {4, 6};
    t.memory = Memory::cuda;
    t.device = 2;
    std::string why;
    ManagedTensor* out = to_dlpack(t, types_, owner, why);
    ASSERT_NE(out, nullptr) << why;
    EXPECT_EQ(owner.use_count(), 2);
    EXPECT_EQ(out->dl_tensor.dtype.code, 4);
    EXPECT_EQ(out->dl_tensor.dtype.bits, 16);
    EXPECT_EQ(out->dl_tensor.device.type, kCuda);
    EXPECT_EQ(out->dl_tensor.device.id, 2);
    EXPECT_EQ(out->dl_tensor.strides[0], 6);
    EXPECT_EQ(out->dl_tensor.strides[1], 1);
    const TensorArg back = taken(out->dl_tensor);
    EXPECT_EQ(back.elem, t.elem);
    EXPECT_EQ(back.bytes, t.bytes);
    EXPECT_EQ(back.extents, t.extents);
    out->deleter(out);
    EXPECT_EQ(owner.use_count(), 1);
    t.layout = types_.intern(Layout::col());
    VersionedTensor* versioned = to_dlpack_versioned(t, types_, owner, why);
    ASSERT_NE(versioned, nullptr);
    EXPECT_EQ(versioned->major, 1u);
    EXPECT_EQ(versioned->dl_tensor.strides[0], 1);
    EXPECT_EQ(versioned->dl_tensor.strides[1], 4);
    versioned->deleter(versioned);
    EXPECT_EQ(owner.use_count(), 1);
    t.elem = types_.intern(float_format(3, 3));
    EXPECT_EQ(to_dlpack(t, types_, owner, why), nullptr);
    EXPECT_NE(why.find("no type"), std::string::npos);
    t.elem = *types_.builtin("i5");
    t.layout = {};
    t.extents = {4, 3};
    EXPECT_EQ(to_dlpack(t, types_, owner, why), nullptr) << "rows of 15 bits padded to 16";
    t.extents = {4, 8};
    ManagedTensor* narrow = to_dlpack(t, types_, owner, why);
    ASSERT_NE(narrow, nullptr) << why;
    EXPECT_EQ(narrow->dl_tensor.strides[0], 8);
    narrow->deleter(narrow);
}

}  // namespace
}  // namespace tegula::dlpack
