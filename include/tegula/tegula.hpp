// C++20 face of tegula.h: owning handles, Result values, no exceptions unless you ask for them with value(). Header-only; the C ABI is the ABI.
//
//   auto engine = tegula::Engine::create().value();
//   auto module = engine.load_file("softmax.tile").value();
//   tegula::Tensor x(in.data(), {7, 781}), y(out.data(), {7, 781});
//   module.launch("softmax", {{"BLOCK", 1024}}, {x, y}).value();
#pragma once

#include <chrono>
#include <cstring>
#include <future>
#include <initializer_list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tegula/tegula.h"

#ifndef __cpp_lib_span
#error "tegula.hpp needs C++20 (-std=c++20)"
#endif

namespace tegula {
inline namespace api {

/// Thrown by Result::value() only.
struct Error : std::runtime_error {
    Error(tegula_status status, const std::string& text) : std::runtime_error(text), status(status) {}
    tegula_status status;
};

/// A counted reference to any handle of tegula.h.
template <class T>
class Ref {
public:
    Ref() = default;
    explicit Ref(T* owned) : handle_(owned) {}
    Ref(const Ref& other) : handle_(other.handle_) { tegula_retain(handle_); }
    Ref(Ref&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Ref& operator=(Ref other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Ref() { tegula_release(handle_); }
    T* get() const { return handle_; }
    explicit operator bool() const { return handle_ != nullptr; }
    /// For out-parameters: releases what is held first.
    T** out() {
        tegula_release(std::exchange(handle_, nullptr));
        return &handle_;
    }

private:
    T* handle_ = nullptr;
};

/// Errors and warnings of one call.
class Diagnostics {
public:
    Diagnostics() = default;
    explicit Diagnostics(Ref<tegula_diags> diags) : diags_(std::move(diags)) {}
    /// An error of this wrapper, in plain words: no quotes, backslashes or control characters.
    explicit Diagnostics(std::string own) : own_(std::move(own)) {}
    size_t size() const { return tegula_diags_count(diags_.get()) + !own_.empty(); }
    bool empty() const { return size() == 0; }
    std::string text(bool colour = false) const {
        if (!own_.empty()) return "error: " + own_ + "\n";
        return diags_ ? tegula_diags_text(diags_.get(), colour) : "";
    }
    /// One JSON object per line.
    std::string json() const {
        if (!own_.empty())
            return "{\"schema\":1,\"level\":\"error\",\"code\":\"\",\"message\":\"" + own_ + "\",\"spans\":[],\"notes\":[],\"fixes\":[]}\n";
        return diags_ ? tegula_diags_json(diags_.get()) : "";
    }

private:
    Ref<tegula_diags> diags_;
    std::string own_;
};

struct Unit {};

/// A value or an error, with diagnostics either way.
template <class T>
class [[nodiscard]] Result {
public:
    Result(tegula_status status, Diagnostics diagnostics, T value = {})
        : status_(status), diagnostics_(std::move(diagnostics)), value_(std::move(value)) {}
    explicit operator bool() const { return status_ == TEGULA_OK; }
    tegula_status status() const { return status_; }
    const Diagnostics& diagnostics() const { return diagnostics_; }
    /// The value; throws Error when there is none.
    T& value() & {
        check();
        return value_;
    }
    T value() && {
        check();
        return std::move(value_);
    }

    /// What there is of it beside an error: of tests, what ran.
    const T& partial() const { return value_; }

private:
    void check() const {
        if (status_ != TEGULA_OK) throw Error(status_, diagnostics_.empty() ? "tegula: error " + std::to_string(status_) : diagnostics_.text());
    }
    tegula_status status_;
    Diagnostics diagnostics_;
    T value_;
};

/// The language's name of a C++ arithmetic type.
template <class T>
constexpr const char* type_name() {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, float>)
        return "f32";
    else if constexpr (std::is_same_v<U, double>)
        return "f64";
    else {
        static_assert(std::is_integral_v<U> && !std::is_same_v<U, bool>, "give the type's name: Tensor(data, bytes, \"bf16\", extents)");
        constexpr const char* kNames[2][4] = {{"u8", "u16", "u32", "u64"}, {"i8", "i16", "i32", "i64"}};
        return kNames[std::is_signed_v<U>][sizeof(U) == 1 ? 0 : sizeof(U) == 2 ? 1 : sizeof(U) == 4 ? 2 : 3];
    }
}

/// Borrowed memory of the host (or a device) with type, extents and layout. Constness is not carried: `in` parameters are never written.
class Tensor {
public:
    Tensor() = default;
    template <class T>
    Tensor(T* data, std::vector<int64_t> extents) : Tensor(const_cast<std::remove_cv_t<T>*>(data), 0, type_name<T>(), std::move(extents)) {
        bytes_ = sizeof(T);
        for (int64_t e : extents_) bytes_ *= static_cast<size_t>(e);
    }
    Tensor(void* data, size_t bytes, std::string type, std::vector<int64_t> extents)
        : data_(data), bytes_(bytes), type_(std::move(type)), extents_(std::move(extents)) {}
    /// A vector, or with extents what those say of it: checked against the size of the span.
    template <class T>
    explicit Tensor(std::span<T> data) : Tensor(data, {static_cast<int64_t>(data.size())}) {}
    template <class T>
    Tensor(std::span<T> data, std::vector<int64_t> extents)
        : Tensor(const_cast<std::remove_cv_t<T>*>(data.data()), data.size_bytes(), type_name<T>(), std::move(extents)) {}
    /// As the C ABI describes it; copies names, extents and strides.
    explicit Tensor(const tegula_tensor& t)
        : data_(t.data),
          bytes_(t.bytes),
          type_(t.type ? t.type : ""),
          layout_(t.layout ? t.layout : ""),
          layout_hash_(t.layout_hash),
          extents_(t.extents, t.extents + t.rank),
          scales_(t.scales),
          scales_bytes_(t.scales_bytes),
          tensor_scale_(t.tensor_scale),
          cuda_(t.device_type == TEGULA_CUDA),
          device_(t.device_id) {
        if (t.strides) strides_.assign(t.strides, t.strides + t.rank);
    }
    /// `hash`: of the order that the data was packed in, where that is known.
    Tensor& layout(std::string name, uint64_t hash = 0) {
        layout_ = std::move(name);
        layout_hash_ = hash;
        return *this;
    }
    /// The data lie in the memory of a CUDA device.
    Tensor& on_cuda(int device) {
        cuda_ = true;
        device_ = device;
        return *this;
    }
    /// In elements; `bytes` is then the size of the whole storage.
    Tensor& strides(std::vector<int64_t> strides, size_t bytes) {
        strides_ = std::move(strides);
        bytes_ = bytes;
        return *this;
    }
    Tensor& scales(void* data, size_t bytes, void* tensor_scale = nullptr) {
        scales_ = data;
        scales_bytes_ = bytes;
        tensor_scale_ = tensor_scale;
        return *this;
    }
    /// A view that points into this object.
    tegula_tensor c() const {
        tegula_tensor t{};
        t.data = data_;
        t.bytes = bytes_;
        t.type = type_.c_str();
        t.rank = static_cast<int32_t>(extents_.size());
        t.extents = extents_.data();
        t.strides = strides_.empty() ? nullptr : strides_.data();
        t.layout = layout_.empty() ? nullptr : layout_.c_str();
        t.scales = scales_;
        t.scales_bytes = scales_bytes_;
        t.tensor_scale = tensor_scale_;
        t.layout_hash = layout_hash_;
        t.device_type = cuda_ ? TEGULA_CUDA : TEGULA_HOST;
        t.device_id = device_;
        return t;
    }

private:
    void* data_ = nullptr;
    size_t bytes_ = 0;
    std::string type_, layout_;
    uint64_t layout_hash_ = 0;
    std::vector<int64_t> extents_, strides_;
    void* scales_ = nullptr;
    size_t scales_bytes_ = 0;
    void* tensor_scale_ = nullptr;
    bool cuda_ = false;
    int device_ = 0;
};

/// A generic or a launch argument: integer, real, type name or tensor.
class Value {
public:
    template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
    Value(T v) : kind_(std::is_unsigned_v<T> && sizeof(T) == 8 ? TEGULA_UINT : TEGULA_INT), i_(static_cast<int64_t>(v)) {}
    template <class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
    Value(T v) : kind_(TEGULA_REAL), r_(static_cast<double>(v)) {}
    Value(std::string type) : kind_(TEGULA_TYPE), type_(std::move(type)) {}
    Value(const char* type) : Value(std::string(type)) {}
    Value(Tensor tensor) : kind_(TEGULA_TENSOR), tensor_(std::move(tensor)) {}

private:
    friend class Values;
    tegula_value_kind kind_;
    int64_t i_ = 0;
    double r_ = 0;
    std::string type_;
    Tensor tensor_;
};
using NamedValue = std::pair<std::string, Value>;

/// The C form of a list of values; borrows from it.
class Values {
public:
    explicit Values(std::span<const NamedValue> values) {
        tensors_.reserve(values.size());
        for (const auto& [name, value] : values) add(name.empty() ? nullptr : name.c_str(), value);
    }
    explicit Values(std::span<const Value> values) {
        tensors_.reserve(values.size());
        for (const Value& value : values) add(nullptr, value);
    }
    Values(const Values&) = delete;  // values_ points into tensors_
    Values& operator=(const Values&) = delete;
    const tegula_value* data() const { return values_.data(); }
    size_t size() const { return values_.size(); }

private:
    void add(const char* name, const Value& value) {
        tegula_value v{name, value.kind_, value.i_, value.r_, value.type_.c_str(), nullptr};
        if (value.kind_ == TEGULA_TENSOR) {
            tensors_.push_back(value.tensor_.c());
            v.tensor = &tensors_.back();
        }
        values_.push_back(v);
    }
    std::vector<tegula_value> values_;
    std::vector<tegula_tensor> tensors_;
};

/// Run options with defaults; set fields directly.
struct RunOptions : tegula_run_options {
    RunOptions() { tegula_run_options_init(this, sizeof(tegula_run_options)); }
};

/// Of Module::tune.
struct TuneOptions : tegula_tune_options {
    TuneOptions() { tegula_tune_options_init(this, sizeof(tegula_tune_options)); }
};

namespace detail {
inline std::vector<NamedValue> by_position(std::initializer_list<Value> args) {
    std::vector<NamedValue> named;
    for (const Value& value : args) named.emplace_back(std::string(), value);
    return named;
}
inline std::string take_blob(Ref<tegula_blob> blob) {
    size_t size = 0;
    const char* data = tegula_blob_data(blob.get(), &size);
    return std::string(data ? data : "", size);
}
template <class Fn>
Result<std::string> text(Fn&& fn) {
    Ref<tegula_blob> blob;
    Ref<tegula_diags> diags;
    tegula_status status = fn(blob.out(), diags.out());
    return {status, Diagnostics(std::move(diags)), take_blob(std::move(blob))};
}
}  // namespace detail

class Kernel {
public:
    Kernel() = default;
    explicit Kernel(Ref<tegula_kernel> handle) : handle_(std::move(handle)) {}
    Result<Unit> launch(std::span<const Value> args, const RunOptions& options = {}) const {
        Ref<tegula_diags> diags;
        Values values(args);
        tegula_status status = tegula_kernel_launch(handle_.get(), values.data(), values.size(), &options, diags.out());
        return {status, Diagnostics(std::move(diags))};
    }
    Result<Unit> launch(std::initializer_list<Value> args, const RunOptions& options = {}) const {
        return launch(std::span<const Value>(args.begin(), args.size()), options);
    }
    /// "ir", "ir:after=PASS", "ir:final", "explain", "explain-json", "json".
    Result<std::string> artifact(const std::string& kind) const {
        return detail::text([&](auto** blob, auto** diags) { return tegula_kernel_artifact(handle_.get(), kind.c_str(), blob, diags); });
    }
    tegula_kernel* c() const { return handle_.get(); }

private:
    Ref<tegula_kernel> handle_;
};

/// A launch with fixed arguments in device memory, ready to be enqueued many times.
class Prepared {
public:
    Prepared() = default;
    explicit Prepared(Ref<tegula_prepared> handle) : handle_(std::move(handle)) {}
    /// On a GPU one driver call on a CUstream (null: the default stream); elsewhere the run itself.
    tegula_status enqueue(void* stream = nullptr) const { return tegula_enqueue(handle_.get(), stream); }
    /// Other arguments, by name or position; parameters that are not mentioned keep theirs.
    Result<Unit> rebind(std::span<const NamedValue> args) {
        Ref<tegula_diags> diags;
        Values values(args);
        tegula_status status = tegula_rebind(handle_.get(), values.data(), values.size(), diags.out());
        return {status, Diagnostics(std::move(diags))};
    }
    Result<Unit> rebind(std::initializer_list<NamedValue> args) { return rebind(std::span<const NamedValue>(args.begin(), args.size())); }
    /// Waits for the stream; what the launches printed and reported.
    Result<Unit> collect(void* stream = nullptr, const RunOptions& options = {}) const {
        Ref<tegula_diags> diags;
        tegula_status status = tegula_collect(handle_.get(), stream, &options, diags.out());
        return {status, Diagnostics(std::move(diags))};
    }
    tegula_prepared* c() const { return handle_.get(); }

private:
    Ref<tegula_prepared> handle_;
};

/// What became of a `test` or `bench` block.
struct TestResult {
    std::string name;
    tegula_status status = TEGULA_OK;
    double seconds = 0;   ///< benches: of the launches, median
    std::string metrics;  ///< benches: a JSON object; else empty
    Diagnostics diagnostics;
};

/// A launch that is being prepared in the background.
class Job {
public:
    Job() = default;
    /// Waits until it has ended.
    Result<Prepared> wait() const {
        auto [status, prepared, diags] = outcome_.get();
        return {status, Diagnostics(std::move(diags)), Prepared(std::move(prepared))};
    }
    bool ready() const { return outcome_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
    void cancel() const { tegula_cancel(handle_.get(), 1); }
    tegula_job* c() const { return handle_.get(); }

private:
    friend class Module;
    using Outcome = std::tuple<tegula_status, Ref<tegula_prepared>, Ref<tegula_diags>>;
    Ref<tegula_job> handle_;
    std::shared_future<Outcome> outcome_;
};

class Module {
public:
    Module() = default;
    explicit Module(Ref<tegula_module> handle) : handle_(std::move(handle)) {}
    Result<Unit> check() const {
        Ref<tegula_diags> diags;
        tegula_status status = tegula_module_check(handle_.get(), diags.out());
        return {status, Diagnostics(std::move(diags))};
    }
    Result<Kernel> compile(const std::string& kernel, std::span<const NamedValue> generics = {}, const RunOptions& options = {}) const {
        Ref<tegula_kernel> compiled;
        Ref<tegula_diags> diags;
        Values values(generics);
        tegula_status status = tegula_compile(handle_.get(), kernel.c_str(), values.data(), values.size(), &options, compiled.out(), diags.out());
        return {status, Diagnostics(std::move(diags)), Kernel(std::move(compiled))};
    }
    Result<Kernel> compile(const std::string& kernel, std::initializer_list<NamedValue> generics, const RunOptions& options = {}) const {
        return compile(kernel, std::span<const NamedValue>(generics.begin(), generics.size()), options);
    }
    /// Arguments with an empty name are taken by position.
    Result<Unit> launch(const std::string& kernel, std::span<const NamedValue> generics, std::span<const NamedValue> args,
                        const RunOptions& options = {}) const {
        Ref<tegula_diags> diags;
        Values g(generics), a(args);
        tegula_status status = tegula_launch(handle_.get(), kernel.c_str(), g.data(), g.size(), a.data(), a.size(), &options, diags.out());
        return {status, Diagnostics(std::move(diags))};
    }
    Result<Unit> launch(const std::string& kernel, std::initializer_list<NamedValue> generics, std::initializer_list<Value> args,
                        const RunOptions& options = {}) const {
        return launch(kernel, std::span<const NamedValue>(generics.begin(), generics.size()), detail::by_position(args), options);
    }
    /// Arguments stay where they are: on a GPU in device memory.
    Result<Prepared> prepare(const std::string& kernel, std::span<const NamedValue> generics, std::span<const NamedValue> args,
                             const RunOptions& options = {}) const {
        Ref<tegula_prepared> prepared;
        Ref<tegula_diags> diags;
        Values g(generics), a(args);
        tegula_status status =
            tegula_prepare(handle_.get(), kernel.c_str(), g.data(), g.size(), a.data(), a.size(), &options, prepared.out(), diags.out());
        return {status, Diagnostics(std::move(diags)), Prepared(std::move(prepared))};
    }
    Result<Prepared> prepare(const std::string& kernel, std::initializer_list<NamedValue> generics, std::initializer_list<Value> args,
                             const RunOptions& options = {}) const {
        return prepare(kernel, std::span<const NamedValue>(generics.begin(), generics.size()), detail::by_position(args), options);
    }
    /// prepare, in the background. A result without a job: the call itself was wrong.
    Result<Job> prepare_async(const std::string& kernel, std::span<const NamedValue> generics, std::span<const NamedValue> args,
                              const RunOptions& options = {}) const {
        auto promise = std::make_unique<std::promise<Job::Outcome>>();
        Job job;
        job.outcome_ = promise->get_future().share();
        const auto done = [](void* user, tegula_status status, tegula_prepared* prepared, tegula_diags* diags) {
            const std::unique_ptr<std::promise<Job::Outcome>> own(static_cast<std::promise<Job::Outcome>*>(user));
            tegula_retain(prepared), tegula_retain(diags);
            own->set_value({status, Ref<tegula_prepared>(prepared), Ref<tegula_diags>(diags)});
        };
        Ref<tegula_diags> diags;
        Values g(generics), a(args);
        tegula_status status = tegula_prepare_async(handle_.get(), kernel.c_str(), g.data(), g.size(), a.data(), a.size(), &options, done,
                                                    promise.get(), job.handle_.out(), diags.out());
        if (status == TEGULA_OK) (void)promise.release();  // done has it
        return {status, Diagnostics(std::move(diags)), std::move(job)};
    }
    Result<Job> prepare_async(const std::string& kernel, std::initializer_list<NamedValue> generics, std::initializer_list<Value> args,
                              const RunOptions& options = {}) const {
        return prepare_async(kernel, std::span<const NamedValue>(generics.begin(), generics.size()), detail::by_position(args), options);
    }
    /// JSON of what a launch would be; `out` tensors may be missing.
    Result<std::string> plan(const std::string& kernel, std::span<const NamedValue> generics, std::span<const NamedValue> args) const {
        Values g(generics), a(args);
        return detail::text([&](auto** blob, auto** diags) {
            return tegula_plan(handle_.get(), kernel.c_str(), g.data(), g.size(), a.data(), a.size(), blob, diags);
        });
    }
    Result<std::string> plan(const std::string& kernel, std::initializer_list<NamedValue> generics, std::initializer_list<Value> args) const {
        return plan(kernel, std::span<const NamedValue>(generics.begin(), generics.size()), detail::by_position(args));
    }
    /// "tokens", "ast", "fmt", "doc", "json".
    Result<std::string> artifact(const std::string& kind) const {
        return detail::text([&](auto** blob, auto** diags) { return tegula_module_artifact(handle_.get(), kind.c_str(), blob, diags); });
    }
    struct Bytes {
        size_t elements = 0, scales = 0;
    };
    Result<Bytes> tensor_bytes(const std::string& type, const std::string& layout, std::span<const int64_t> extents) const {
        Bytes bytes;
        Ref<tegula_diags> diags;
        tegula_status status = tegula_tensor_bytes(handle_.get(), type.c_str(), layout.c_str(), extents.data(), static_cast<int32_t>(extents.size()),
                                                   &bytes.elements, &bytes.scales, diags.out());
        return {status, Diagnostics(std::move(diags)), bytes};
    }
    /// What names the order of a layout beside packed data.
    Result<uint64_t> layout_hash(const std::string& layout) const {
        uint64_t hash = 0;
        Ref<tegula_diags> diags;
        tegula_status status = tegula_layout_hash(handle_.get(), layout.c_str(), &hash, diags.out());
        return {status, Diagnostics(std::move(diags)), hash};
    }
    /// Copies values, converting type and layout: packs, unpacks, quantises, widens.
    Result<Unit> copy(const Tensor& to, const Tensor& from) const {
        Ref<tegula_diags> diags;
        tegula_tensor target = to.c(), source = from.c();
        tegula_status status = tegula_tensor_copy(handle_.get(), &target, &source, diags.out());
        return {status, Diagnostics(std::move(diags))};
    }
    /// How the elements of two tensors differ, as JSON of a picture.
    Result<std::string> diff(const Tensor& a, const Tensor& b) const {
        const tegula_tensor first = a.c(), second = b.c();
        return detail::text([&](tegula_blob** blob, tegula_diags** diags) { return tegula_tensor_diff(handle_.get(), &first, &second, blob, diags); });
    }
    /// Runs the `test` blocks whose name contains `filter`, one result for each; the status is TEGULA_OK when all passed.
    Result<std::vector<TestResult>> test(const std::string& filter = {}, const RunOptions& options = {}) const {
        return blocks(tegula_test, filter, options);
    }
    Result<std::vector<TestResult>> bench(const std::string& filter = {}, const RunOptions& options = {}) const {
        return blocks(tegula_bench, filter, options);
    }
    /// Measures the choices of `tune` that the benches' launches leave open (tegula_tune): one result for each such launch, details in `metrics`.
    Result<std::vector<TestResult>> tune(const std::string& filter = {}, const RunOptions& options = {}, const TuneOptions& tune = {}) const {
        const auto run = [&](tegula_module* module, const char* which, const tegula_run_options* on, auto result, void* user, tegula_diags** diags) {
            return tegula_tune(module, which, on, &tune, result, user, diags);
        };
        return blocks(run, filter, options);
    }
    /// A tensor over memory that `managed` owns (a DLManagedTensor, with `versioned` a DLManagedTensorVersioned); its owner calls the deleter.
    Result<Tensor> from_dlpack(const void* managed, bool versioned = false, bool* read_only = nullptr) const {
        tegula_tensor t{};
        int32_t constant = 0;
        Ref<tegula_diags> diags;
        tegula_status status = tegula_tensor_from_dlpack(handle_.get(), managed, versioned, &t, &constant, diags.out());
        if (read_only) *read_only = constant != 0;
        return {status, Diagnostics(std::move(diags)), status == TEGULA_OK ? Tensor(t) : Tensor()};
    }
    /// A DLManagedTensor (`versioned`: a DLManagedTensorVersioned) over the same memory, for one consumer to delete; `keep` lives until then.
    template <class Keep = std::nullptr_t>
    Result<void*> to_dlpack(const Tensor& tensor, bool versioned = false, Keep keep = {}) const {
        auto owner = std::make_unique<Keep>(std::move(keep));
        void* managed = nullptr;
        Ref<tegula_diags> diags;
        const tegula_tensor t = tensor.c();
        tegula_status status = tegula_tensor_to_dlpack(
            handle_.get(), &t, versioned, [](void* kept) { delete static_cast<Keep*>(kept); }, owner.get(), &managed, diags.out());
        if (status == TEGULA_OK) (void)owner.release();  // the deleter has it
        return {status, Diagnostics(std::move(diags)), managed};
    }
    tegula_module* c() const { return handle_.get(); }

private:
    template <class Run>
    Result<std::vector<TestResult>> blocks(const Run& run, const std::string& filter, const RunOptions& options) const {
        std::vector<TestResult> results;
        const auto take = [](void* user, const tegula_test_result* r) {
            tegula_retain(r->diags);
            static_cast<std::vector<TestResult>*>(user)->push_back(
                {r->name, r->status, r->seconds, r->metrics ? r->metrics : "", Diagnostics(Ref<tegula_diags>(r->diags))});
        };
        Ref<tegula_diags> diags;
        tegula_status status = run(handle_.get(), filter.c_str(), &options, take, &results, diags.out());
        return {status, Diagnostics(std::move(diags)), std::move(results)};
    }
    Ref<tegula_module> handle_;
};

/// Items and variables that grow with each text; one call at a time. Answers are the JSON that tegula_session_do describes.
class Session {
public:
    Session() = default;
    explicit Session(Ref<tegula_session> handle) : handle_(std::move(handle)) {}
    Result<std::string> eval(std::string_view text, const RunOptions& options = {}, const std::string& name = {}) const {
        return call("eval", text, 0, &options, name.empty() ? nullptr : name.c_str());
    }
    /// As eval, but nothing changes, and more is told of the value.
    Result<std::string> show(std::string_view text, const RunOptions& options = {}, const std::string& name = {}) const {
        return call("show", text, 0, &options, name.empty() ? nullptr : name.c_str());
    }
    /// "type", "is_complete", "tokens", "complete", "inspect", "variables", "items", "history", "undo", "reset".
    Result<std::string> ask(const std::string& verb, std::string_view text = {}, size_t at = 0) const {
        return call(verb.c_str(), text, at, nullptr, nullptr);
    }
    /// A copy of a variable.
    class Variable {
    public:
        /// What `value` points to lives as long as this.
        const tegula_value& c() const { return value_; }
        Tensor tensor() const { return value_.kind == TEGULA_TENSOR ? Tensor(*value_.tensor) : Tensor(); }

    private:
        friend class Session;
        tegula_value value_{};
        Ref<tegula_blob> storage_;
    };
    Result<Variable> get(const std::string& name) const {
        Variable out;
        Ref<tegula_diags> diags;
        tegula_status status = tegula_session_value(handle_.get(), name.c_str(), nullptr, &out.value_, out.storage_.out(), diags.out());
        return {status, Diagnostics(std::move(diags)), std::move(out)};
    }
    Result<Unit> set(const std::string& name, const Value& value) const {
        const Values values(std::span<const Value>(&value, 1));
        Ref<tegula_diags> diags;
        tegula_status status = tegula_session_value(handle_.get(), name.c_str(), values.data(), nullptr, nullptr, diags.out());
        return {status, Diagnostics(std::move(diags))};
    }
    /// The items as they are now.
    Result<Module> module() const {
        Ref<tegula_module> module;
        Ref<tegula_diags> diags;
        tegula_status status = tegula_session_module(handle_.get(), module.out(), diags.out());
        return {status, Diagnostics(std::move(diags)), Module(std::move(module))};
    }
    /// Ends the evaluation in progress and refuses new ones until cancel(false). Async-signal-safe.
    void cancel(bool on = true) const { tegula_cancel(handle_.get(), on); }
    tegula_session* c() const { return handle_.get(); }

private:
    Result<std::string> call(const char* verb, std::string_view text, size_t at, const RunOptions* options, const char* name) const {
        return detail::text([&](auto** blob, auto** diags) {
            return tegula_session_do(handle_.get(), verb, name, text.data(), text.size(), at, options, blob, diags);
        });
    }
    Ref<tegula_session> handle_;
};

/// Texts that are being edited (tegula.h).
class Workspace {
public:
    Workspace() = default;
    explicit Workspace(Ref<tegula_workspace> handle) : handle_(std::move(handle)) {}
    Result<Unit> set(const std::string& path, std::string_view text) const {
        Ref<tegula_diags> diags;
        const char* data = text.empty() ? "" : text.data();
        tegula_status status = tegula_workspace_set(handle_.get(), path.c_str(), data, text.size(), diags.out());
        return {status, Diagnostics(std::move(diags))};
    }
    /// What is on disk counts.
    Result<Unit> add(const std::string& path) const {
        Ref<tegula_diags> diags;
        tegula_status status = tegula_workspace_set(handle_.get(), path.c_str(), nullptr, 0, diags.out());
        return {status, Diagnostics(std::move(diags))};
    }
    Result<std::string> ask(const std::string& verb, const std::string& path, size_t begin = 0, size_t end = 0, const std::string& text = {}) const {
        return detail::text([&](auto** blob, auto** diags) {
            return tegula_workspace_ask(handle_.get(), verb.c_str(), path.c_str(), begin, end, text.c_str(), blob, diags);
        });
    }
    Result<Module> module(const std::string& path) const {
        Ref<tegula_module> module;
        Ref<tegula_diags> diags;
        tegula_status status = tegula_workspace_module(handle_.get(), path.c_str(), module.out(), diags.out());
        return {status, Diagnostics(std::move(diags)), Module(std::move(module))};
    }
    /// Ends the call in progress and refuses others until cancel(false). Async-signal-safe.
    void cancel(bool on = true) const { tegula_cancel(handle_.get(), on); }
    tegula_workspace* c() const { return handle_.get(); }

private:
    Ref<tegula_workspace> handle_;
};

struct EngineOptions : tegula_engine_options {
    EngineOptions() { tegula_engine_options_init(this, sizeof(tegula_engine_options)); }
};

class Engine {
public:
    Engine() = default;
    static Result<Engine> create(const EngineOptions& options = {}) {
        Engine engine;
        Ref<tegula_diags> diags;
        if (const uint32_t found = tegula_abi_version(); found != TEGULA_ABI_VERSION)
            return {TEGULA_E_USAGE,
                    Diagnostics("this program was compiled with the headers of ABI " + std::to_string(TEGULA_ABI_VERSION) +
                                ", and runs with a library of ABI " + std::to_string(found) + " (" + tegula_build_id() +
                                "); compile it with the headers of that library, or load the library that it was compiled for"),
                    Engine()};
        tegula_status status = tegula_engine_new(&options, engine.handle_.out(), diags.out());
        return {status, Diagnostics(std::move(diags)), std::move(engine)};
    }
    Result<Module> load(std::string_view text, const std::string& name = "<memory>") const {
        Ref<tegula_module> module;
        Ref<tegula_diags> diags;
        tegula_status status = tegula_module_from_source(handle_.get(), name.c_str(), text.data(), text.size(), module.out(), diags.out());
        return {status, Diagnostics(std::move(diags)), Module(std::move(module))};
    }
    Result<Module> load_file(const std::string& path) const {
        Ref<tegula_module> module;
        Ref<tegula_diags> diags;
        tegula_status status = tegula_module_from_file(handle_.get(), path.c_str(), module.out(), diags.out());
        return {status, Diagnostics(std::move(diags)), Module(std::move(module))};
    }
    /// `directory`: imports of files and array files are looked for there too.
    Result<Session> session(const std::string& directory = {}) const {
        Ref<tegula_session> session;
        Ref<tegula_diags> diags;
        tegula_status status = tegula_session_new(handle_.get(), directory.c_str(), session.out(), diags.out());
        return {status, Diagnostics(std::move(diags)), Session(std::move(session))};
    }
    Result<Workspace> workspace() const {
        Ref<tegula_workspace> workspace;
        Ref<tegula_diags> diags;
        tegula_status status = tegula_workspace_new(handle_.get(), workspace.out(), diags.out());
        return {status, Diagnostics(std::move(diags)), Workspace(std::move(workspace))};
    }
    /// "tokens", "ast", "fmt" of a text that need not check.
    Result<std::string> dump(std::string_view text, const std::string& name, const std::string& kind) const {
        return detail::text(
            [&](auto** blob, auto** diags) { return tegula_dump(handle_.get(), name.c_str(), text.data(), text.size(), kind.c_str(), blob, diags); });
    }
    /// JSON: machines, formats, operations, passes, functions, diagnostics.
    std::string describe() const {
        Ref<tegula_blob> blob;
        tegula_describe(handle_.get(), blob.out());
        return detail::take_blob(std::move(blob));
    }
    /// "stats", "list", "verify", "trim" or "clear" of the files of compiled code, as JSON.
    Result<std::string> cache(const std::string& task) const {
        return detail::text([&](auto** blob, auto** diags) { return tegula_cache(handle_.get(), task.c_str(), blob, diags); });
    }
    /// Async-signal-safe.
    void cancel(bool on = true) const { tegula_cancel(handle_.get(), on); }
    tegula_engine* c() const { return handle_.get(); }

private:
    Ref<tegula_engine> handle_;
};

}  // namespace api
}  // namespace tegula
