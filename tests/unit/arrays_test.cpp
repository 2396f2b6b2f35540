// Array files of the command: what NumPy and safetensors write is read, everything else is an error that names the file and the field, and an
// existing file is replaced only by a complete one.
#include "tools/arrays.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

using namespace tegula_tool;

namespace {

/// Bytes as numpy.save writes them (format version 1.0).
std::string npy(const std::string& header, const std::string& data, int version = 1) {
    std::string text = header;
    const size_t prefix = version == 1 ? 10 : 12;
    while ((prefix + text.size() + 1) % 64) text += ' ';
    text += '\n';
    std::string out = "\x93NUMPY";
    out += static_cast<char>(version);
    out += '\0';
    for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += static_cast<char>(text.size() >> (8 * i) & 255);
    return out + text + data;
}

std::string dict(const std::string& descr, const std::string& shape, const char* fortran = "False") {
    return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

std::string safetensors(const std::string& header, const std::string& data) {
    std::string out;
    for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 255);
    return out + header + data;
}

const std::string kTwelve("\1\0\0\0\2\0\0\0\3\0\0\0", 12);

class Arrays : public testing::Test {
protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "tegula_arrays_XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        directory = pattern;
    }
    void TearDown() override {
        for (const std::string& name : files()) ::unlink((directory + "/" + name).c_str());
        ::rmdir(directory.c_str());
    }
    std::vector<std::string> files() const {
        std::vector<std::string> names;
        DIR* dir = ::opendir(directory.c_str());
        while (dirent* entry = ::readdir(dir))
            if (entry->d_name[0] != '.') names.push_back(entry->d_name);
        ::closedir(dir);
        return names;
    }
    std::string put(const std::string& name, const std::string& bytes) const {
        std::ofstream(directory + "/" + name, std::ios::binary) << bytes;
        return directory + "/" + name;
    }
    static std::string get(const std::string& path) {
        std::ifstream in(path, std::ios::binary);
        std::stringstream out;
        out << in.rdbuf();
        return out.str();
    }
    std::optional<Array> read(const std::string& name, const std::string& bytes, const std::string& tensor = "") {
        error.clear();
        const std::string path = put(name, bytes);
        auto array = read_array(path, tensor, error);
        EXPECT_TRUE(array.has_value() || error.rfind(path + ": ", 0) == 0) << "the error names the file: " << error;
        for (char c : error) EXPECT_TRUE(c >= ' ' && c < 127) << "a control character reaches the terminal";
        return array;
    }
    void refused(const std::string& name, const std::string& bytes, const std::string& part, const std::string& tensor = "") {
        EXPECT_FALSE(read(name, bytes, tensor).has_value()) << part;
        EXPECT_NE(error.find(part), std::string::npos) << "`" << part << "` is not in: " << error;
    }
    std::string directory, error;
};

TEST_F(Arrays, NpyOfEveryType) {
    const std::pair<const char*, const char*> rows[] = {{"|i1", "i8"},  {"|u1", "u8"},  {"<i2", "i16"}, {"<u2", "u16"},
                                                        {"<i4", "i32"}, {"<u4", "u32"}, {"<i8", "i64"}, {"<u8", "u64"},
                                                        {"<f2", "f16"}, {"<f4", "f32"}, {"<f8", "f64"}};
    for (const auto& [descr, type] : rows) {
        const size_t bytes = static_cast<size_t>(descr[2] - '0');
        std::string data;
        for (size_t i = 0; i < 6 * bytes; ++i) data += static_cast<char>(i * 7);
        for (int version : {1, 2, 3}) {
            auto array = read("a.npy", npy(dict(descr, "(2, 3)"), data, version));
            ASSERT_TRUE(array) << error;
            EXPECT_EQ(array->type, type);
            EXPECT_EQ(array->extents, (std::vector<int64_t>{2, 3}));
            EXPECT_EQ(array->data, data);
            EXPECT_FALSE(array->column_major);
            // Written back, the file is the one numpy.save makes, spaces and order included.
            const std::string path = directory + "/b.npy";
            ASSERT_TRUE(write_array(path, "", *array, error)) << error;
            EXPECT_EQ(get(path), npy(dict(descr, "(2, 3)"), data));
        }
    }
}

/// A file with the packed tensor `w`.
std::string packed(const std::string& about, const std::string& entry = R"({"dtype":"U8","shape":[12],"data_offsets":[0,12]})",
                   const std::string& more = "") {
    std::string escaped;
    for (const char c : about) escaped += c == '"' ? "\\\"" : std::string(1, c);
    return safetensors(R"({"__metadata__":{"tegula.w":")" + escaped + R"("},"w":)" + entry + more + "}", kTwelve);
}

TEST_F(Arrays, PackedTensors) {
    const std::string about = R"({"type":"i4","extents":[4,6],"layout":"panels<4>","order":"0123456789abcdef"})";
    auto w = read("a.safetensors", packed(about));
    ASSERT_TRUE(w) << error;
    EXPECT_EQ(w->type, "i4");
    EXPECT_EQ(w->extents, (std::vector<int64_t>{4, 6}));
    EXPECT_EQ(w->layout_name(), "panels<4>");
    EXPECT_EQ(w->order, 0x0123456789abcdefu);
    EXPECT_EQ(w->data, kTwelve);
    w->scales = "abc";
    w->tensor_scale = std::string(8, 't');
    const std::string path = directory + "/b.safetensors";
    ASSERT_TRUE(write_array(path, "v", *w, error)) << error;
    auto again = read_array(path, "", error);  // scales are no tensors of their own
    ASSERT_TRUE(again) << error;
    EXPECT_EQ(again->scales, "abc");
    EXPECT_EQ(again->tensor_scale, std::string(8, 't'));
    EXPECT_EQ(again->data, kTwelve);
    EXPECT_EQ(again->order, w->order);
    EXPECT_FALSE(write_array(directory + "/b.npy", "", *w, error));

    // Truncated anywhere it is refused, or no JSON any more.
    for (size_t n = 0; n < about.size(); ++n) refused("a.safetensors", packed(about.substr(0, n)), "packed tensor `w`");
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string text = about;
        return packed(text.replace(text.find(from), from.size(), to));
    };
    refused("a.safetensors", with("\"i4\"", "4"), "field `type`");
    refused("a.safetensors", with("\"panels<4>\"", "\"\""), "field `layout`");
    for (const char* order : {"\"0123456789abcde\"", "\"0123456789abcdeg\"", "\"0000000000000000\"", "\"-123456789abcdef\"", "7"})
        refused("a.safetensors", with("\"0123456789abcdef\"", order), "field `order`");
    for (const char* extents : {"4", "[1,1,1,1,1,1,1,1,1]", "[-1]", "[1e9]", "[99999999999999999]", "[[4]]"})
        refused("a.safetensors", with("[4,6]", extents), "field `extents`");
    refused("a.safetensors", packed(std::string(1 << 16, '[')), "description");
    refused("a.safetensors", packed(about, R"({"dtype":"I32","shape":[3],"data_offsets":[0,12]})"), "row of bytes");
    refused("a.safetensors", packed(about, R"({"dtype":"U8","shape":[13],"data_offsets":[0,13]})"), "data_offsets");
    const std::string bytes = R"({"dtype":"U8","shape":[8],"data_offsets":[0,8]})", scale = R"({"dtype":"U8","shape":[4],"data_offsets":[8,12]})";
    refused("a.safetensors", packed(about, bytes, ",\"w.scales\":" + scale), "tensor_scale");
    refused("a.safetensors", packed(about, bytes, ",\"w.tensor_scale\":" + scale), "tensor_scale");
    refused("a.safetensors", packed(about, bytes, ",\"w.scales\":3"), "header");
}

TEST_F(Arrays, NpyShapesAndOrders) {
    auto scalar = read("a.npy", npy(dict("<i4", "()"), kTwelve.substr(0, 4)));
    ASSERT_TRUE(scalar) << error;
    EXPECT_TRUE(scalar->extents.empty());
    EXPECT_EQ(read("a.npy", npy(dict("<i4", "(3,)"), kTwelve))->extents, (std::vector<int64_t>{3}));
    EXPECT_EQ(read("a.npy", npy(dict("<i4", "(0, 5)"), ""))->extents, (std::vector<int64_t>{0, 5}));
    EXPECT_TRUE(read("a.npy", npy(dict("<i4", "(3, 1)", "True"), kTwelve))->column_major);
    // Keys in another order, other quotes.
    EXPECT_TRUE(read("a.npy", npy("{\"shape\": (3,), 'descr':'<i4','fortran_order':False}", kTwelve)));
    // Bools: one byte each in the file, one bit each here, a row of the last dimension starts on a byte.
    const std::string bools("\1\0\1\1\0\0\1\1\1\2\0\0\0\0\0\0\0\0\0\1", 20);
    auto packed = read("a.npy", npy(dict("|b1", "(2, 10)"), bools));
    ASSERT_TRUE(packed) << error;
    EXPECT_EQ(packed->data, std::string("\xCD\x03\x00\x02", 4));
    ASSERT_TRUE(write_array(directory + "/b.npy", "", *packed, error));
    std::string ones = bools;
    ones[9] = 1;
    EXPECT_EQ(get(directory + "/b.npy"), npy(dict("|b1", "(2, 10)"), ones));
    auto columns = read("a.npy", npy(dict("|b1", "(10, 2)", "True"), bools));
    ASSERT_TRUE(columns) << error;
    EXPECT_EQ(columns->data, packed->data) << "columns of ten";
}

TEST_F(Arrays, NpyTruncatedAnywhere) {
    const std::string whole = npy(dict("<i4", "(3,)"), kTwelve);
    for (size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(read("a.npy", whole.substr(0, n))) << n;
    EXPECT_TRUE(read("a.npy", whole));
    refused("a.npy", whole + "x", "shape");
}

TEST_F(Arrays, NpyHostileHeaders) {
    refused("a.npy", "PK\3\4 something else entirely", "magic");
    refused("a.npy", npy(dict("<i4", "(3,)"), kTwelve, 9), "version");
    refused("a.npy", npy(dict(">i4", "(3,)"), kTwelve), "`>` is not little-endian");
    for (const char* descr : {"", "<", "<i", "<i3", "<c8", "|O", "<U4", "|S12", "<i44", "<M8[ns]"})
        refused("a.npy", npy(dict(descr, "(3,)"), kTwelve), "descr");
    refused("a.npy", npy(dict("\x1b[31m", "(3,)"), kTwelve), "descr");
    for (const char* shape : {"(-1,)", "(3", "3", "[3]", "(3.0,)", "(3L,)", "(1,1,1,1,1,1,1,1,3)", "(99999999999999999999,)", "(,)", "None"})
        refused("a.npy", npy(dict("<i4", shape), kTwelve), "shape");
    for (const char* shape : {"(4294967296, 4294967296, 4294967296)", "(9223372036854775807,)", "(1099511627776,)"})
        refused("a.npy", npy(dict("<i4", shape), kTwelve), "too large");
    refused("a.npy", npy(dict("<i4", "(3,)", "Maybe"), kTwelve), "fortran_order");
    refused("a.npy", npy("{'descr': '<i4', 'shape': (3,)}", kTwelve), "fortran_order");
    refused("a.npy", npy("{'fortran_order': False, 'shape': (3,)}", kTwelve), "descr");
    refused("a.npy", npy("{'descr': '<i4', 'fortran_order': False}", kTwelve), "shape");
    refused("a.npy", npy("{'descr': __import__('os').system('true')}", kTwelve), "descr");
    refused("a.npy", npy("", kTwelve), "header");
    refused("a.npy", std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12), "header length");
}

TEST_F(Arrays, Safetensors) {
    const std::string header =
        R"({"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},"b":{"dtype":"BOOL","shape":[3],"data_offsets":[12,15]}})";
    const std::string file = safetensors(header, kTwelve + std::string("\1\0\1", 3));
    auto w = read("a.safetensors", file, "w");
    ASSERT_TRUE(w) << error;
    EXPECT_EQ(w->type, "bf16");
    EXPECT_EQ(w->extents, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(w->data, kTwelve);
    EXPECT_EQ(read("a.safetensors", file, "b")->data, "\5");
    refused("a.safetensors", file, "several tensors, name one with #NAME: b, w");
    refused("a.safetensors", file, "no tensor `x`", "x");
    refused("a.safetensors", file, "no tensor", "__metadata__");
    for (const auto& [name, type] : {std::pair("F8_E4M3", "f8e4m3"), std::pair("F8_E5M2", "f8e5m2"), std::pair("I8", "i8")}) {
        auto one =
            read("a.safetensors", safetensors("{\"t\":{\"dtype\":\"" + std::string(name) + "\",\"shape\":[12],\"data_offsets\":[0,12]}}", kTwelve));
        ASSERT_TRUE(one) << error;
        EXPECT_EQ(one->type, type);
    }
    for (size_t n = 0; n < 8 + header.size() + 12; ++n) EXPECT_FALSE(read("a.safetensors", file.substr(0, n), "w")) << n;
    // bf16 has no .npy type; safetensors takes it and gives it back.
    EXPECT_FALSE(write_array(directory + "/w.npy", "", *w, error));
    EXPECT_NE(error.find("w.npy"), std::string::npos);
    ASSERT_TRUE(write_array(directory + "/w.safetensors", "w", *w, error)) << error;
    auto again = read_array(directory + "/w.safetensors", "w", error);
    ASSERT_TRUE(again) << error;
    EXPECT_EQ(again->data, w->data);
    EXPECT_EQ(again->type, "bf16");
}

TEST_F(Arrays, SafetensorsHostileHeaders) {
    const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
        return safetensors("{\"t\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}", kTwelve);
    };
    EXPECT_TRUE(read("a.safetensors", entry("\"I32\"", "[3]", "[0,12]")));
    for (const char* dtype : {"\"I33\"", "3", "null", "\"\"", "\"\\u001b[31m\""}) refused("a.safetensors", entry(dtype, "[3]", "[0,12]"), "dtype");
    for (const char* shape :
         {"[-3]", "[3.0]", "3", "null", "[[3]]", "[1,1,1,1,1,1,1,1,3]", "[18446744073709551615]", "[4294967296,4294967296]", "[\"3\"]"})
        refused("a.safetensors", entry("\"I32\"", shape, "[0,12]"), "shape");
    for (const char* offsets :
         {"[0]", "[0,12,24]", "[-12,0]", "[12,0]", "[0,11]", "[1,13]", "[18446744073709551604,0]", "[0,18446744073709551615]", "null", "{}"})
        refused("a.safetensors", entry("\"I32\"", "[3]", offsets), "data_offsets");
    for (const char* json : {"", "[]", "{", "null", "{\"t\":", "{}x", "{\"t\":1}", "{}"})
        EXPECT_FALSE(read("a.safetensors", safetensors(json, kTwelve))) << json;
    refused("a.safetensors", safetensors(std::string(1 << 20, '['), ""), "JSON");
    std::string deep;
    for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
    refused("a.safetensors", safetensors(deep, ""), "JSON");
    refused("a.safetensors", std::string(8, '\xff') + "{}", "header length");
    refused("a.safetensors", safetensors("{\"\xff\":{}}", ""), "JSON");
}

TEST_F(Arrays, SafetensorsThatOthersReadDifferently) {
    const auto entry = [](const char* name, int begin, int end) {
        return "\"" + std::string(name) + "\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(end - begin) + "],\"data_offsets\":[" +
               std::to_string(begin) + "," + std::to_string(end) + "]}";
    };
    const auto file = [](const std::string& members) { return safetensors("{" + members + "}", kTwelve); };
    refused("a.safetensors", file(entry("w", 0, 6) + "," + entry("w", 6, 12)), "has `w` twice", "w");
    refused("a.safetensors", file(R"("w":{"dtype":"U8","dtype":"I8","shape":[12],"data_offsets":[0,12]})"), "has `dtype` twice", "w");
    refused("a.safetensors", file(R"("__metadata__":{"k\u001b":"1","k\u001b":"2"},)" + entry("w", 0, 12)), "has `k?` twice", "w");
    EXPECT_TRUE(read("a.safetensors", file(R"("__metadata__":{"dtype":"1"},)" + entry("w", 0, 12)), "w")) << "names of different objects";
    refused("a.safetensors", file(entry("a", 0, 7) + "," + entry("b", 6, 12) + "," + entry("w", 0, 0)), "`a` and `b` overlap", "w");
    refused("a.safetensors", file(entry("a", 0, 12) + "," + entry("b", 3, 5)), "overlap", "a");
    for (const std::string& members : {entry("a", 1, 12), entry("a", 0, 11), entry("a", 0, 5) + "," + entry("b", 6, 12), entry("a", 3, 3)})
        refused("a.safetensors", file(members), "belong to no tensor", "a");
    EXPECT_TRUE(read("a.safetensors", file(entry("a", 0, 6) + "," + entry("b", 6, 6) + "," + entry("c", 6, 12)), "c")) << error;
    refused("a.safetensors", file(entry("a", 0, 6) + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[12,13]})"), "data_offsets", "a");
    for (const char* metadata : {"[]", "null", "3", "\"text\""})
        refused("a.safetensors", file("\"__metadata__\":" + std::string(metadata) + "," + entry("w", 0, 12)), "`__metadata__`", "w");
    refused("a.safetensors", file(R"("__metadata__":{"k":1},)" + entry("w", 0, 12)), "`k` is no string", "w");
}

TEST_F(Arrays, SafetensorsOfEveryType) {
    struct Row {
        const char *dtype, *type;
        unsigned bits;
    };
    constexpr Row kRows[] = {{"BOOL", "bool", 8},
                             {"F4", "f4e2m1", 4},
                             {"F6_E2M3", "f6e2m3", 6},
                             {"F6_E3M2", "f6e3m2", 6},
                             {"U8", "u8", 8},
                             {"I8", "i8", 8},
                             {"F8_E5M2", "f8e5m2", 8},
                             {"F8_E4M3", "f8e4m3", 8},
                             {"F8_E8M0", "f8e8m0", 8},
                             {"F8_E4M3FNUZ", "f8e4m3fnuz", 8},
                             {"F8_E5M2FNUZ", "f8e5m2fnuz", 8},
                             {"I16", "i16", 16},
                             {"U16", "u16", 16},
                             {"F16", "f16", 16},
                             {"BF16", "bf16", 16},
                             {"I32", "i32", 32},
                             {"U32", "u32", 32},
                             {"F32", "f32", 32},
                             {"F64", "f64", 64},
                             {"I64", "i64", 64},
                             {"U64", "u64", 64}};
    for (const Row& row : kRows) {
        // 4 x 5: rows of 20 and 30 bits, which follow one another in the file and start on bytes here.
        std::string data;
        for (unsigned i = 0; i < 20 * row.bits / 8; ++i) data += static_cast<char>(row.type == std::string("bool") ? i % 3 == 0 : i * 37 + 11);
        const std::string file = safetensors(
            "{\"t\":{\"dtype\":\"" + std::string(row.dtype) + "\",\"shape\":[4,5],\"data_offsets\":[0," + std::to_string(data.size()) + "]}}", data);
        auto array = read("a.safetensors", file);
        ASSERT_TRUE(array) << error;
        EXPECT_EQ(array->type, row.type);
        if (row.bits < 8) {
            const auto bit = [](const std::string& bytes, size_t at) { return static_cast<unsigned char>(bytes[at / 8]) >> (at % 8) & 1; };
            const size_t width = 5 * row.bits, padded = (width + 7) / 8 * 8;
            ASSERT_EQ(array->data.size(), 4 * padded / 8);
            for (size_t r = 0; r < 4; ++r)
                for (size_t i = 0; i < padded; ++i)
                    ASSERT_EQ(bit(array->data, r * padded + i), i < width ? bit(data, r * width + i) : 0) << row.dtype << " " << r << " " << i;
        }
        ASSERT_TRUE(write_array(directory + "/b.safetensors", "t", *array, error)) << error;
        auto again = read_array(directory + "/b.safetensors", "t", error);
        ASSERT_TRUE(again) << error;
        EXPECT_EQ(again->data, array->data) << row.dtype;
        EXPECT_EQ(get(directory + "/b.safetensors").substr(get(directory + "/b.safetensors").size() - data.size()), data) << row.dtype;
    }
    auto complex = read("a.safetensors", safetensors(R"({"t":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})", kTwelve.substr(0, 8)));
    ASSERT_TRUE(complex) << error;
    EXPECT_EQ(complex->type, "f32");
    EXPECT_EQ(complex->extents, (std::vector<int64_t>{1, 2}));
    const auto entry = [](const char* dtype, const char* shape) {
        return safetensors(R"({"t":{"dtype":")" + std::string(dtype) + R"(","shape":)" + shape + R"(,"data_offsets":[0,12]}})", kTwelve);
    };
    refused("a.safetensors", entry("F4", "[23]"), "does not fill whole bytes (field `shape`)");
    refused("a.safetensors", entry("F6_E2M3", "[3,5]"), "does not fill whole bytes (field `shape`)");
    refused("a.safetensors", entry("F4", "[25,2]"), "data_offsets");
    refused("a.safetensors", entry("F6_E3M2", "[4294967296,4294967296]"), "too large (field `shape`)");
    refused("a.safetensors", entry("C64", "[1,1,1,1,1,1,1,1]"), "complex");
    EXPECT_FALSE(has_dtype("f4e2m1", {3}, true));
    EXPECT_TRUE(has_dtype("f4e2m1", {3, 2}, true));
}

TEST_F(Arrays, ModelsInSeveralFiles) {
    const auto one = [](const char* name) {
        return safetensors("{\"" + std::string(name) + R"(":{"dtype":"I32","shape":[3],"data_offsets":[0,12]}})", kTwelve);
    };
    const auto index = [&](const std::string& map) {
        return put("model.safetensors.index.json", "{\"metadata\":{\"total_size\":24},\"weight_map\":" + map + "}");
    };
    const auto wrong = [&](const std::string& path, const std::string& name, const std::string& part, Access access = Access::line) {
        EXPECT_FALSE(read_array(path, name, error, access));
        EXPECT_NE(error.find(part), std::string::npos) << "`" << part << "` is not in: " << error;
        for (char c : error) EXPECT_TRUE(c >= ' ' && c < 127) << error;
    };
    wrong(directory, "a", "is a directory, and has no .safetensors files");
    put("model-1.safetensors", one("a"));
    put("model-2.safetensors", one("b"));
    // A directory without an index, by the headers; with one; the index itself.
    ASSERT_TRUE(read_array(directory, "b", error)) << error;
    wrong(directory, "", "several tensors, name one with #NAME: a, b");
    wrong(directory, "c", "no tensor `c`; it has: a, b");
    put("model-3.safetensors", one("b"));
    wrong(directory, "b", "tensor `b` is in model-2.safetensors and in model-3.safetensors");
    std::string path = index(R"({"a":"model-1.safetensors","b":"model-3.safetensors"})");
    for (const std::string& from : {path, directory, directory + "/"}) {
        auto array = read_array(from, "b", error);
        ASSERT_TRUE(array) << error;
        EXPECT_EQ(array->data, kTwelve);
    }
    wrong(path, "c", "no tensor `c`; it has: a, b");
    wrong(directory, "b", "is a directory", Access::confined);
    index(R"({"a":"model-2.safetensors"})");
    wrong(path, "", "model-2.safetensors: no tensor `a`; it has: b");
    index(R"({"a":"gone.safetensors"})");
    wrong(path, "a", "gone.safetensors: No such file");
    for (const char* name :
         {"\"../model-1.safetensors\"", "\"/etc/passwd\"", "\"\"", "\"..\"", "\"x/y.safetensors\"", "\"model-1.npy\"", "3", "null", "{}"}) {
        index("{\"\\u001ba\":" + std::string(name) + "}");
        wrong(path, "a", "field `weight_map`");
    }
    index("[]");
    wrong(path, "a", "field `weight_map`");
    index(R"({"a":"model-1.safetensors","a":"model-2.safetensors"})");
    wrong(path, "a", "has `a` twice");
    put("model.safetensors.index.json", std::string(1 << 20, '['));
    wrong(path, "a", "is not a JSON object");
    put("model.safetensors.index.json", "");
    wrong(path, "a", "is not a JSON object");
    // Confined text is not led elsewhere.
    ASSERT_EQ(::symlink((directory + "/model-1.safetensors").c_str(), (directory + "/link.safetensors").c_str()), 0);
    index(R"({"a":"link.safetensors"})");
    EXPECT_TRUE(read_array(path, "a", error)) << error;
    wrong(path, "a", "symbolic links are not followed", Access::confined);
    put("other.safetensors.index.json", "{}");
    wrong(directory, "a", "several indices, name one: model.safetensors.index.json, other.safetensors.index.json");
}

/// A ZIP archive of stored members as numpy.savez writes it, with the numbers of the first list entry changed by `change`.
std::string npz(const std::vector<std::pair<std::string, std::string>>& members, const std::function<void(std::string&)>& change = {}) {
    const auto number = [](uint64_t v, int bytes) {
        std::string out;
        for (int i = 0; i < bytes; ++i) out += static_cast<char>(v >> (8 * i) & 255);
        return out;
    };
    std::string data, list;
    for (const auto& [name, bytes] : members) {
        const std::string sum = number(::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())), 4);
        const std::string size = number(bytes.size(), 4), lengths = number(name.size(), 2);
        std::string entry = "PK\1\2" + number(20, 2) + number(20, 2) + number(0, 2) + number(0, 2) + number(0, 4) + sum + size + size + lengths +
                            number(0, 2) + number(0, 2) + number(0, 2) + number(0, 2) + number(0, 4) + number(data.size(), 4) + name;
        if (change && list.empty()) change(entry);
        list += entry;
        data += "PK\3\4" + number(20, 2) + number(0, 2) + number(0, 2) + number(0, 4) + sum + size + size + lengths + number(0, 2) + name + bytes;
    }
    return data + list + "PK\5\6" + number(0, 4) + number(members.size(), 2) + number(members.size(), 2) + number(list.size(), 4) +
           number(data.size(), 4) + number(0, 2);
}

TEST_F(Arrays, ArchivesOfArrays) {
    const std::string one = npy(dict("<i4", "(3,)"), kTwelve), two = npy(dict("<i2", "(6,)"), kTwelve);
    const std::string whole = npz({{"a.npy", one}, {"b.npy", two}});
    auto array = read("a.npz", whole, "b");
    ASSERT_TRUE(array) << error;
    EXPECT_EQ(array->type, "i16");
    EXPECT_EQ(array->data, kTwelve);
    EXPECT_TRUE(read("a.npz", npz({{"a.npy", one}}))) << error;
    refused("a.npz", whole, "several arrays, name one with #NAME: a, b");
    refused("a.npz", whole, "no array `c`; it has: a, b", "c");
    refused("a.npz", npz({{"a.npy", one}, {"a.npy", two}}), "several arrays `a`", "a");
    refused("a.npz", npz({{"\x1b.npy", "text"}}), "magic");
    for (size_t n = 0; n < whole.size(); n += 7) EXPECT_FALSE(read("a.npz", whole.substr(0, n), "a")) << n;
    const auto with = [&](size_t at, const std::string& bytes) {
        return npz({{"a.npy", one}}, [&](std::string& entry) { entry.replace(at, bytes.size(), bytes); });
    };
    refused("a.npz", with(8, "\1"), "encrypted");
    refused("a.npz", with(10, "\14"), "method 12");
    refused("a.npz", with(10, "\10"), "damaged");  // deflated, which it is not
    refused("a.npz", with(16, "\1\2\3\4"), "crc-32");
    refused("a.npz", with(20, "\xfe\xff\xff\xff"), "lies outside");
    refused("a.npz", with(24, "\1"), "size");
    refused("a.npz", with(42, "\xfe\xff\xff\xff"), "lies outside");
    refused("a.npz", with(42, "\1"), "does not begin");
    refused("a.npz", with(28, "\xff\xff"), "directory");
    refused("a.npz", with(20, "\xff\xff\xff\xff"), "lies outside");
    refused("a.npz", with(0, "XX"), "directory");
    refused("a.npz", npz({{"a.npy", one}}, [](std::string& entry) { entry.replace(10, 1, "\10").replace(24, 4, "\xfe\xff\xff\xff"); }),
            "shorter than");
    refused("a.npz", "PK\3\4", "no list of members");
}

TEST_F(Arrays, SparseFilesAreNotReadWhole) {
    // 256 GiB of nothing behind a small tensor, and behind a header that promises them.
    constexpr off_t kMuch = off_t{1} << 38;
    const std::string whole = safetensors(R"({"t":{"dtype":"I32","shape":[3],"data_offsets":[0,12]},"much":{"dtype":"U8","shape":[)" +
                                              std::to_string(kMuch) + R"(],"data_offsets":[12,)" + std::to_string(12 + kMuch) + "]}}",
                                          kTwelve);
    const std::string path = put("big.safetensors", whole);
    if (::truncate(path.c_str(), static_cast<off_t>(whole.size()) + kMuch) != 0) GTEST_SKIP() << "no sparse files here";
    auto array = read_array(path, "t", error);
    ASSERT_TRUE(array) << error;
    EXPECT_EQ(array->data, kTwelve);
    const std::string zeros = put("big.npy", npy(dict("|i1", "(274877906944,)"), ""));
    ASSERT_EQ(::truncate(zeros.c_str(), (off_t{1} << 38) + 128), 0);
    EXPECT_FALSE(read_array(zeros, "", error));
    EXPECT_NE(error.find("too large"), std::string::npos) << error;
}

TEST_F(Arrays, OutputsAreReplacedWholeOrNotAtAll) {
    const Array array{"i32", {3}, false, kTwelve};
    const std::string path = put("y.npy", "precious");
    ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
    // A type that cannot be written, and a directory that cannot take a file.
    EXPECT_FALSE(write_array(path, "", Array{"i3", {3}, false, "ab"}, error));
    EXPECT_EQ(get(path), "precious");
    EXPECT_FALSE(write_array(directory + "/none/y.npy", "", array, error));
    EXPECT_NE(error.find("/none/y.npy: "), std::string::npos);
    // The temporary file's name is taken: the old file stays.
    const std::string part = put("y.npy.part" + std::to_string(::getpid()), "other");
    EXPECT_FALSE(write_array(path, "", array, error));
    EXPECT_EQ(get(path), "precious");
    EXPECT_EQ(get(part), "other") << "not ours to remove";
    ::unlink(part.c_str());
    ASSERT_TRUE(write_array(path, "", array, error)) << error;
    EXPECT_EQ(get(path), npy(dict("<i4", "(3,)"), kTwelve));
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u) << "keeps who may read it";
    EXPECT_EQ(files().size(), 1u) << "nothing else is left behind";
    // A link stays one.
    ASSERT_EQ(::symlink(path.c_str(), (directory + "/link.npy").c_str()), 0);
    ASSERT_TRUE(write_array(directory + "/link.npy", "", Array{"i32", {1}, false, kTwelve.substr(0, 4)}, error)) << error;
    ASSERT_EQ(::lstat((directory + "/link.npy").c_str(), &info), 0);
    EXPECT_TRUE(S_ISLNK(info.st_mode));
    EXPECT_EQ(get(path), npy(dict("<i4", "(1,)"), kTwelve.substr(0, 4)));
}

TEST_F(Arrays, AKilledWriterLeavesNothingBehind) {
    const std::string path = put("y.npy", "precious");
    const pid_t child = ::fork();
    if (child == 0) {
        const rlimit limit{1 << 16, 1 << 16};
        ::setrlimit(RLIMIT_FSIZE, &limit);  // SIGXFSZ ends the process in the midst of the data
        std::string why;
        write_file(path, std::string(1 << 20, 'x'), why);
        ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(get(path), "precious");
    const int unnamed = ::open(directory.c_str(), O_WRONLY | O_TMPFILE, 0600);
    if (unnamed < 0) GTEST_SKIP() << "no unnamed files here";
    ::close(unnamed);
    EXPECT_EQ(files(), std::vector<std::string>{"y.npy"});
}

TEST_F(Arrays, Devices) {
    const Array array{"i32", {3}, false, kTwelve};
    EXPECT_TRUE(write_file("/dev/null", "x", error));
    EXPECT_FALSE(write_array("/dev/full", "", array, error));
    EXPECT_EQ(error.rfind("/dev/full: ", 0), 0u) << error;
    struct stat info {};
    ASSERT_EQ(::stat("/dev/full", &info), 0);
    EXPECT_TRUE(S_ISCHR(info.st_mode)) << "the device was replaced";
    EXPECT_FALSE(read_array("/dev/null", "", error));
    EXPECT_FALSE(read_array(directory, "", error));
    EXPECT_FALSE(read_array(directory + "/missing.npy", "", error));
    EXPECT_FALSE(write_file("-", "x", error));
    EXPECT_NE(error.find("/dev/stdout"), std::string::npos);
    EXPECT_NE(::access("-", F_OK), 0);
    EXPECT_FALSE(read_file("/dev/zero", 1000, error));
    EXPECT_NE(error.find("too large"), std::string::npos);
}

}  // namespace
