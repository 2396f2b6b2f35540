// DLPack tensors across the C ABI: what tegula.h says of them, over jit/engine/dlpack.h.
#include "jit/engine/dlpack.h"

#include "jit/api/handles.h"

using namespace tegula;
using namespace tegula::capi;

namespace {

tegula_status refuse(DiagSink& sink, const std::string& why) {
    sink.report(Diag::bad_tensor, {}, {"DLPack", why});
    return TEGULA_E_ARGUMENTS;
}

/// What the borrowed view says, in the words of the ABI. `source` holds the arrays, the type table the name.
tegula_tensor to_abi(const TensorArg& t, const dlpack::Tensor& source, const TypeTable& types) {
    tegula_tensor out{};
    out.data = t.data;
    out.bytes = t.bytes;
    out.type = types.format(t.elem).name.c_str();
    out.rank = source.ndim;
    out.extents = source.shape;
    out.strides = t.has_strides ? source.strides : nullptr;
    out.device_type = t.memory == Memory::cuda ? TEGULA_CUDA : TEGULA_HOST;
    out.device_id = t.device;
    return out;
}

TensorArg to_argument(const TensorView& view) {
    TensorArg t;
    t.elem = view.elem;
    t.data = view.data;
    t.bytes = view.bytes;
    t.extents = view.extents;
    t.layout = view.layout;
    t.has_strides = view.has_strides;
    t.strides = view.strides;
    t.memory = view.memory;
    t.device = view.device;
    return t;
}

/// Runs the host's release once, unless disarmed: after an error the memory stays the caller's. Whoever calls the deleter has no place for an error.
struct Release {
    void (*call)(void*) = nullptr;
    void* owner = nullptr;
    ~Release() {
        try {
            if (call) call(owner);
        } catch (...) {
        }
    }
};

}  // namespace

extern "C" {

tegula_status tegula_tensor_from_dlpack(tegula_module* module, const void* managed, int32_t versioned, tegula_tensor* tensor, int32_t* read_only,
                                        tegula_diags** diags) {
    if (tensor) *tensor = {};
    if (read_only) *read_only = 0;
    if (const tegula_status wrong = check_handle(module, diags)) return wrong;
    if (!managed || !tensor) return usage(diags, "managed or tensor is NULL");
    const auto& engine = module->module->engine;
    return border(engine, diags, [&](DiagSink& sink) -> tegula_status {
        std::string why;
        bool no_writes = false;
        const auto* plain = static_cast<const dlpack::ManagedTensor*>(managed);
        const auto* with_version = static_cast<const dlpack::VersionedTensor*>(managed);
        const auto taken = versioned ? dlpack::from_dlpack(*with_version, module->module->types(), no_writes, why)
                                     : dlpack::from_dlpack(plain->dl_tensor, module->module->types(), why);
        if (!taken) return refuse(sink, why);
        *tensor = to_abi(*taken, versioned ? with_version->dl_tensor : plain->dl_tensor, module->module->types());
        if (read_only) *read_only = no_writes;
        return TEGULA_OK;
    });
}

tegula_status tegula_tensor_to_dlpack(tegula_module* module, const tegula_tensor* tensor, int32_t versioned, void (*release)(void* owner),
                                      void* owner, void** managed, tegula_diags** diags) {
    if (managed) *managed = nullptr;
    if (const tegula_status wrong = check_handle(module, diags)) return wrong;
    if (!tensor || !managed) return usage(diags, "tensor or managed is NULL");
    const auto& engine = module->module->engine;
    return border(engine, diags, [&](DiagSink& sink) -> tegula_status {
        TensorView view;
        std::string why = read_tensor(*module->module, *tensor, true, view);
        if (!why.empty()) return refuse(sink, why);
        const auto keeper = std::make_shared<Release>();
        const TensorArg argument = to_argument(view);
        *managed = versioned ? static_cast<void*>(dlpack::to_dlpack_versioned(argument, module->module->types(), keeper, why))
                             : static_cast<void*>(dlpack::to_dlpack(argument, module->module->types(), keeper, why));
        if (!*managed) return refuse(sink, why);
        keeper->owner = owner;
        keeper->call = release;
        return TEGULA_OK;
    });
}

}  // extern "C"
