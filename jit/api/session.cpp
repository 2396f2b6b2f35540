// The C ABI of sessions; tegula.h has the contracts.
#include <algorithm>
#include <cstring>

#include "jit/api/turn.h"

using namespace tegula;
using namespace tegula::capi;

namespace {

constexpr size_t kMostText = size_t{16} << 20;  ///< of one input, as of a file

/// A call with its turn; `fn(sink)` returns the status.
template <class Fn>
tegula_status in_turn(tegula_session* session, tegula_diags** diags, Fn&& fn) {
    if (const tegula_status wrong = check_handle(session, diags)) return wrong;
    const Turn turn(session);
    if (!turn) return usage(diags, "the session is busy: one call at a time, and none from a callback of it; tegula_cancel ends it");
    return border(session->session.engine(), diags, std::forward<Fn>(fn));
}

tegula_status evaluate(tegula_session& handle, bool keeps, const char* name, std::string text, const tegula_run_options* options, std::string& json,
                       DiagSink& sink) {
    LaunchOptions launch;
    tegula_status status = TEGULA_OK;
    Engine& engine = *handle.session.engine();
    if (!launch_options(options, launch, sink, status, engine)) return status;
    launch.cancel = cancel_flag(handle, engine);
    Session& own = handle.session;
    return to_status(keeps ? own.evaluate(name ? name : "", std::move(text), std::move(launch), sink, json)
                           : own.show(name ? name : "", std::move(text), std::move(launch), sink, json));
}

/// What a variable is to the host; tensors and names are copies that live as long as this.
struct ValueBlob : tegula_blob {
    std::shared_ptr<HostTensor> tensor;
    tegula_tensor view{};
    std::string layout;
};

/// Why there is none, or empty.
std::string read_value(const Session& session, const HostValue& value, tegula_value& out, ValueBlob& blob) {
    TypeTable& types = session.module()->types();
    switch (value.kind) {
        case HostValue::integer:
            if (value.i < INT64_MIN || value.i > static_cast<__int128>(UINT64_MAX)) return "it is an integer of more than 64 bits";
            out.kind = value.i > INT64_MAX ? TEGULA_UINT : TEGULA_INT;
            out.i = static_cast<int64_t>(static_cast<uint64_t>(value.i));
            return {};
        case HostValue::boolean:
            out.kind = TEGULA_INT, out.i = value.b;
            return {};
        case HostValue::real:
            out.kind = TEGULA_REAL, out.r = value.r;
            return {};
        case HostValue::type:
            blob.data = types.format(value.format).name;
            out.kind = TEGULA_TYPE, out.type = blob.data.c_str();
            return {};
        case HostValue::choice:
            blob.data = value.choice_of.text;
            out.kind = TEGULA_TYPE, out.type = blob.data.c_str();
            return {};
        case HostValue::tensor: {
            blob.tensor = std::make_shared<HostTensor>(*value.t);
            blob.tensor->charge = nullptr;
            HostTensor& t = *blob.tensor;
            if (t.memory) t.data = t.memory->data;
            t.memory = nullptr;
            blob.data = types.format(t.elem).name;
            blob.layout = types.layout(t.layout).name();
            blob.view.data = t.data.data();
            blob.view.bytes = t.data.size();
            blob.view.type = blob.data.c_str();
            blob.view.rank = t.extents.rank;
            blob.view.extents = t.extents.begin();
            blob.view.layout = blob.layout.c_str();
            blob.view.layout_hash = order_hash(types.layout(t.layout));  // items may come to mean another layout by its name
            blob.view.scales = t.scales.empty() ? nullptr : t.scales.data();
            blob.view.scales_bytes = t.scales.size();
            blob.view.tensor_scale = t.tensor_scale.empty() ? nullptr : t.tensor_scale.data();
            out.kind = TEGULA_TENSOR, out.tensor = &blob.view;
            return {};
        }
        default:
            return "it is " + host_kind_name(value.kind) + ", which hosts see as JSON";
    }
}

/// The variable's value of what a host gives; what is wrong with it, or empty.
std::string make_value(Session& session, const tegula_value& given, HostValue& out, DiagSink& sink) {
    LoadedModule& module = *session.module();
    std::string why;
    switch (kind_of(given)) {
        case TEGULA_INT:
            out.kind = HostValue::integer, out.i = given.i;
            return {};
        case TEGULA_UINT:
            out.kind = HostValue::integer, out.i = static_cast<__int128>(static_cast<uint64_t>(given.i));
            return {};
        case TEGULA_REAL:
            out.kind = HostValue::real, out.r = given.r;
            return {};
        case TEGULA_TYPE:
            if (const auto format = read_type(module, given.type, why)) out.kind = HostValue::type, out.format = *format;
            return why;
        case TEGULA_TENSOR: {
            if (!given.tensor) return "the tensor is NULL";
            out.kind = HostValue::tensor;
            const tegula_tensor& t = *given.tensor;
            TensorView view;
            if (!t.strides || t.device_type != TEGULA_HOST) return copy_array(module, t).into(out.t, why) ? std::string() : why;
            if (why = read_tensor(module, t, true, view); !why.empty()) return why;
            if (!make_tensor(module.types(), view.elem, module.types().intern(Layout::row()), view.extents, true).into(out.t, why)) return why;
            if (!copy_converted(*session.engine(), module, out.t->view(), view, sink, &why)) return why.empty() ? "it cannot be copied" : why;
            return {};
        }
    }
    return "its kind is none of tegula_value_kind";
}

}  // namespace

extern "C" {

tegula_status tegula_session_new(tegula_engine* engine, const char* directory, tegula_session** session, tegula_diags** diags) {
    if (session) *session = nullptr;
    if (const tegula_status wrong = check_handle(engine, diags)) return wrong;
    if (!session) return usage(diags, "session is NULL");
    return border(engine->engine, diags, [&](DiagSink&) {
        *session = new tegula_session(engine->engine, directory ? directory : "");
        return TEGULA_OK;
    });
}

tegula_status tegula_session_do(tegula_session* session, const char* verb, const char* name, const char* text, size_t size, size_t at,
                                const tegula_run_options* options, tegula_blob** json, tegula_diags** diags) {
    if (json) *json = nullptr;
    return in_turn(session, diags, [&](DiagSink& sink) -> tegula_status {
        const auto refuse = [&](const std::string& why) { return sink.report(Diag::api_usage, {}, {why}), TEGULA_E_USAGE; };
        if (!verb || (!text && size)) return refuse("verb or text is NULL");
        if (size > kMostText) {
            sink.report(Diag::source_too_large, {}, {std::to_string(size), std::to_string(kMostText)});
            return TEGULA_E_SOURCE;
        }
        const std::string_view wanted = verb;
        const std::string given(text ? text : "", size);
        Session& own = session->session;
        std::string out;
        tegula_status status = TEGULA_OK;
        if (wanted == "eval" || wanted == "show") {
            status = evaluate(*session, wanted == "eval", name, given, options, out, sink);
        } else if (wanted == "type") {
            status = to_status(own.type_of(given, cancel_flag(*session, *own.engine()), sink, out));
        } else if (wanted == "is_complete") {
            out = own.is_complete(given);
        } else if (wanted == "tokens") {
            out = own.tokens(given);
        } else if (wanted == "complete" || wanted == "inspect") {
            if (at > size) return refuse("the position is " + std::to_string(at) + ", behind the text's " + std::to_string(size) + " bytes");
            out = wanted == "complete" ? own.complete(given, at) : own.inspect(given, at);
        } else if (wanted == "variables") {
            out = own.variables();
        } else if (wanted == "items") {
            out = own.items();
        } else if (wanted == "history") {
            out = own.history();
        } else if (wanted == "undo") {
            const auto undone = own.undo();
            out = "{\"schema\":1,\"undone\":" + (undone ? std::to_string(*undone) : "null") + "}\n";
        } else if (wanted == "reset") {
            own.reset();
            out = "{\"schema\":1}\n";
        } else {
            return refuse("the verb is none of eval, show, type, is_complete, tokens, complete, inspect, variables, items, history, undo, reset");
        }
        if (status == TEGULA_OK && json) *json = make_blob(std::move(out));
        return status;
    });
}

tegula_status tegula_session_value(tegula_session* session, const char* name, const tegula_value* set, tegula_value* get, tegula_blob** storage,
                                   tegula_diags** diags) {
    if (storage) *storage = nullptr;
    if (get) *get = {};
    return in_turn(session, diags, [&](DiagSink& sink) -> tegula_status {
        if (!name || (!set && !get) || (get && !storage)) {
            sink.report(Diag::api_usage, {}, {"name, set and get, or the storage of get is NULL"});
            return TEGULA_E_USAGE;
        }
        Session& own = session->session;
        const auto refuse = [&](const std::string& why) { return sink.report(Diag::bad_tensor, {}, {printable(name), why}), TEGULA_E_ARGUMENTS; };
        if (set) {
            HostValue value;
            if (const std::string why = make_value(own, *set, value, sink); !why.empty()) return refuse(why);
            if (!own.set(name, std::move(value))) return refuse("this is no name that a variable can have");
        }
        if (!get) return TEGULA_OK;
        const HostValue* value = own.find(name);
        if (!value) return refuse("the session has no variable of this name");
        auto blob = std::make_unique<ValueBlob>();
        if (const std::string why = read_value(own, *value, *get, *blob); !why.empty()) {
            *get = {};
            return refuse(why);
        }
        *storage = blob.release();
        return TEGULA_OK;
    });
}

tegula_status tegula_session_module(tegula_session* session, tegula_module** module, tegula_diags** diags) {
    if (module) *module = nullptr;
    return in_turn(session, diags, [&](DiagSink& sink) -> tegula_status {
        if (!module) return sink.report(Diag::api_usage, {}, {"module is NULL"}), TEGULA_E_USAGE;
        auto handle = std::make_unique<tegula_module>();
        handle->module = session->session.module();
        *module = handle.release();
        return TEGULA_OK;
    });
}

}  // extern "C"
