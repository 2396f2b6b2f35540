// What a session tells of itself, as JSON: values, variables, items, inputs. See session.h.
#include <algorithm>

#include "jit/engine/session.h"
#include "lang/plain_text.h"

namespace tegula {

namespace {

constexpr size_t kWhole = 1000;  ///< values that are shown one by one
constexpr size_t kEdge = 3;      ///< at each end of what is longer

size_t leaves(const HostValue& value) {
    if (value.kind == HostValue::tensor) return static_cast<size_t>(value.t->extents.elements());
    size_t count = value.kind == HostValue::tuple ? 0 : 1;
    for (const HostValue& item : value.items) count += leaves(item);
    return count;
}

const char* kind_word(HostValue::Kind kind) {
    static constexpr const char* kWords[] = {"unit", "tensor", "integer", "real", "bool", "text", "tuple", "layout", "type", "word"};
    return kWords[kind];
}

/// JSON has no NaN and no infinity: texts.
std::string number_json(const std::string& text) {
    return text.find_first_not_of("+-.e0123456789") == text.npos || text == "true" || text == "false" ? text : json_quote(text);
}

const char* status_word(Status status) {
    switch (status) {
        case Status::ok:
            return "ok";
        case Status::cancelled:
            return "cancelled";
        default:
            return "failed";
    }
}

}  // namespace

std::string Session::type_text(const HostValue& value) const {
    TypeTable& types = now_.module->types();
    switch (value.kind) {
        case HostValue::tensor: {
            std::string out = types.format(value.t->elem).name;
            if (value.t->extents.rank) out += to_string(value.t->extents);
            if (value.t->layout.v) out += " @ " + types.layout(value.t->layout).name();
            return out;
        }
        case HostValue::integer:
            return "int";
        case HostValue::real:
            return "real";
        case HostValue::boolean:
            return "bool";
        case HostValue::tuple: {
            std::string out;
            for (size_t i = 0; i < value.items.size(); ++i) {
                const bool cut = value.items.size() > 2 * kEdge + 1;
                if (cut && i == kEdge) out += ", ..";
                if (!cut || i < kEdge || i >= value.items.size() - kEdge) out += (out.empty() ? "" : ", ") + type_text(value.items[i]);
            }
            return "(" + out + (value.items.size() == 1 ? ",)" : ")");
        }
        default:
            return kind_word(value.kind);
    }
}

std::string Session::value_text(HostRunner& runner, const HostValue& value, bool whole) const {
    if (value.kind == HostValue::tensor) {
        if (!fully_written(now_.module->types(), value.t->view())) return "(not all of it is written)";
        const auto elements = runner.elements_of(value);
        return elements ? tile_text(now_.module->types(), *elements) : "(block format)";
    }
    if (value.kind == HostValue::text) return json_quote(value.s);
    if (value.kind != HostValue::tuple) return runner.text_of(value);
    std::string out;
    for (size_t i = 0; i < value.items.size(); ++i) {
        const bool cut = !whole && value.items.size() > 2 * kEdge + 1;
        if (cut && i == kEdge) out += ", ..";
        if (!cut || i < kEdge || i >= value.items.size() - kEdge) out += (out.empty() ? "" : ", ") + value_text(runner, value.items[i], whole);
    }
    return "(" + out + (value.items.size() == 1 ? ",)" : ")");
}

std::string Session::type_json(const HostValue& value) const {
    TypeTable& types = now_.module->types();
    std::string out = "\"kind\":\"" + std::string(kind_word(value.kind)) + "\",\"type\":" + json_quote(type_text(value));
    if (value.kind != HostValue::tensor) return out;
    out += ",\"element\":" + json_quote(types.format(value.t->elem).name) + ",\"layout\":" + json_quote(types.layout(value.t->layout).name()) +
           ",\"extents\":[";
    for (size_t i = 0; i < value.t->extents.rank; ++i) out += (i ? "," : "") + std::to_string(value.t->extents[i]);
    return out + "]";
}

std::string Session::value_json(HostRunner& runner, const HostValue& value, bool whole) const {
    TypeTable& types = now_.module->types();
    std::string out = "{" + type_json(value);
    switch (value.kind) {
        case HostValue::tensor: {
            const TensorView view = value.t->view();
            const bool written = fully_written(types, view);
            out += ",\"bytes\":" + std::to_string(view.bytes + view.scales_bytes + value.t->tensor_scale.size()) +
                   ",\"written\":" + (written ? "true" : "false");
            const auto elements = written && whole ? runner.elements_of(value) : std::nullopt;
            if (!elements) break;
            const size_t width = types.format(elements->elem).container_bytes();
            out += ",\"elements\":[";
            for (size_t i = 0; i * width < elements->bytes.size(); ++i) {
                const auto at = elements->bytes.begin() + static_cast<ptrdiff_t>(i * width);
                out += (i ? "," : "") + number_json(tile_text(types, {elements->elem, {}, {at, at + static_cast<ptrdiff_t>(width)}}));
            }
            out += "]";
            break;
        }
        case HostValue::integer:
        case HostValue::real:
        case HostValue::boolean:
            out += ",\"value\":" + number_json(runner.text_of(value));
            break;
        case HostValue::text:
        case HostValue::layout:
        case HostValue::type:
        case HostValue::choice:
            out += ",\"value\":" + json_quote(runner.text_of(value));
            break;
        case HostValue::tuple:
            out += ",\"count\":" + std::to_string(value.items.size());
            if (!whole) break;
            out += ",\"items\":[";
            for (size_t i = 0; i < value.items.size(); ++i) out += (i ? "," : "") + value_json(runner, value.items[i], whole);
            out += "]";
            break;
        case HostValue::unit:
            break;
    }
    return out + "}";
}

std::string Session::place_json(Span span) const {
    const LineCol at = engine_->sources().line_col(span.file, span.begin);
    return "{\"name\":" + json_quote(engine_->sources().name(span.file)) + ",\"line\":" + std::to_string(at.line) +
           ",\"column\":" + std::to_string(at.column) + "}";
}

std::string Session::outcome(const Prepared& prepared, HostRunner& runner, const HostValue& value) const {
    const Input& input = prepared.input->parsed;
    std::string out = "{\"schema\":1,\"input\":" + std::to_string(prepared.input->number) + ",\"name\":" + json_quote(prepared.input->source->name) +
                      ",\"items\":[";
    const char* separator = "";
    for (const ast::Item* item : input.items->items) {
        const bool replaced = std::ranges::find(prepared.replaced, item->name.text) != prepared.replaced.end();
        out += separator + ("{\"kind\":\"" + std::string(item_kind_name(item->kind))) + "\",\"name\":" + json_quote(item->name.text) +
               ",\"replaced\":" + (replaced ? "true" : "false") + "}";
        separator = ",";
    }
    std::set<std::string_view> names(runner.assigned().begin(), runner.assigned().end());
    for (const ast::Stmt* stmt : input.statements)
        if (stmt->kind == ast::StmtKind::let)
            for (const ast::Name& name : ast::as<ast::LetStmt>(stmt).pattern.names)
                if (prepared.state.variables.contains(name.text)) names.insert(name.text);
    out += "],\"variables\":[";
    separator = "";
    for (const std::string_view name : names) {
        out += separator + json_quote(name);
        separator = ",";
    }
    out += "],\"launch_seconds\":" + HostRunner::number_text(runner.launch_seconds()) + ",\"value\":";
    if (value.kind == HostValue::unit) return out + "null}\n";
    const bool whole = leaves(value) <= kWhole;
    std::string shown = value_json(runner, value, whole);
    shown.pop_back();
    return out + shown + ",\"text\":" + json_quote(value_text(runner, value, whole)) + "}}\n";
}

std::string Session::variables() {
    DiagSink unheard;
    HostRunner runner(*engine_, *now_.module, {}, unheard);
    std::string out = "{\"schema\":1,\"variables\":[";
    const char* separator = "";
    for (const auto& [name, variable] : now_.variables) {
        const HostValue& value = *variable.value;
        std::string shown = value_json(runner, value, false);
        shown.erase(0, 1);
        shown.pop_back();
        out += separator + ("{\"name\":" + json_quote(name)) + "," + shown + ",\"mutable\":" + (variable.is_var ? "true" : "false") +
               ",\"automatic\":" + (variable.automatic ? "true" : "false");
        if (variable.from) out += ",\"input\":" + std::to_string(variable.from->number) + ",\"at\":" + place_json(variable.name.span);
        if (leaves(value) <= kEdge) out += ",\"text\":" + json_quote(value_text(runner, value, true));
        out += "}";
        separator = ",";
    }
    return out + "]}\n";
}

std::string Session::items() const {
    std::string out = "{\"schema\":1,\"items\":[";
    const char* separator = "";
    for (const OwnItem& own : now_.items) {
        out += separator + ("{\"kind\":\"" + std::string(item_kind_name(own.item->kind))) + "\",\"name\":" + json_quote(own.item->name.text) +
               ",\"signature\":" + json_quote(item_signature(*own.item, engine_->sources())) + ",\"input\":" + std::to_string(own.from->number) +
               ",\"at\":" + place_json(own.item->span) + "}";
        separator = ",";
    }
    return out + "],\"text\":" + json_quote(now_.module->source->text) + "}\n";
}

std::string Session::history() const {
    std::string out = "{\"schema\":1,\"inputs\":[";
    for (size_t i = 0; i < past_.size(); ++i)
        out += (i ? ",{" : "{") + ("\"input\":" + std::to_string(past_[i].number)) + ",\"status\":\"" + status_word(past_[i].status) +
               "\",\"text\":" + json_quote(past_[i].text) + "}";
    return out + "]}\n";
}

std::string Session::is_complete(const std::string& text) {
    constexpr uint32_t kIndent = 4;
    DiagSink diags(1);
    const InputPtr input = parse("<input>", text, 0, diags);
    const char* state = !diags.has_errors() ? "complete" : input->parsed.incomplete ? "incomplete" : "invalid";
    return "{\"schema\":1,\"state\":\"" + std::string(state) +
           "\",\"indent\":" + std::to_string(input->parsed.incomplete ? kIndent * input->parsed.open : 0) + "}\n";
}

}  // namespace tegula
