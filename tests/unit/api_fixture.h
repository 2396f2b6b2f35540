// What the tests of the C API share: an engine with a small module, and tensors over std::vector with a canary behind the data.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tegula/tegula.hpp"

namespace api_test {

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline constexpr const char* kSource = R"(edition 1;
import std.layouts;
layout panels<R: int>[i: M, j: N] = (i / R, j, i % R);
layout crowded[i: M, j: N] = (i + j,);
layout before[i: M, j: N] = (i - 1, j);
type mx = block<f4e2m1, 32, scale = f8e8m0>;
/// Adds.
kernel add<T: number, B: int = 8>(x: tensor<T>[N], y: tensor<T>[N], out z: tensor<T>[N]) grid [cdiv(N, B)] {
    let n = program_id(0) * B;
    z[n +: B] = x[n +: B] + y[n +: B];
}
kernel scaled(x: tensor<f32>[N], s: f32, out z: tensor<f32>[N]) grid [cdiv(N, 8)] {
    let n = program_id(0) * 8;
    z[n +: 8] = x[n +: 8] * s;
}
kernel matrix(x: tensor<f32>[M, N], out y: tensor<f32>[M, N]) grid [M] {
    y[program_id(0), 0 +: 16] = x[program_id(0), 0 +: 16] + 1.0;
}
kernel long_run(R: i64, out z: tensor<f32>[N]) grid [R] { z[program_id(0) * 8 +: 8] = ones<f32>[8]; }
kernel box(A: i64, B: i64, C: i64, out z: tensor<f32>[N]) grid [A, B, C] { z[(program_id(0) + program_id(1) + program_id(2)) * 8 +: 8] = ones<f32>[8]; }
kernel divide(x: tensor<i32>[N], out z: tensor<i32>[N]) grid [1] { z[0 +: 8] = 1 / x[0 +: 8]; }
kernel forever(n: i64, out z: tensor<f32>[N]) grid [1] { var i = 0; while i < n { i = i + 1; } z[0] = cast<f32>(i); }
kernel says_forever(n: i64, out z: tensor<f32>[N]) grid [2] {
    print("begins {}", program_id(0));
    var i = 0;
    while i < n { i = i + 1; }
    z[program_id(0)] = cast<f32>(i);
}
kernel counted<T: number>(n: i64, h: f16, t: T, out z: tensor<f32>[N]) grid [n] { z[program_id(0)] = cast<f32>(h) + cast<f32>(t); }
kernel talk(x: tensor<f32>[N]) grid [3] { print("program {}", program_id(0)); }
kernel wrong_inside<B: int = 4>(x: tensor<f32>[N], out z: tensor<f32>[N]) grid [1] { z[0 +: B] = x[0 +: B + 1]; }
test "good" { assert_equal(ones<f32>[3] + 1.0, full<f32>[3](2.0)); }
test "bad" { assert_equal(ones<f32>[3], zeros<f32>[3]); }
test "file" { assert_equal(load_npy("three"), full<f32>[3](3.0)); }
bench "adds" for N in {64, 128} bytes 12 * N { add(ones<f32>[N], ones<f32>[N], empty<f32>[N]); }
)";

using Diags = tegula::Ref<tegula_diags>;

inline std::string text(const Diags& diags) { return diags ? tegula_diags_text(diags.get(), 0) : ""; }

/// A tensor that owns its storage; 16 bytes of 0xA5 behind it must never change.
template <class T>
struct Owned {
    std::vector<uint8_t> bytes;
    std::vector<int64_t> extents;
    std::string type;
    size_t size;
    tegula_tensor c{};
    Owned(std::string type_name, std::vector<int64_t> shape, const std::vector<T>& values) : extents(std::move(shape)), type(std::move(type_name)) {
        size = values.size() * sizeof(T);
        bytes.assign(size + 16, 0xA5);
        if (size) std::memcpy(bytes.data(), values.data(), size);
        c.data = bytes.data();
        c.bytes = size;
        c.type = type.c_str();
        c.rank = static_cast<int32_t>(extents.size());
        c.extents = extents.data();
    }
    Owned(const Owned&) = delete;
    std::vector<T> values() const {
        for (size_t i = size; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], 0xA5) << "written behind the storage";
        std::vector<T> out(size / sizeof(T));
        if (size) std::memcpy(out.data(), bytes.data(), size);
        return out;
    }
};

inline tegula_value tensor(const tegula_tensor& t, const char* name = nullptr) {
    tegula_value v{};
    v.name = name;
    v.kind = TEGULA_TENSOR;
    v.tensor = &t;
    return v;
}
inline tegula_value integer(int64_t i, const char* name = nullptr) {
    tegula_value v{};
    v.name = name;
    v.kind = TEGULA_INT;
    v.i = i;
    return v;
}
inline tegula_value real(double r, const char* name = nullptr) {
    tegula_value v{};
    v.name = name;
    v.kind = TEGULA_REAL;
    v.r = r;
    return v;
}

class Api : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(tegula_engine_new(nullptr, engine.out(), nullptr), TEGULA_OK);
        Diags diags;
        ASSERT_EQ(tegula_module_from_source(engine.get(), "small.tile", kSource, std::strlen(kSource), module.out(), diags.out()), TEGULA_OK)
            << text(diags);
    }
    tegula_status launch(const char* kernel, const std::vector<tegula_value>& args, Diags& diags, const tegula_run_options* options = nullptr,
                         const std::vector<tegula_value>& generics = {}) {
        return tegula_launch(module.get(), kernel, generics.data(), generics.size(), args.data(), args.size(), options, diags.out());
    }
    /// `call`, cancelled `after` it began: its status, and that it came at once.
    template <class Call>
    tegula_status cancelled(std::chrono::milliseconds after, Call&& call) {
        using Clock = std::chrono::steady_clock;
        std::atomic<Clock::time_point> at{};
        std::jthread other([&] {
            std::this_thread::sleep_for(after);
            at = Clock::now();
            tegula_cancel(engine.get(), 1);
        });
        const tegula_status status = call();
        EXPECT_LT(Clock::now() - at.load(), std::chrono::seconds(2)) << "50 ms where the machine has nothing else to do, and no sanitizer";
        other.join();
        tegula_cancel(engine.get(), 0);
        return status;
    }
    tegula::Ref<tegula_engine> engine;
    tegula::Ref<tegula_module> module;
};

}  // namespace api_test
