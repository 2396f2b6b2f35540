// Evaluating the texts of a session: each is parsed and checked as a whole, its statements run, and what it made is taken over at the end. See
// session.h.
#include "jit/engine/session.h"

#include <algorithm>
#include <map>

#include "jit/engine/host_checker.h"
#include "sema/host_statements.h"

namespace tegula {

namespace {

constexpr size_t kMostSteps = 100;                      ///< that can be undone
constexpr uint64_t kMostUndoBytes = uint64_t{1} << 30;  ///< of tensors and their former contents, beyond the last step
constexpr uint64_t kMostShown = 100;                    ///< inputs after which `_3` goes
constexpr size_t kMostPast = 10'000;                    ///< inputs that the history has, of
constexpr uint64_t kMostPastBytes = uint64_t{16} << 20;

bool is_block_of_tests(const ast::Item& item) { return item.kind == ast::ItemKind::test || item.kind == ast::ItemKind::bench; }

/// Items that replace one another: of the same name, tests and benches each among themselves.
bool same_place(const ast::Item& a, const ast::Item& b) {
    return a.name.text == b.name.text && (is_block_of_tests(a) || is_block_of_tests(b) ? a.kind == b.kind : true);
}

uint64_t bytes_of(const HostTensor& t) {
    return t.data.size() + t.scales.size() + t.tensor_scale.size() + t.initialised.size() + t.scales_initialised.size();
}

std::shared_ptr<const std::set<std::string_view>> words_of(std::string_view text) {
    const auto in_word = [](char c) { return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); };
    auto words = std::make_shared<std::set<std::string_view>>();
    for (size_t i = 0; i < text.size();) {
        poll();
        const size_t begin = i;
        while (i < text.size() && in_word(text[i])) ++i;
        if (i == begin)
            ++i;
        else
            words->insert(text.substr(begin, i - begin));
    }
    return words;
}

bool is_file_import(const ast::Item& item) { return item.kind == ast::ItemKind::import && ast::as<ast::ImportItem>(&item).is_path; }

void collect(const HostValue& value, std::set<const HostTensor*>& tensors) {
    if (value.t) tensors.insert(owner(value.t).get());
    for (const HostValue& item : value.items) collect(item, tensors);
}

}  // namespace

Session::Session(std::shared_ptr<Engine> engine, std::string directory)
    : engine_(std::move(engine)), directory_(std::move(directory)), imports_(std::make_unique<Engine::Loading>()) {
    reset();
}

void Session::reset() {
    DiagSink diags;
    steps_.clear();
    now_ = {};
    *imports_ = {};
    const InputPtr empty = parse("<session>", {}, 0, diags);
    now_.module = assemble({}, empty, nullptr, diags);
}

Session::InputPtr Session::parse(const std::string& name, std::string text, uint64_t number, DiagSink& diags) {
    auto input = std::make_shared<SessionInput>();
    diags.keep(input);
    input->number = number;
    input->source = engine_->sources().share(name, std::move(text));
    input->parsed = parse_input(engine_->sources(), input->source->id, input->arena, diags);
    return input;
}

std::string Session::item_text(const ast::Item& item) const {
    std::string out;
    for (std::string_view docs = item.docs; !docs.empty();) {
        const size_t end = std::min(docs.find('\n'), docs.size());
        out += "/// " + std::string(docs.substr(0, end)) + "\n";
        docs.remove_prefix(std::min(end + 1, docs.size()));
    }
    std::string text(engine_->sources().text(item.span));
    const bool has_end = text.ends_with(';') || text.ends_with('}');
    return out + text + (has_end ? "\n" : ";\n");
}

ModulePtr Session::assemble(std::span<const OwnItem> items, const InputPtr& input, const std::atomic<bool>* cancel, DiagSink& diags) {
    std::string whole;
    std::vector<const ast::Item*> list;
    for (const OwnItem& own : items) {
        poll();
        whole += (whole.empty() ? "" : "\n") + item_text(*own.item);
        list.push_back(own.item);
    }
    ModulePtr module =
        engine_->assemble(*imports_, engine_->sources().share("<session>", std::move(whole)), input->source, list, directory_, cancel, diags);
    module->inputs.push_back(input);
    for (const OwnItem& own : items)
        if (std::ranges::find(module->inputs, own.from) == module->inputs.end()) module->inputs.push_back(own.from);
    // What could not be loaded is asked for again with the next input.
    std::erase_if(imports_->done, [](const auto& known) { return !known.second; });
    return module;
}

std::set<const ast::Item*> Session::affected(std::span<const OwnItem> items, const InputPtr& input) const {
    const bool files = std::ranges::any_of(input->parsed.items->items, [](const ast::Item* item) { return is_file_import(*item); });
    std::set<const ast::Item*> out;
    std::vector<std::string_view> names;
    const auto add = [&](const OwnItem& own) {
        if (out.insert(own.item).second && !is_block_of_tests(*own.item)) names.push_back(own.item->name.text);
    };
    for (const OwnItem& own : items)
        if (own.from == input || (files && is_file_import(*own.item))) add(own);
    if (names.empty()) return out;
    std::multimap<std::string_view, const OwnItem*> users;
    for (const OwnItem& own : items) {
        poll();
        for (const std::string_view word : *own.words) users.emplace(word, &own);
    }
    for (size_t i = 0; i < names.size(); ++i) {
        const auto [first, last] = users.equal_range(names[i]);
        for (auto user = first; user != last; ++user) add(*user->second);
    }
    return out;
}

void Session::add_items(Prepared& prepared, const std::atomic<bool>* cancel, DiagSink& diags) {
    std::vector<OwnItem>& items = prepared.state.items;
    imports_->done = prepared.state.imports;
    std::multimap<std::string_view, size_t> former_items;  // by name; those of this input replace none of their own
    for (size_t i = 0; i < items.size(); ++i) former_items.emplace(items[i].item->name.text, i);
    for (const ast::Item* item : prepared.input->parsed.items->items) {
        poll();
        const OwnItem own{item, prepared.input, words_of(engine_->sources().text(item->span))};
        const auto [first, last] = former_items.equal_range(item->name.text);
        const auto former = std::find_if(first, last, [&](const auto& named) {
            const OwnItem& o = items[named.second];
            return o.from != prepared.input && same_place(*o.item, *item);
        });
        if (former != last) {
            prepared.replaced.emplace(item, items[former->second].from->number);
            items[former->second] = own;
        } else {
            items.push_back(own);
        }
        if (!is_block_of_tests(*item)) prepared.state.variables.erase(std::string(item->name.text));
        // Files may have changed since they were imported.
        if (is_file_import(*item)) std::erase_if(imports_->done, [](const auto& known) { return !known.first.starts_with("std."); });
    }
    const size_t before = diags.all().size();
    prepared.state.module = assemble(items, prepared.input, cancel, diags);
    prepared.state.imports = imports_->done;
    poll(cancel);
    if (!diags.has_errors()) {
        const std::set<const ast::Item*> wanted = affected(items, prepared.input);
        engine_->check_bodies(*prepared.state.module, diags, cancel, [&](const ast::Item& item) { return wanted.contains(&item); });
    }
    if (prepared.replaced.empty()) return;
    for (Diagnostic& d : std::span(diags.recorded()).subspan(std::min(before, diags.recorded().size()))) {
        // What is wrong within a call may be the caller's mistake.
        const bool in_call = std::ranges::find(d.notes, DiagNote::call, &DiagNote::kind) != d.notes.end();
        if (d.severity != Severity::error || d.span.file == prepared.input->source->id || in_call) continue;
        for (const OwnItem& own : items)
            if (own.item->span.file == d.span.file && own.item->span.begin <= d.span.begin && d.span.end <= own.item->span.end)
                d.notes.push_back(std::string(item_kind_name(own.item->kind)) + " `" + std::string(own.item->name.text) +
                                  "` depends on what this input replaces; give both in one input");
    }
}

/// Names, or with `values` all that is known of the statements without running them: also of the value that they show.
HostValue Session::check_statements(Prepared& prepared, bool values, const std::atomic<bool>* cancel, DiagSink& diags) {
    const Input& input = prepared.input->parsed;
    std::vector<sema::HostVariable> variables;
    for (const auto& [name, variable] : prepared.state.variables) variables.push_back({{name, variable.name.span}, variable.is_var});
    const bool good = sema::check_host_statements(*prepared.state.module, variables, input.statements, diags);
    if (!values && good) return {};
    std::set<const ast::KernelItem*> checked;
    HostChecker checker(*engine_, *prepared.state.module, diags, checked, cancel);
    for (const auto& [name, variable] : prepared.state.variables) checker.define(name, *variable.value);
    return checker.run(input.statements.first(input.statements.size() - (input.shown ? 1 : 0)), input.shown);
}

Status Session::type_of(std::string text, const std::atomic<bool>* cancel, DiagSink& diags, std::string& json) {
    try {
        const Interruptible scope(cancel);
        Prepared prepared = prepare("<input>", std::move(text), count_, cancel, diags);
        const HostValue known = diags.has_errors() ? HostValue{} : check_statements(prepared, true, cancel, diags);
        diags.sort();
        json = "{\"schema\":1,\"value\":" + (known.kind == HostValue::unit ? "null" : "{" + type_json(known) + "}") + "}\n";
        return diags.has_errors() ? Status::source : Status::ok;
    } catch (const Cancelled&) {
        diags.report(Diag::run_cancelled, {});
        return Status::cancelled;
    }
}

Session::Prepared Session::prepare(const std::string& name, std::string text, uint64_t number, const std::atomic<bool>* cancel, DiagSink& diags) {
    Prepared prepared{parse(name, std::move(text), number, diags), now_, {}};
    if (diags.has_errors()) return prepared;
    if (!prepared.input->parsed.items->items.empty()) add_items(prepared, cancel, diags);
    if (prepared.input->parsed.statements.empty()) return prepared;
    DiagSink found(engine_->options().max_errors);
    found.keep(prepared.input);
    check_statements(prepared, false, cancel, found);
    if (found.has_errors() && prepared.state.module->ast->file != prepared.input->source->id) {
        // A module that has seen this text knows what to offer for it.
        found = DiagSink(engine_->options().max_errors);
        found.keep(prepared.input);
        DiagSink unheard;
        imports_->done = prepared.state.imports;
        prepared.state.module = assemble(prepared.state.items, prepared.input, cancel, unheard);
        check_statements(prepared, false, cancel, found);
    }
    for (Diagnostic& d : found.take()) diags.add(std::move(d));
    return prepared;
}

/// Tries the changes that diagnostics offer, as for files.
void Session::offer_changes(const Prepared& prepared, const std::atomic<bool>* cancel, DiagSink& diags, size_t first) {
    const Engine::CheckText check = [&](const std::string& text, DiagSink& found) {
        Prepared changed = prepare(prepared.input->source->name, text, prepared.input->number, cancel, found);
        if (!found.has_errors() && !changed.input->parsed.statements.empty()) check_statements(changed, true, cancel, found);
        return changed.input->source;
    };
    engine_->settle_changes(prepared.input->source, check, diags, first);
}

Status Session::evaluate(const std::string& name, std::string text, LaunchOptions options, DiagSink& diags, std::string& json) {
    const uint64_t number = ++count_;
    past_.push_back({number, text, Status::source});
    past_bytes_ += text.size();
    while (past_.size() > kMostPast || (past_bytes_ > kMostPastBytes && past_.size() > 1)) {
        past_bytes_ -= past_.front().text.size();
        past_.pop_front();
    }
    return past_.back().status =
               attempt(name.empty() ? "<input " + std::to_string(number) + ">" : name, std::move(text), number, options, diags, json);
}

Status Session::show(const std::string& name, std::string text, LaunchOptions options, DiagSink& diags, std::string& json) {
    return attempt(name.empty() ? "<input>" : name, std::move(text), 0, options, diags, json);
}

Status Session::attempt(const std::string& name, std::string text, uint64_t number, const LaunchOptions& options, DiagSink& diags,
                        std::string& json) {
    // Former values give way to new ones.
    while (options.memory_budget && *held_ > options.memory_budget / 2 && steps_.size() > 1) steps_.pop_front();
    struct Attempt {
        Step step;
        bool kept = false;
        ~Attempt() {
            if (!kept) put_back(step);
        }
    } attempt{{number, now_, {}, 0}};
    Status status = Status::source;
    const size_t first = diags.all().size();
    try {
        const Interruptible scope(options.cancel);
        Prepared prepared = prepare(name, std::move(text), number, options.cancel, diags);
        if (!diags.has_errors()) status = run(prepared, options, diags, attempt.step, json);
        if (status == Status::ok && number) {
            now_ = std::move(prepared.state);
            attempt.kept = true;
            remember(std::move(attempt.step));
        } else if (status == Status::source || status == Status::arguments) {
            if (!diags.full()) offer_changes(prepared, options.cancel, diags, first);
            diags.sort();
        }
    } catch (const HostStopped& stopped) {
        status = stopped.status;
    } catch (const Cancelled&) {
        diags.report(Diag::run_cancelled, {});
        status = Status::cancelled;
    } catch (const std::bad_alloc&) {
        diags.report(Diag::host_memory, {});
        status = Status::run;
    }
    return status;
}

Status Session::run(Prepared& prepared, const LaunchOptions& options, DiagSink& diags, Step& step, std::string& json) {
    poll(options.cancel);
    HostRunner runner(*engine_, *prepared.state.module, options, diags, held_);
    std::set<const HostTensor*> known;
    for (const auto& [name, variable] : prepared.state.variables) {
        collect(*variable.value, known);
        runner.define(name, *variable.value);
    }
    runner.set_before_write([&](const std::shared_ptr<HostTensor>& tensor) {
        if (!known.erase(tensor.get())) return;  // made by this input, or kept already
        step.contents.emplace_back(tensor, *tensor);
        step.bytes += bytes_of(*tensor);
    });
    HostValue value;
    const Input& input = prepared.input->parsed;
    const Status status = runner.run_input(input.statements, input.shown, value);
    if (status == Status::source || status == Status::arguments) check_statements(prepared, true, options.cancel, diags);
    if (status != Status::ok) return status;
    if (prepared.input->number) {
        keep(prepared, runner, value);
        json = outcome(prepared, runner, value);
        return Status::ok;
    }
    json = "{\"schema\":1,\"launch_seconds\":" + HostRunner::number_text(runner.launch_seconds()) +
           ",\"value\":" + (value.kind == HostValue::unit ? "null" : shown_json(runner, value, ShownAs::codes)) + "}\n";
    return Status::ok;
}

void Session::keep(Prepared& prepared, const HostRunner& runner, const HostValue& value) {
    Variables& variables = prepared.state.variables;
    const Input& input = prepared.input->parsed;
    for (const ast::Stmt* stmt : input.statements) {
        if (stmt->kind != ast::StmtKind::let) continue;
        const auto& let = ast::as<ast::LetStmt>(stmt);
        for (const ast::Name& name : let.pattern.names)
            if (const HostValue* made = runner.variable(name.text); made && name.text != "_")  // it may stand behind a `return`
                variables[std::string(name.text)] = {std::make_shared<HostValue>(*made), let.is_var, name, prepared.input, false};
    }
    for (const std::string& name : runner.assigned())
        if (const auto it = variables.find(name); it != variables.end()) it->second.value = std::make_shared<HostValue>(*runner.variable(name));
    if (value.kind == HostValue::unit) return;
    std::erase_if(variables, [&](const auto& v) { return v.second.automatic && v.second.from->number + kMostShown <= prepared.input->number; });
    const auto shown = std::make_shared<HostValue>(value);
    for (const std::string& name : {std::string("ans"), "_" + std::to_string(prepared.input->number)})
        variables[name] = {shown, false, {{}, input.shown->span}, prepared.input, true};
}

void Session::put_back(Step& step) {
    for (auto& [tensor, former] : step.contents) *tensor = std::move(former);
    step.contents.clear();
}

void Session::remember(Step step) {
    steps_.push_back(std::move(step));
    const auto spent = [&] {
        uint64_t bytes = *held_;
        for (const Step& s : steps_) bytes += s.bytes;
        return bytes;
    };
    while (steps_.size() > kMostSteps || (steps_.size() > 1 && spent() > kMostUndoBytes)) steps_.pop_front();
}

std::optional<uint64_t> Session::undo() {
    if (steps_.empty()) return std::nullopt;
    Step step = std::move(steps_.back());
    steps_.pop_back();
    put_back(step);
    now_ = std::move(step.before);
    return step.number;
}

const HostValue* Session::find(std::string_view name) const {
    const auto it = now_.variables.find(name);
    return it == now_.variables.end() ? nullptr : it->second.value.get();
}

bool Session::set(std::string_view name, HostValue value) {
    DiagSink diags;
    Arena arena;
    const SourcePtr text = engine_->sources().share("<name>", std::string(name));
    const ast::Expr* parsed = parse_expression(engine_->sources(), text->id, arena, diags);
    if (!parsed || parsed->kind != ast::ExprKind::name || ast::as<ast::NameExpr>(parsed).name != name || name == "_") return false;
    std::string unheard;
    if (value.t && !TensorBudget{0, held_}.take(bytes_of(*value.t), value.t->charge, unheard)) return false;
    remember({count_, now_, {}, 0});
    now_.variables[std::string(name)] = {std::make_shared<HostValue>(std::move(value)), true, {}, nullptr, false};
    return true;
}

}  // namespace tegula
