// What a session tells of itself, as JSON: variables, items, inputs. See session.h.
#include <algorithm>

#include "jit/engine/session.h"
#include "lang/plain_text.h"

namespace tegula {

namespace {

constexpr size_t kShort = 3;  ///< values of a variable that is told with its text

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
        const auto former = prepared.replaced.find(item);
        const bool replaced = former != prepared.replaced.end();
        out += separator + ("{\"kind\":\"" + std::string(item_kind_name(item->kind))) + "\",\"name\":" + json_quote(item->name.text) +
               ",\"replaced\":" + (replaced ? "true,\"former\":" + std::to_string(former->second) : "false") + "}";
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
    return out + shown_json(runner, value, ShownAs::value) + "}\n";
}

std::string Session::variables() {
    DiagSink unheard;
    HostRunner runner(*engine_, *now_.module, {}, unheard);
    std::string out = "{\"schema\":1,\"variables\":[";
    const char* separator = "";
    for (const auto& [name, variable] : now_.variables) {
        const HostValue& value = *variable.value;
        std::string shown = value_json(runner, value, ShownAs::kind);
        shown.erase(0, 1);
        shown.pop_back();
        out += separator + ("{\"name\":" + json_quote(name)) + "," + shown + ",\"mutable\":" + (variable.is_var ? "true" : "false") +
               ",\"automatic\":" + (variable.automatic ? "true" : "false");
        if (variable.from) out += ",\"input\":" + std::to_string(variable.from->number) + ",\"at\":" + place_json(variable.name.span);
        if (leaves(value) <= kShort) out += ",\"text\":" + json_quote(value_text(runner, value, true));
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
    Input parsed = input->parsed;
    if (diags.has_errors() && !parsed.incomplete) {  // unless what looks like `a < b` becomes `a<b, c>(d)`
        DiagSink unheard(1);
        parsed = parse_input(engine_->sources(), input->source->id, input->arena, unheard, true);
    }
    const char* state = !diags.has_errors() ? "complete" : parsed.incomplete ? "incomplete" : "invalid";
    return "{\"schema\":1,\"state\":\"" + std::string(state) + "\",\"indent\":" + std::to_string(parsed.incomplete ? kIndent * parsed.open : 0) +
           "}\n";
}

}  // namespace tegula
