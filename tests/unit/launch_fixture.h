// What the tests of launches share: a back end on a stand-in for the driver that keeps device memory on the host, and arguments and variants of the
// test's choice.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <functional>

#include "jit/cuda/program.h"
#include "lang/kernel/kernel_text.h"
#include "lang/ir_text.h"
#include "tests/unit/fake_cuda.h"

namespace tegula::cuda {

inline constexpr const char* kFake = TEGULA_BINARY_DIR "/tests/libfake_cuda.so";
inline constexpr std::array<uint64_t, 3> kOne = {1, 1, 1};

using Kernel = std::function<void(const FakeLaunch&)>;

class LaunchTest : public ::testing::Test {
protected:
    void SetUp() override {
        void* library = ::dlopen(kFake, RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(library, nullptr) << ::dlerror();
        fake_ = reinterpret_cast<FakeCuda* (*)()>(::dlsym(library, "fake_cuda"))();
        *fake_ = {};
        fake_->user = &kernel_;
        fake_->on_launch = [](void* user, const FakeLaunch& launch) {
            if (*static_cast<Kernel*>(user)) (*static_cast<Kernel*>(user))(launch);
        };
        BackendOptions options;
        options.driver_path = kFake;
        state_ = std::make_shared<Backend::State>(options);
        ASSERT_NE(state_->driver(), nullptr);
        ASSERT_EQ(state_->driver()->primary_context(0, &context_), 0);
    }
    void TearDown() override {
        if (!fake_) return;
        EXPECT_EQ(fake_->allocations, 0);
        EXPECT_EQ(fake_->libraries, 0);
        EXPECT_EQ(fake_->contexts, 0);
    }

    const ir::Function& parse(const std::string& text) {
        DiagSink diags;
        fn_ = ir::parse_ir(sources_, sources_.add("test", text), types_, diags);
        for (const Diagnostic& d : diags.all()) ADD_FAILURE() << render_text(d, sources_, false);
        if (!fn_) throw std::runtime_error("IR text does not parse");
        return *fn_;
    }
    TensorArg tensor(Fmt elem, void* data, uint64_t bytes, Shape extents, Memory memory = Memory::cuda) {
        TensorArg t;
        t.elem = id_of(elem);
        t.data = data;
        t.bytes = bytes;
        t.extents = extents;
        t.memory = memory;
        return t;
    }
    static Argument argument(TensorArg t) {
        Argument a;
        a.kind = Argument::tensor;
        a.t = t;
        return a;
    }
    static Argument scalar(uint64_t code) {
        Argument a;
        a.code = code;
        return a;
    }
    /// A variant as the program would make it, with a parameter list of the test's choice.
    std::shared_ptr<const Variant> variant(std::vector<KernelParam> params, std::vector<GpuTensor> traits, std::vector<TensorMap> maps = {},
                                           int64_t workspace = 0, int cluster = 1, bool persistent = false) {
        return make_variant(std::move(params), std::move(traits), std::move(maps), workspace, cluster, persistent);
    }
    std::shared_ptr<Variant> make_variant(std::vector<KernelParam> params, std::vector<GpuTensor> traits, std::vector<TensorMap> maps = {},
                                          int64_t workspace = 0, int cluster = 1, bool persistent = false) {
        auto v = std::make_shared<Variant>();
        v->fn = *fn_;
        v->traits = std::move(traits);
        v->text.params = std::move(params);
        v->text.tensor_maps = std::move(maps);
        v->text.workspace_bytes = workspace;
        v->text.cluster = cluster;
        v->text.persistent = persistent;
        v->text.threads = 256;
        v->text.shared_bytes = 100000;
        v->loaded = std::make_unique<Loaded>(*state_->driver());
        state_->driver()->cuLibraryLoadData(&v->loaded->library, "image", nullptr, nullptr, 0, nullptr, nullptr, 0);
        state_->driver()->cuLibraryGetKernel(&v->loaded->kernel, v->loaded->library, "k");
        return v;
    }
    std::string bind(BoundLaunch& launch, std::shared_ptr<const Variant> v, const std::vector<Argument>& args, std::array<uint64_t, 3> grid = kOne) {
        Addresses addresses;
        for (const Argument& a : args) addresses.push_back(reinterpret_cast<CUdeviceptr>(a.t.data));
        const ContextScope scope(*state_->driver(), context_);
        if (scope.code() != kCudaSuccess) return state_->driver()->error("cuCtxPushCurrent", scope.code());
        return launch.bind({state_, std::move(v), 0, context_, nullptr, nullptr, true}, args, addresses, grid);
    }

    FakeCuda* fake_ = nullptr;
    CUcontext context_ = nullptr;
    Kernel kernel_;
    TypeTable types_;
    SourceMap sources_;
    std::unique_ptr<ir::Function> fn_;
    std::shared_ptr<Backend::State> state_;
};

template <class T>
T value(const FakeLaunch& l, size_t i) {
    return *static_cast<T*>(l.params[i]);
}

}  // namespace tegula::cuda
