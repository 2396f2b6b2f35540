// The C API: how tensors lie in memory: bytes, orders and their numbers, copies that pack and quantise, arrays that hosts load.
#include "tests/unit/api_fixture.h"

using namespace api_test;

namespace {

TEST_F(Api, BytesOfTensors) {
    const int64_t m[] = {5, 70};
    const auto bytes = [&](const char* type, const char* layout, size_t* scales = nullptr) {
        size_t n = 0;
        Diags diags;
        EXPECT_EQ(tegula_tensor_bytes(module.get(), type, layout, m, 2, &n, scales, diags.out()), TEGULA_OK) << text(diags);
        return n;
    };
    EXPECT_EQ(bytes("f32", nullptr), 5u * 70 * 4);
    EXPECT_EQ(bytes("i3", "row"), 5u * 27);  // 210 bits a row
    EXPECT_EQ(bytes("i3", "col"), 70u * 2);  // 15 bits a column
    EXPECT_EQ(bytes("u8", "panels<4>"), 2u * 70 * 4);
    size_t scales = 0;
    EXPECT_EQ(bytes("mx", nullptr, &scales), 5u * 35);
    EXPECT_EQ(scales, 5u * 3);
    size_t n = 77;
    EXPECT_EQ(tegula_tensor_bytes(module.get(), "mx", "panels<4>", m, 2, &n, nullptr, nullptr), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(tegula_tensor_bytes(module.get(), "f32", "nope", m, 2, &n, nullptr, nullptr), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(n, 77u);
}

/// Packed files hold these numbers: one that changes makes them unreadable.
TEST_F(Api, OrdersKeepTheirNumbers) {
    const auto hash = [&](const char* layout) {
        uint64_t h = 0;
        Diags diags;
        EXPECT_EQ(tegula_layout_hash(module.get(), layout, &h, diags.out()), TEGULA_OK) << layout << text(diags);
        return h;
    };
    EXPECT_EQ(hash(nullptr), hash("row"));
    EXPECT_EQ(hash("row"), 0x8a0bc1196111ad9bu);
    EXPECT_EQ(hash("col"), 0xf604f3190d016791u);
    EXPECT_EQ(hash("panels<4>"), 0x281d6a3e165e8348u);
    EXPECT_EQ(hash("tiled<8, 8>"), 0x2d4229bac2d6ed5cu);
    EXPECT_EQ(hash("fragment"), 0x17992510c6d7b8a9u);
    Diags diags;
    uint64_t h = 77;
    EXPECT_EQ(tegula_layout_hash(module.get(), "nope", &h, diags.out()), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(h, 77u);
    // What was packed in another order than its layout's name means here is refused.
    std::vector<float> data(16), to(16);
    const int64_t extents[] = {4, 4};
    tegula_tensor from{}, target{};
    from.data = data.data(), target.data = to.data();
    from.bytes = target.bytes = 64;
    from.type = target.type = "f32";
    from.rank = target.rank = 2;
    from.extents = target.extents = extents;
    from.layout = "panels<4>";
    from.layout_hash = hash("panels<4>");
    EXPECT_EQ(tegula_tensor_copy(module.get(), &target, &from, diags.out()), TEGULA_OK) << text(diags);
    // Arrays are compared by their elements, in whatever order each lies.
    tegula::Ref<tegula_blob> json;
    const auto drawn = [&] {
        size_t size = 0;
        const char* const begin = tegula_blob_data(json.get(), &size);
        return std::string(begin, size);
    };
    EXPECT_EQ(tegula_tensor_diff(module.get(), &from, &target, json.out(), diags.out()), TEGULA_OK) << text(diags);
    EXPECT_NE(drawn().find("16, of which 0 differ"), std::string::npos);
    to[5] = std::nextafter(to[5], 1.0f);
    EXPECT_EQ(tegula_tensor_diff(module.get(), &from, &target, json.out(), diags.out()), TEGULA_OK) << text(diags);
    EXPECT_NE(drawn().find("\"1 ULP\""), std::string::npos);
    target.type = "i32";
    EXPECT_EQ(tegula_tensor_diff(module.get(), &from, &target, json.out(), diags.out()), TEGULA_E_ARGUMENTS);
    EXPECT_NE(text(diags).find("one is of `f32`, the other of `i32`"), std::string::npos) << text(diags);
    target.type = "f32";
    const int64_t others[] = {2, 8};
    target.extents = others;
    EXPECT_EQ(tegula_tensor_diff(module.get(), &from, &target, json.out(), diags.out()), TEGULA_E_ARGUMENTS);
    EXPECT_NE(text(diags).find("[4, 4] and [2, 8]"), std::string::npos) << text(diags);
    target.extents = extents;
    from.layout_hash = hash("panels<2>");
    EXPECT_EQ(tegula_tensor_copy(module.get(), &target, &from, diags.out()), TEGULA_E_ARGUMENTS);
    EXPECT_NE(text(diags).find("packed in another order than `panels<4>` is here"), std::string::npos) << text(diags);
}

TEST_F(Api, CopiesPackAndUnpack) {
    Diags diags;
    const auto copy = [&](const tegula_tensor& to, const tegula_tensor& from) { return tegula_tensor_copy(module.get(), &to, &from, diags.out()); };
    std::vector<int8_t> values;
    for (int i = 0; i < 15; ++i) values.push_back(static_cast<int8_t>(i - 8));
    Owned<int8_t> wide("i8", {3, 5}, values), back("i8", {3, 5}, std::vector<int8_t>(15, 99));
    // Rows of 5 nibbles: 3 bytes, the lower nibble first.
    Owned<uint8_t> packed("i4", {3, 5}, std::vector<uint8_t>(9, 0));
    ASSERT_EQ(copy(packed.c, wide.c), TEGULA_OK) << text(diags);
    EXPECT_EQ(packed.values()[0], 0x98);  // -8, -7
    EXPECT_EQ(packed.values()[2], 0x0C);  // -4
    ASSERT_EQ(copy(back.c, packed.c), TEGULA_OK);
    EXPECT_EQ(back.values(), values);
    // Column-major and a layout of the module: element (i, j) lies where they say.
    Owned<int8_t> columns("i8", {3, 5}, std::vector<int8_t>(15, 0)), panels("i8", {3, 5}, std::vector<int8_t>(20, 0));
    columns.c.layout = "col";
    panels.c.layout = "panels<2>";  // two panels of two rows, the second half empty
    ASSERT_EQ(copy(columns.c, wide.c), TEGULA_OK);
    ASSERT_EQ(copy(panels.c, columns.c), TEGULA_OK) << text(diags);
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 5; ++j) {
            EXPECT_EQ(columns.values()[static_cast<size_t>(j * 3 + i)], values[static_cast<size_t>(i * 5 + j)]);
            EXPECT_EQ(panels.values()[static_cast<size_t>(i / 2 * 10 + j * 2 + i % 2)], values[static_cast<size_t>(i * 5 + j)]);
        }
    Owned<uint8_t> codes("u8", {8}, {0, 1, 2, 3, 4, 5, 6, 7}), u3("u3", {8}, {0, 0, 0});
    ASSERT_EQ(copy(u3.c, codes.c), TEGULA_OK);
    EXPECT_EQ(u3.values(), (std::vector<uint8_t>{0b10001000, 0b11000110, 0b11111010}));
    Owned<double> halves("f64", {4}, {0.5, 1.5, 2.5, -1e9});
    Owned<int8_t> rounded("i8", {4}, {0, 0, 0, 0});
    ASSERT_EQ(copy(rounded.c, halves.c), TEGULA_OK);
    EXPECT_EQ(rounded.values()[3], -128);  // saturates
    EXPECT_EQ(copy(packed.c, codes.c), TEGULA_E_ARGUMENTS) << "extents differ";
    codes.c.bytes = 7;
    EXPECT_EQ(copy(u3.c, codes.c), TEGULA_E_ARGUMENTS);
}

TEST_F(Api, ElementsKeepTheirPlaces) {
    Diags diags;
    const auto copy = [&](const tegula_tensor& to, const tegula_tensor& from) { return tegula_tensor_copy(module.get(), &to, &from, diags.out()); };
    Owned<float> x("f32", {4, 6}, std::vector<float>(24, 1)), y("f32", {4, 6}, std::vector<float>(24, 7));
    const auto refused = [&](tegula_tensor& other, const char* part) {
        EXPECT_EQ(copy(other, x.c), TEGULA_E_ARGUMENTS);
        EXPECT_TRUE(contains(text(diags), part)) << text(diags);
        EXPECT_EQ(y.values(), std::vector<float>(24, 7));
    };
    for (const auto& [layout, part] :
         {std::pair{"crowded", "(0, 1) and (1, 0) both land on element 1"}, std::pair{"before", "(0, 0) lands on index -1, before the start"}}) {
        tegula_tensor t = y.c;
        t.layout = layout;
        refused(t, part);
        EXPECT_EQ(copy(x.c, t), TEGULA_E_ARGUMENTS) << layout;
    }
    // Strides may repeat what is read, but not what is written.
    const int64_t repeated[] = {0, 1}, overlapping[] = {2, 1}, columns[] = {1, 4};
    tegula_tensor t = y.c;
    t.strides = repeated;
    refused(t, "(0, 0) and (1, 0) both land on element 0");
    EXPECT_EQ(launch("matrix", {tensor(x.c), tensor(t)}, diags), TEGULA_E_ARGUMENTS);
    EXPECT_TRUE(contains(text(diags), "`y`: it is written, and its strides do not keep elements apart: (0, 0) and (1, 0)")) << text(diags);
    t.strides = overlapping;
    EXPECT_EQ(launch("matrix", {tensor(x.c), tensor(t)}, diags), TEGULA_E_ARGUMENTS);
    EXPECT_EQ(y.values(), std::vector<float>(24, 7));
    EXPECT_EQ(launch("matrix", {tensor(t), tensor(x.c)}, diags), TEGULA_OK) << text(diags);
    t.strides = columns;
    EXPECT_EQ(launch("matrix", {tensor(x.c), tensor(t)}, diags), TEGULA_OK) << text(diags);
}

TEST_F(Api, CopiesQuantiseBlockFormats) {
    static constexpr float kE2M1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const int64_t rows = 3, width = 40;  // a whole block and a part of one
    std::vector<float> exact;
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < width; ++j) exact.push_back(std::ldexp(j % 32 == 0 ? 6.0f : (j % 2 ? -1.0f : 1.0f) * kE2M1[(i + j) % 8], i + j / 32));
    for (const char* layout : {"row", "col"}) {
        const bool col = *layout == 'c';
        // Blocks lie along the innermost dimension of storage.
        std::vector<int64_t> shape = col ? std::vector<int64_t>{width, rows} : std::vector<int64_t>{rows, width};
        Owned<float> from("f32", shape, exact), back("f32", shape, std::vector<float>(exact.size(), 99));
        from.c.layout = layout;
        back.c.layout = layout;
        Owned<uint8_t> mx("mx", shape, std::vector<uint8_t>(static_cast<size_t>(rows * width / 2), 0));
        std::vector<uint8_t> scales(static_cast<size_t>(rows * 2), 0);
        mx.c.layout = layout;
        mx.c.scales = scales.data();
        mx.c.scales_bytes = scales.size();
        Diags diags;
        ASSERT_EQ(tegula_tensor_copy(module.get(), &mx.c, &from.c, diags.out()), TEGULA_OK) << text(diags);
        // OCP MX: the scale of a block is 2^(floor(log2(max)) - 2); its largest element 6 * 2^p makes that 2^p, code 127 + p.
        EXPECT_EQ(scales, (std::vector<uint8_t>{127, 128, 128, 129, 129, 130})) << layout;
        EXPECT_EQ(mx.values()[0] & 15, 7) << "6 is the last code";
        ASSERT_EQ(tegula_tensor_copy(module.get(), &back.c, &mx.c, diags.out()), TEGULA_OK) << text(diags);
        EXPECT_EQ(back.values(), exact) << layout;
        mx.c.scales_bytes = 5;
        EXPECT_EQ(tegula_tensor_copy(module.get(), &mx.c, &from.c, diags.out()), TEGULA_E_ARGUMENTS);
    }
}

struct Reader {
    tegula_tensor answer{};
    bool refuse = false;
};
tegula_blob* read_three(void* user, const char* path, const char* name, tegula_tensor* out, char* error, size_t capacity) {
    auto& reader = *static_cast<Reader*>(user);
    EXPECT_STREQ(path, "three");
    EXPECT_EQ(name, nullptr);
    if (reader.refuse) {
        std::memset(error, 'x', capacity);  // not even terminated
        return nullptr;
    }
    *out = reader.answer;
    return tegula_blob_new("", 0);
}

TEST(LoadArray, AnswersAreChecked) {
    Reader reader;
    tegula_engine_options options;
    tegula_engine_options_init(&options, sizeof options);
    options.load_array = read_three;
    options.user = &reader;
    tegula::Ref<tegula_engine> engine;
    tegula::Ref<tegula_module> module;
    ASSERT_EQ(tegula_engine_new(&options, engine.out(), nullptr), TEGULA_OK);
    ASSERT_EQ(tegula_module_from_source(engine.get(), "m", kSource, std::strlen(kSource), module.out(), nullptr), TEGULA_OK);
    const auto run = [&] { return tegula_test(module.get(), "file", nullptr, nullptr, nullptr, nullptr); };
    Owned<float> three("f32", {3}, {3, 3, 3});
    reader.answer = three.c;
    EXPECT_EQ(run(), TEGULA_OK);
    const int64_t huge = int64_t{1} << 40, strides = 1;
    const auto with = [&](auto change) {
        reader.answer = three.c;
        change(reader.answer);
        EXPECT_EQ(run(), TEGULA_E_IO);
    };
    with([](auto& t) { t.type = nullptr; });
    with([](auto& t) { t.type = "mxfp4"; });
    with([](auto& t) { t.rank = 9; });
    with([](auto& t) { t.rank = -1; });
    with([](auto& t) { t.extents = nullptr; });
    with([](auto& t) { t.data = nullptr; });
    with([](auto& t) { t.bytes = 11; });
    with([&](auto& t) { t.extents = &huge; });
    with([&](auto& t) { t.strides = &strides; });
    with([](auto& t) { t.layout = "zigzag"; });
    reader.refuse = true;
    EXPECT_EQ(run(), TEGULA_E_IO);
}

TEST(LoadArray, PackedAnswersAreTakenAsLaunchesTakeThem) {
    constexpr const char* kPacked = R"(
import std.formats as fm;
layout turned[i: M, j: N] = (j, i);
layout crowded[i: M, j: N] = (i + j,);
test "plain" { assert_equal(load_safetensors("f", "w"), tile_of<f32>([[1, 2, 3], [4, 5, 6]])); }
test "blocks" { assert_equal(cast<f32>(load_safetensors("f", "w")), tile_of<f32>([[1, 2, 3, 4], [-2, -4, -6, -8]])); }
)";
    tegula_tensor answer{};
    tegula_engine_options options;
    tegula_engine_options_init(&options, sizeof options);
    options.user = &answer;
    options.load_array = [](void* user, const char*, const char* name, tegula_tensor* out, char*, size_t) {
        EXPECT_STREQ(name, "w");
        *out = *static_cast<tegula_tensor*>(user);
        return tegula_blob_new("", 0);
    };
    tegula::Ref<tegula_engine> engine;
    tegula::Ref<tegula_module> module;
    ASSERT_EQ(tegula_engine_new(&options, engine.out(), nullptr), TEGULA_OK);
    ASSERT_EQ(tegula_module_from_source(engine.get(), "m", kPacked, std::strlen(kPacked), module.out(), nullptr), TEGULA_OK);
    const auto hash = [&](const char* layout) {
        uint64_t h = 0;
        EXPECT_EQ(tegula_layout_hash(module.get(), layout, &h, nullptr), TEGULA_OK);
        return h;
    };
    const auto run = [&](const char* test) { return tegula_test(module.get(), test, nullptr, nullptr, nullptr, nullptr); };
    const auto refused = [&](const char* test, const tegula_tensor& good, auto change) {
        answer = good;
        change(answer);
        EXPECT_EQ(run(test), TEGULA_E_IO);
    };

    Owned<float> turned("f32", {2, 3}, {1, 4, 2, 5, 3, 6});
    turned.c.layout = "turned";
    turned.c.layout_hash = hash("turned");
    answer = turned.c;
    EXPECT_EQ(run("plain"), TEGULA_OK);
    refused("plain", turned.c, [](auto& t) { t.layout_hash += 1; });
    refused("plain", turned.c, [&](auto& t) { t.layout = "row"; });
    refused("plain", turned.c, [&](auto& t) { t.layout = "crowded", t.layout_hash = hash("crowded"); });
    refused("plain", turned.c, [](auto& t) { t.layout = "?"; });
    refused("plain", turned.c, [](auto& t) { t.bytes = 23; });
    refused("plain", turned.c, [](auto& t) { t.device_type = TEGULA_CUDA; });
    refused("plain", turned.c, [](auto& t) { t.type = "fm.nf4 nf4"; });

    // Codes of f4e2m1: 2, 4, 5 and 6 are 1, 2, 3 and 4, and 8 more is the sign. The second block's scale is 2.
    Owned<uint8_t> blocks("block<f4e2m1, 4, scale = f8e8m0>", {2, 4}, {0x42, 0x65, 0xca, 0xed});
    uint8_t scales[] = {127, 128};
    float tensor_scale = 1;
    blocks.c.scales = scales;
    blocks.c.scales_bytes = sizeof scales;
    answer = blocks.c;
    EXPECT_EQ(run("blocks"), TEGULA_OK);
    refused("blocks", blocks.c, [](auto& t) { t.scales = nullptr; });
    refused("blocks", blocks.c, [](auto& t) { t.scales_bytes = 1; });
    refused("blocks", blocks.c, [](auto& t) { t.layout = "turned"; });
    refused("blocks", blocks.c, [](auto& t) { t.type = "fm.nvfp4"; });
    answer = blocks.c;
    answer.type = "block<f4e2m1, 4, scale = f8e8m0, tensor_scale = f32>";
    EXPECT_EQ(run("blocks"), TEGULA_E_IO) << "its scale is missing";
    answer.tensor_scale = &tensor_scale;
    EXPECT_EQ(run("blocks"), TEGULA_OK);
    tensor_scale = 2;
    EXPECT_EQ(run("blocks"), TEGULA_E_MISMATCH);
}

}  // namespace
