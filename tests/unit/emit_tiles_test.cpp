// Emitted tile operations against the interpreter under placements that no pass would choose: every tile of a kernel lies anywhere, skewed bases,
// copies and odd factors included. The kernels run on the CPU machine of tests/emulate. TEGULA_EMIT_ROUNDS sets how many kernels each test makes.
#include <dlfcn.h>

#include "jit/cuda/print.h"
#include "lang/kernel/kernel_text.h"
#include "lower/gpu/gpu.h"
#include "lower/kernel/lower.h"
#include "tests/unit/interp_fixture.h"
#include "tests/unit/tile_layout_fixture.h"

namespace tegula::testing {

namespace {

/// The few functions of NVRTC and the driver that a launch needs, from the CPU machine's library.
class CpuGpu {
    template <class F, class... A>
    int call(const char* name, A... args) {
        void* symbol = dlsym(library_, name);
        if (!symbol) throw std::runtime_error(name);
        return reinterpret_cast<F*>(symbol)(args...);
    }

public:
    CpuGpu() {
        library_ = dlopen(TEGULA_BINARY_DIR "/tests/on_cpu/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!library_) throw std::runtime_error(dlerror());
        void* context = nullptr;
        if (call<int(unsigned)>("cuInit", 0u) || call<int(void**, int)>("cuDevicePrimaryCtxRetain", &context, 0) ||
            call<int(void*)>("cuCtxPushCurrent_v2", context))
            throw std::runtime_error("the played GPU has no context");
    }
    /// Empty, or what went wrong.
    std::string run(const KernelText& kernel, void** params) {
        void *program = nullptr, *library = nullptr, *function = nullptr;
        call<int(void**, const char*, const char*, int, const char* const*, const char* const*)>("nvrtcCreateProgram", &program,
                                                                                                 kernel.source.c_str(), "k", 0, nullptr, nullptr);
        const char* target = "--gpu-architecture=sm_90a";
        const int compiled = call<int(void*, int, const char* const*)>("nvrtcCompileProgram", program, 1, &target);
        size_t size = 0;
        call<int(void*, size_t*)>(compiled ? "nvrtcGetProgramLogSize" : "nvrtcGetCUBINSize", program, &size);
        std::string text(size, 0);
        call<int(void*, char*)>(compiled ? "nvrtcGetProgramLog" : "nvrtcGetCUBIN", program, text.data());
        call<int(void**)>("nvrtcDestroyProgram", &program);
        if (compiled) return text;
        if (call<int(void**, const void*, int*, void**, unsigned, int*, void**, unsigned)>("cuLibraryLoadData", &library, text.data(), nullptr,
                                                                                           nullptr, 0, nullptr, nullptr, 0))
            return "the image does not load";
        call<int(void**, void*, const char*)>("cuLibraryGetKernel", &function, library, kernel.entry.c_str());
        Config config{{1, 1, 1}, {static_cast<unsigned>(kernel.threads), 1, 1}, static_cast<unsigned>(kernel.shared_bytes), nullptr, nullptr, 0};
        const int status = call<int(const Config*, void*, void**, void**)>("cuLaunchKernelEx", &config, function, params, nullptr);
        const char* why = "";
        if (status) call<int(int, const char**)>("cuGetErrorString", status, &why);
        const std::string failure = status ? std::string("launch: ") + why : std::string();
        call<int(void*)>("cuLibraryUnload", library);
        return failure;
    }

private:
    struct Config {
        unsigned grid[3], block[3], shared;
        void *stream, *attributes;
        unsigned count;
    };
    void* library_ = nullptr;
};

struct Tensor {
    std::string elem;
    Shape shape;
    bool out = false;
    std::vector<uint64_t> codes;
};

/// IR text of a kernel whose tiles are placed at random.
class Kernel {
public:
    Kernel(World& world, uint32_t seed) : world_(world), rng_(seed), warps_(1 << rng_() % 4) { line("%zero = constant 0 : i64"); }

    std::string tile(const std::string& elem, const Shape& shape) { return world_.tile(elem, shape); }
    size_t pick(size_t n) { return rng_() % n; }
    Shape shape(int rank, int64_t most) {
        Shape s;
        static const int64_t extents[] = {1, 2, 3, 5, 7, 8, 16, 17, 32, 33, 64, 127, 128};
        for (int d = 0; d < rank; ++d) {
            int64_t e = 0;
            do e = extents[pick(std::size(extents))];
            while (e * s.elements() > most);
            s.push(e);
        }
        return s;
    }
    TileLayout layout(const Shape& shape) {
        TileLayout padding = padding_of(shape);
        if (pick(3) == 0) {
            std::vector<int> order = row_order(shape.rank);
            std::shuffle(order.begin(), order.end(), rng_);
            return blocked_layout(shape, warps_, 1 << pick(4), order);
        }
        return random_layout(rng_, padding, std::countr_zero(static_cast<unsigned>(warps_)), pick(2) == 0, static_cast<int>(pick(3)));
    }
    std::string place(const TileLayout& l) {
        placements_ += (count_ ? ",\n  p" : "p") + std::to_string(count_ + 1) + " = registers " + to_string(l.shape) + " \"" + l.text() + "\"";
        layouts_.push_back(l);
        return "p" + std::to_string(++count_);
    }
    /// A value of an op; rank 0 has no placement. `like`: this layout instead of a random one.
    std::string value(const std::string& op, const std::string& elem, const Shape& shape, const TileLayout* like = nullptr) {
        const std::string v = "%v" + std::to_string(next_++);
        line(v + " = " + op + " : " + (shape.rank ? tile(elem, shape) + " @ " + place(like ? *like : layout(shape)) : elem));
        return v;
    }
    std::string in_shared(const std::string& op, const std::string& elem, const SharedLayout& l) {
        placements_ += (count_ ? ",\n  p" : "p") + std::to_string(count_ + 1) + " = shared " + to_string(l.shape) + " \"" + l.text() + "\"";
        const std::string v = "%v" + std::to_string(next_++);
        line(v + " = " + op + " : " + tile(elem, l.shape) + " @ p" + std::to_string(++count_));
        return v;
    }
    std::string input(const std::string& elem, const Shape& shape, const TileLayout* like = nullptr, uint64_t limit = 0) {
        const std::string name = "%x" + std::to_string(tensors.size());
        Tensor t{elem, shape, false, {}};
        const Format& f = world_.types.format(world_.format(elem));
        std::normal_distribution<double> normal(0, 3);
        for (int64_t i = 0; i < shape.elements(); ++i) {
            uint64_t code =
                f.is_float() ? encode(f, pick(40) == 0 ? (pick(3) ? -0.0 : NAN) : normal(rng_)) : extend_code(f, rng_() * uint64_t{0x100000001});
            if (limit) code = rng_() % limit;
            t.codes.push_back(code);
        }
        tensors.push_back(t);
        return value("load " + name + whole(shape), elem, shape, like);
    }
    void output(const std::string& v, const std::string& elem, Shape shape) {
        const std::string name = "%x" + std::to_string(tensors.size());
        const std::string part = shape.rank ? whole(shape) : "[%zero]";
        if (shape.rank == 0) shape.push(1);
        tensors.push_back({elem, shape, true, std::vector<uint64_t>(static_cast<size_t>(shape.elements()), 0)});
        line("store " + name + part + " = " + v);
    }
    void line(const std::string& text) { body_ += "  " + text + "\n"; }
    const TileLayout& last_layout() const { return layouts_.back(); }
    std::string text() const {
        std::string out = "kernel @k(";
        for (size_t i = 0; i < tensors.size(); ++i) {
            const Tensor& t = tensors[i];
            std::string shape = to_string(t.shape);
            out += (i ? ", %x" : "%x") + std::to_string(i) + ": tensor<" + t.elem + ">" + shape + (t.out ? " out" : " in");
        }
        return out + ") gpu {\n  arch = sm_90a, warps = " + std::to_string(warps_) + ", shared = 0,\n  " + placements_ + "\n} {\n" + body_ +
               "  ret\n}\n";
    }
    std::vector<Tensor> tensors;

private:
    static std::string whole(const Shape& shape) {
        std::string out;
        for (int64_t e : shape) out += (out.empty() ? "[%zero +: " : ", %zero +: ") + std::to_string(e);
        return out + "]";
    }
    World& world_;
    std::mt19937 rng_;
    int warps_;
    std::string placements_, body_;
    std::vector<TileLayout> layouts_;
    int count_ = 0, next_ = 0;
};

class EmittedTiles : public ::testing::Test {
protected:
    static int rounds(int usual) {
        const char* text = std::getenv("TEGULA_EMIT_ROUNDS");
        return text ? std::atoi(text) : usual;
    }
    std::vector<std::vector<uint8_t>> storage(const Kernel& k) {
        std::vector<std::vector<uint8_t>> out;
        for (const Tensor& t : k.tensors) {
            const Format& f = world.types.format(world.format(t.elem));
            std::vector<uint8_t>& bytes = out.emplace_back(t.codes.size() * f.container_bytes());
            for (size_t i = 0; i < t.codes.size(); ++i) std::memcpy(bytes.data() + i * f.container_bytes(), &t.codes[i], f.container_bytes());
        }
        return out;
    }
    /// Runs the kernel on both machines; every output must be the same, NaN as NaN.
    void compare(const Kernel& k, uint32_t seed) {
        SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + k.text());
        const auto plain = world.parse(k.text());
        auto expected = storage(k), got = storage(k);
        std::vector<Argument> args;
        for (size_t i = 0; i < k.tensors.size(); ++i) {
            Argument a;
            a.kind = Argument::tensor;
            a.t.elem = world.format(k.tensors[i].elem);
            a.t.data = expected[i].data();
            a.t.bytes = expected[i].size();
            a.t.extents = k.tensors[i].shape;
            args.push_back(a);
        }
        const std::array<uint64_t, 3> grid{1, 1, 1};
        ASSERT_EQ(interp::Program::prepare(*plain)->run(args, grid, {}).status, RunResult::ok);
        const auto placed = world.parse(k.text());
        GpuOptions options;
        options.arch = find_arch("sm_90a");
        assign_scratch(*placed, options);
        place_barriers(*placed, options);
        ASSERT_EQ(prove(*placed, options), std::vector<std::string>{});
        const KernelText text = cuda::printed(lower_to_kernel(*placed, nullptr));
        ASSERT_EQ(launch(k, text, got), "") << text.source;
        for (size_t i = 0; i < k.tensors.size(); ++i) {
            const Format& f = world.types.format(world.format(k.tensors[i].elem));
            for (size_t e = 0; e < k.tensors[i].codes.size(); ++e) {
                uint64_t a = 0, b = 0;
                std::memcpy(&a, expected[i].data() + e * f.container_bytes(), f.container_bytes());
                std::memcpy(&b, got[i].data() + e * f.container_bytes(), f.container_bytes());
                if (a == b || (f.is_float() && std::isnan(decode(f, a)) && std::isnan(decode(f, b)))) continue;
                FAIL() << "tensor " << i << " element " << e << ": " << b << " instead of " << a << "\n" << text.source;
            }
        }
    }
    std::string launch(const Kernel& k, const KernelText& text, std::vector<std::vector<uint8_t>>& tensors) {
        std::vector<uint64_t> values(text.params.size());
        std::vector<uint8_t> workspace(static_cast<size_t>(text.workspace_bytes) + 16);
        std::vector<void*> params;
        for (size_t i = 0; i < text.params.size(); ++i) {
            const KernelParam& p = text.params[i];
            const auto param = static_cast<size_t>(p.param);
            const auto dim = static_cast<size_t>(p.dim);
            if (p.kind == KernelParam::pointer) values[i] = reinterpret_cast<uint64_t>(tensors[param].data());
            if (p.kind == KernelParam::workspace) values[i] = reinterpret_cast<uint64_t>(workspace.data());
            if (p.kind == KernelParam::bytes) values[i] = tensors[param].size();
            if (p.kind == KernelParam::extent) values[i] = static_cast<uint64_t>(k.tensors[param].shape[dim]);
            if (p.kind == KernelParam::grid) values[i] = 1;
            if (p.kind == KernelParam::stride) {
                values[i] = 1;
                for (size_t d = dim + 1; d < k.tensors[param].shape.rank; ++d) values[i] *= static_cast<uint64_t>(k.tensors[param].shape[d]);
            }
            params.push_back(&values[i]);
        }
        return gpu().run(text, params.data());
    }
    static CpuGpu& gpu() {
        static CpuGpu machine;
        return machine;
    }
    World world;
};

const char* const kElements[] = {"f32", "f16", "i32", "f64", "u8", "i64", "bf16", "bool"};
const char* const kNumbers[] = {"f32", "f16", "i32", "f64", "u8", "i64"};

std::string axis_text(int64_t axis) { return std::to_string(axis); }
Shape without(const Shape& s, int64_t axis) {
    Shape out;
    for (size_t d = 0; d < s.rank; ++d)
        if (axis >= 0 && static_cast<int64_t>(d) != axis) out.push(s[d]);
    return out;
}

}  // namespace

TEST_F(EmittedTiles, ConversionsBetweenAnyLayoutsKeepTheTile) {
    for (int round = 0; round < rounds(12); ++round) {
        Kernel k(world, 100 + static_cast<uint32_t>(round));
        const std::string elem = kElements[k.pick(std::size(kElements))];
        const Shape shape = k.shape(1 + static_cast<int>(k.pick(3)), 4096);
        std::string v = k.input(elem, shape);
        for (int i = 0; i < 6; ++i) v = k.value("convert " + v, elem, shape);
        k.output(v, elem, shape);
        compare(k, static_cast<uint32_t>(round));
        if (HasFatalFailure()) return;
    }
}

TEST_F(EmittedTiles, ConversionsThatDifferByAFewBitsKeepTheTile) {
    for (int round = 0; round < rounds(12); ++round) {
        Kernel k(world, 200 + static_cast<uint32_t>(round));
        const std::string elem = kElements[k.pick(std::size(kElements))];
        const Shape shape{16, 64};
        std::string v = k.input(elem, shape);
        for (int i = 0; i < 6; ++i) {
            // Registers and lanes trade places: shuffles.
            TileLayout l = k.last_layout();
            std::vector<uint64_t*> places;
            for (uint64_t& b : l.reg) places.push_back(&b);
            for (uint64_t& b : l.lane) places.push_back(&b);
            for (int swaps = 0; swaps < 2; ++swaps) std::swap(*places[k.pick(places.size())], *places[k.pick(places.size())]);
            for (int sums = 0; sums < static_cast<int>(k.pick(2)); ++sums) {
                uint64_t *a = places[k.pick(places.size())], *b = places[k.pick(places.size())];
                if (a != b && *a && *b) *a ^= *b;
            }
            if (!l.valid()) continue;
            v = k.value("convert " + v, elem, shape, &l);
        }
        k.output(v, elem, shape);
        compare(k, static_cast<uint32_t>(round));
        if (HasFatalFailure()) return;
    }
}

TEST_F(EmittedTiles, ReductionsFollowTheTreeAndTheChain) {
    static const char* const kinds[] = {"sum", "prod", "min", "max", "minnum", "maxnum"};
    for (int round = 0; round < rounds(16); ++round) {
        Kernel k(world, 300 + static_cast<uint32_t>(round));
        const std::string elem = kNumbers[k.pick(4)];
        const Shape shape = k.shape(1 + static_cast<int>(k.pick(3)), 2048);
        const std::string v = k.input(elem, shape);
        const TileLayout source = k.last_layout();
        for (int i = 0; i < 5; ++i) {
            const int64_t axis = static_cast<int64_t>(k.pick(static_cast<size_t>(shape.rank) + 1)) - 1;
            const Shape to = without(shape, axis);
            std::optional<TileLayout> carried;
            if (to.rank && k.pick(3)) carried = reduce_layout(source, static_cast<int>(axis));
            const std::string attrs = " {kind = " + std::string(kinds[k.pick(std::size(kinds))]) + ", order = " + (k.pick(4) ? "tree" : "chain") +
                                      ", axis = " + axis_text(axis) + "}";
            k.output(k.value("reduce " + v + attrs, elem, to, carried ? &*carried : nullptr), elem, to);
        }
        compare(k, static_cast<uint32_t>(round));
        if (HasFatalFailure()) return;
    }
}

TEST_F(EmittedTiles, BlockedReductionsFollowTheTree) {
    for (int round = 0; round < rounds(10); ++round) {
        Kernel k(world, 400 + static_cast<uint32_t>(round));
        const Shape shape = k.pick(2) ? Shape{k.shape(1, 128)[0] * 31} : Shape{4, 512};
        const TileLayout l = blocked_layout(shape, k.layout(Shape{1}).warps(), 4, row_order(shape.rank));
        const std::string v = k.input("f32", shape, &l);
        for (int64_t axis = -1; axis < shape.rank; ++axis) {
            const Shape to = without(shape, axis);
            std::optional<TileLayout> carried;
            if (to.rank) carried = reduce_layout(l, static_cast<int>(axis));
            for (const char* kind : {"sum", "max"})
                k.output(k.value("reduce " + v + " {kind = " + kind + ", order = tree, axis = " + axis_text(axis) + "}", "f32", to,
                                 carried ? &*carried : nullptr),
                         "f32", to);
        }
        compare(k, static_cast<uint32_t>(round));
        if (HasFatalFailure()) return;
    }
}

TEST_F(EmittedTiles, ShapesAnywhere) {
    for (int round = 0; round < rounds(12); ++round) {
        Kernel k(world, 500 + static_cast<uint32_t>(round));
        const std::string elem = kElements[k.pick(std::size(kElements))];
        const Shape shape{k.shape(1, 33)[0], k.shape(1, 17)[0], k.shape(1, 8)[0]};
        const std::string v = k.input(elem, shape);
        const Shape turned{shape[2], shape[0], shape[1]}, flat{shape.elements()}, twice{shape[0], shape[1] * 2, shape[2]};
        k.output(k.value("permute " + v + " {axis = [2, 0, 1]}", elem, turned), elem, turned);
        k.output(k.value("reshape " + v, elem, flat), elem, flat);
        k.output(k.value("cat " + v + ", " + v + " {axis = 1}", elem, twice), elem, twice);
        const Shape part{(shape[0] + 1) / 2, shape[1], 1};
        k.output(k.value("slice " + v + " {start_step = [0, 2, " + std::to_string(shape[1] - 1) + ", -1, " + std::to_string(shape[2] - 1) + ", 1]}",
                         elem, part),
                 elem, part);
        const Shape wide{5, part[0], part[1], 9};
        const std::string p = "%v" + std::to_string(4);
        k.output(k.value("broadcast " + p, elem, wide), elem, wide);
        compare(k, static_cast<uint32_t>(round));
        if (HasFatalFailure()) return;
    }
}

TEST_F(EmittedTiles, OrderAndPrefixes) {
    for (int round = 0; round < rounds(10); ++round) {
        Kernel k(world, 600 + static_cast<uint32_t>(round));
        const std::string elem = kNumbers[k.pick(std::size(kNumbers))];
        const Shape shape = k.shape(1 + static_cast<int>(k.pick(2)), 1024);
        const std::string v = k.input(elem, shape);
        const int64_t axis = static_cast<int64_t>(k.pick(shape.rank));
        const std::string n = axis_text(axis);
        k.output(k.value("scan " + v + " {kind = max, axis = " + n + ", reverse = 1}", elem, shape), elem, shape);
        k.output(k.value("scan " + v + " {kind = sum, axis = " + n + ", reverse = 0}", elem, shape), elem, shape);
        for (const char* down : {"0", "1"}) {
            const TileLayout a = k.layout(shape), b = k.layout(shape);
            k.line("%s" + std::string(down) + ", %i" + down + " = sort " + v + " {axis = " + n + ", descending = " + down +
                   "} : " + k.tile(elem, shape) + " @ " + k.place(a) + ", " + k.tile("i32", shape) + " @ " + k.place(b));
            k.output("%s" + std::string(down), elem, shape);
            k.output("%i" + std::string(down), "i32", shape);
        }
        const Shape to = without(shape, axis);
        for (const char* kind : {"min", "max"}) {
            const std::string name = std::string("%") + kind, types = to.rank ? k.tile(elem, to) + " @ " + k.place(k.layout(to)) + ", " +
                                                                                    k.tile("i32", to) + " @ " + k.place(k.layout(to))
                                                                              : elem + ", i32";
            k.line(name + ", " + name + "_at = arg_reduce " + v + " {kind = " + kind + ", axis = " + n + "} : " + types);
            k.output(name, elem, to);
            k.output(name + "_at", "i32", to);
        }
        compare(k, static_cast<uint32_t>(round));
        if (HasFatalFailure()) return;
    }
}

TEST_F(EmittedTiles, SharedMemoryKeepsTheTile) {
    for (int round = 0; round < rounds(12); ++round) {
        Kernel k(world, 800 + static_cast<uint32_t>(round));
        const std::string elem = kElements[k.pick(std::size(kElements))];
        const int bytes = static_cast<int>(world.types.format(world.format(elem)).container_bytes());
        const Shape shape = k.pick(3) ? Shape{16 << k.pick(2), 32 << k.pick(3)} : k.shape(2 + static_cast<int>(k.pick(2)), 2048);
        const int last = shape.rank - 1;
        const std::string v = k.input(elem, shape);
        const std::string a = k.in_shared("convert " + v, elem, shared_layout(shape, last, bytes));
        const std::string b = k.in_shared("convert " + a, elem, shared_layout(shape, last - 1, bytes));
        for (const std::string& from : {a, b}) k.output(k.value("convert " + from, elem, shape), elem, shape);
        const std::vector<int> order = row_order(shape.rank);
        const TileLayout rows = blocked_layout(shape, k.layout(Shape{1}).warps(), 16 / bytes, order);
        k.output(k.value("convert " + a, elem, shape, &rows), elem, shape);
        compare(k, static_cast<uint32_t>(round));
        if (HasFatalFailure()) return;
    }
}

TEST_F(EmittedTiles, FunctionsOfTheAuthor) {
    for (int round = 0; round < rounds(8); ++round) {
        Kernel k(world, 900 + static_cast<uint32_t>(round));
        const Shape shape = k.shape(1 + static_cast<int>(k.pick(3)), 1024);
        const std::string v = k.input("f32", shape), init = k.value("constant 2", "f32", {});
        const int64_t axis = static_cast<int64_t>(k.pick(shape.rank));
        const Shape to = without(shape, axis);
        // Neither commutes nor associates.
        const std::string body = " (%a@: f32, %b@: f32) {\n    %h@ = constant 0.5 : f32\n    %c@ = fma %a@, %h@, %b@ : f32\n    yield %c@\n  }";
        const auto block = [&](const std::string& n) {
            std::string out;
            for (char c : body) out += c == '@' ? n : std::string(1, c);
            return out;
        };
        const auto type = [&](const Shape& s) { return s.rank ? k.tile("f32", s) + " @ " + k.place(k.layout(s)) : std::string("f32"); };
        k.line("%tree = reduce_region " + v + ", " + init + " {axis = " + axis_text(axis) + "} : " + type(to) + block("1"));
        k.output("%tree", "f32", to);
        k.line("%chain = scan_region " + v + " {axis = " + axis_text(axis) + ", reverse = " + std::to_string(k.pick(2)) + "} : " + type(shape) +
               block("2"));
        k.output("%chain", "f32", shape);
        const std::string counted = k.input("u8", shape, nullptr, 40), mask = k.input("bool", shape, nullptr, 2);
        k.output(k.value("histogram " + counted + ", " + mask, "i32", {33}), "i32", {33});
        compare(k, static_cast<uint32_t>(round));
        if (HasFatalFailure()) return;
    }
}

TEST_F(EmittedTiles, GathersAndProducts) {
    for (int round = 0; round < rounds(10); ++round) {
        Kernel k(world, 700 + static_cast<uint32_t>(round));
        const std::string elem = kNumbers[k.pick(4)];
        const int64_t m = k.shape(1, 33)[0], n = k.shape(1, 33)[0], depth = k.shape(1, 64)[0];
        const std::string a = k.input(elem, {m, depth}), b = k.input(elem, {depth, n});
        const TileLayout product = k.layout({m, n});
        const std::string c = k.input(elem, {m, n}, &product);
        k.output(k.value("dot " + a + ", " + b + ", " + c + " {precision = ieee}", elem, {m, n}, &product), elem, {m, n});
        const std::string index = k.input("i32", {m, n}, nullptr, static_cast<uint64_t>(depth) + 1);
        k.output(k.value("gather " + a + ", " + index + " {axis = 1}", elem, {m, n}), elem, {m, n});
        const std::string at = k.input("i64", {m, 1}, nullptr, static_cast<uint64_t>(m) + 1),
                          at2 = k.input("i64", {n}, nullptr, static_cast<uint64_t>(n) + 1);
        k.output(k.value("extract " + c + "[gather " + at + ", gather " + at2 + "] else " + c, elem, {m, n}), elem, {m, n});
        k.output(k.value("deposit " + c + "[gather " + at + ", gather " + at2 + "] = " + c, elem, {m, n}), elem, {m, n});
        k.output(k.value("contract " + c + ", " + c + " {axis = 0}", elem, {n}), elem, {n});
        compare(k, static_cast<uint32_t>(round));
        if (HasFatalFailure()) return;
    }
}

}  // namespace tegula::testing
