// See front.h.
#include "front.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "commands.h"
#include "prompts.h"
#include "serve.h"
#include "tools/files.h"
#include "tools/outside.h"
#include "tools/terminal.h"

namespace tegula_tool::repl {

namespace {

constexpr int64_t kTwice = 2000;  ///< milliseconds between interrupts of somebody who wants to leave

// Signal handlers reach static state only; a process has one console.
std::atomic<Evaluator*> g_running{nullptr};
std::atomic<bool> g_interrupted{false};

void on_ctrl_c(int) {
    g_interrupted.store(true);
    if (Evaluator* evaluator = g_running.load()) evaluator->interrupt();
}

void on_end(int) {
    edit::restore_terminal();
    erase_progress();
    ::_exit(interrupted);
}

/// Handlers that hold while something is evaluated; what was there before comes back.
class Signals {
public:
    Signals() {
        struct sigaction action {};
        action.sa_handler = on_ctrl_c;
        action.sa_flags = SA_RESTART;
        ::sigaction(SIGINT, &action, nullptr);
        action.sa_handler = on_end;
        ::sigaction(SIGTERM, &action, nullptr);
        ::sigaction(SIGHUP, &action, nullptr);
        ::signal(SIGPIPE, SIG_IGN);  // of standard output: seen after each input; of the process of --isolate: its end
    }
};

edit::Colour colour_of(const std::string& kind) {
    static const std::map<std::string, edit::Colour, std::less<>> kColours = {
        {"keyword", edit::Colour::keyword},    {"type", edit::Colour::type},         {"layout", edit::Colour::type},
        {"constant", edit::Colour::number},    {"number", edit::Colour::number},     {"string", edit::Colour::string},
        {"comment", edit::Colour::comment},    {"function", edit::Colour::function}, {"attribute", edit::Colour::attribute},
        {"operator", edit::Colour::operation}, {"invalid", edit::Colour::error},
    };
    const auto it = kColours.find(kind);
    return it == kColours.end() ? edit::Colour::plain : it->second;
}

/// How many more brackets open in it than close.
int64_t brackets(std::string_view text) {
    int64_t open = 0;
    for (const char c : text) open += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
    return open;
}

/// The text without `<..>` and `[..]` at its end, which stand behind the name of what is called.
std::string_view without_groups(std::string_view text) {
    while (text.ends_with('>') || text.ends_with(']')) {
        size_t depth = 0, at = text.size();
        const char closed = text.back(), open = closed == '>' ? '<' : '[';
        do {
            --at;
            if (text[at] == closed) ++depth;
            if (text[at] == open) --depth;
        } while (at > 0 && depth > 0);
        if (depth > 0) return text;
        text = text.substr(0, at);
    }
    return text;
}

}  // namespace

Front::Front(Session& tool, Evaluator& evaluator, bool colour)
    : tool_(tool), evaluator_(evaluator), colour_(colour), keeps_going_(tool.options.keep_going) {
    static const Signals signals;
    (void)signals;
}

void Front::show(const Json& event) {
    const std::string what = event["event"], text = event.value("text", "");
    if (what == "progress") return tool_.options.quiet ? void() : show_count(event["done"], event["all"]);
    if (what == "done") return erase_progress();
    erase_progress();
    if (json_) {
        std::fputs(line_of(event).c_str(), stdout);
    } else if (what == "diagnostic") {
        std::fflush(stdout);
        std::fputs(text.c_str(), stderr);
    } else if (what == "print") {
        print_lines(text, stdout);
    } else {
        std::fputs((text.ends_with('\n') ? text : text + "\n").c_str(), stdout);
    }
}

int Front::fail(Exit code, const std::string& message) {
    std::fflush(stdout);
    return tool_.fail(code, message);
}

void Front::note_interrupt() {
    const int64_t at = now();
    if (interrupted_at_ && at - interrupted_at_ < kTwice) std::fputs("Ctrl-D on an empty line, or :quit, ends the console\n", stderr);
    interrupted_at_ = at;
}

int Front::evaluate(const std::string& text) {
    g_interrupted.store(false);
    g_running.store(&evaluator_);
    const size_t width = editor_ ? editor_->width() : 80;
    const Json done = evaluator_.request({{"op", "eval"}, {"text", text}, {"width", width}}, [this](const Json& event) { show(event); });
    g_running.store(nullptr);
    next_ = done.value("next", next_);
    watched_.clear();
    for (const Json& file : done.value("watched", Json::array())) watched_[file["path"]] = file["changed"];
    if (g_interrupted.load() && editor_) note_interrupt();
    return done.value("code", static_cast<int>(internal));
}

int Front::run(const std::string& text) {
    int code = ok;
    if (has_prompts(text)) {
        transcript_ = !editor_;
    } else if (transcript_) {
        return ok;  // an answer that stands in the transcript
    }
    for (const std::string& input : inputs_of(text)) {
        int one = ok;
        if (is_command(input) && others_ && tool_.options.untrusted)
            one = fail(usage, "with --untrusted commands are taken from the keyboard and -e alone: `" + input.substr(0, 60) + "`");
        else if (!is_blank(input) && !own(input, one))
            one = evaluate(input);
        if (code == ok) code = one;
        if (!going_on(one)) break;
    }
    std::fflush(stdout);
    if (std::ferror(stdout)) quitting_ = true, code = code == ok ? io : code;
    return code;
}

int Front::read(int fd, bool person) {
    edit::Options options;
    options.in = fd;
    options.out = STDOUT_FILENO;
    options.plain = !person || tool_.options.plain;
    options.colour = colour_;
    if (person && !tool_.options.no_history) options.history = edit::default_history();
    edit::Editor editor(*this, options);
    editor_ = person ? &editor : nullptr;
    others_ = !person;
    int code = ok;
    while (!quitting_) {
        if (const std::string note = person ? editor.take_note() : ""; !note.empty()) tool_.note(note);
        for (const Json& event : std::exchange(later_, {})) show(event);
        std::fflush(stdout);
        const edit::Line line = editor.read(prompt_text(next_));
        if (line.kind == edit::Line::Kind::interrupted) note_interrupt();
        if (line.kind == edit::Line::Kind::ended) break;
        if (line.kind != edit::Line::Kind::text) continue;
        const int one = run(line.text);
        if (code == ok) code = one;
        if (!person && !going_on(one)) break;
    }
    editor_ = nullptr;
    transcript_ = others_ = false;
    return person ? (std::ferror(stdout) ? static_cast<int>(io) : static_cast<int>(ok)) : code;
}

int Front::run_file(const std::string& path) {
    if (path == "-") return read(STDIN_FILENO, false);
    std::string error;
    const auto text = read_file(path, kMostFile, error);
    if (!text) return fail(io, error);
    bool typed = !tool_.options.untrusted && has_prompts(*text);
    for (size_t at = 0; at < text->size() && !typed; at = std::min(text->find('\n', at), text->size() - 1) + 1)
        typed = !tool_.options.untrusted && (*text)[at] == ':' && at + 1 < text->size() &&
                (((*text)[at + 1] | 32) >= 'a' && ((*text)[at + 1] | 32) <= 'z');
    if (!typed) {
        const int code = evaluate(":load " + path);
        std::fflush(stdout);
        return code;
    }
    const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    return file.fd < 0 ? fail(io, path + ": " + system_error(errno)) : read(file.fd, false);
}

bool Front::own(const std::string& text, int& code) {
    if (!is_command(text)) return false;
    const std::string all = trimmed(text);
    if (all.starts_with('!')) return code = shell(trimmed(all.substr(1))), true;
    std::string unheard;
    const Command* command = find_command(command_word(all), unheard);
    if (!command || command->run) return false;
    const std::string operands = trimmed(std::string_view(all).substr(std::min(all.find_first_of(" \t\n"), all.size())));
    if (command->name == "quit") {
        quitting_ = true;
    } else if (command->name == "edit") {
        code = edit_item(operands);
    } else if (command->name == "json") {
        if (operands != "on" && operands != "off") return code = fail(usage, ":json takes on or off"), true;
        json_ = operands == "on";
    }
    return true;
}

int Front::shell(const std::string& command) {
    if (!tool_.options.shell_commands) return fail(usage, "commands of the shell are for a console that was begun with --shell");
    std::fflush(stdout);
    const int status = std::system(command.c_str());
    if (status == 0) return ok;
    return fail(run_failed,
                status > 0 && WIFEXITED(status) ? "the command ended with code " + std::to_string(WEXITSTATUS(status)) : "the command failed");
}

int Front::edit_item(const std::string& name) {
    // The text: of an input by its number, of the input that an item came from, else none.
    std::string text;
    Json inputs = ask("history", {}, 0), items = ask("items", {}, 0);
    std::string number = name;
    for (const Json& item : items.value("items", Json::array()))
        if (item["name"] == name) number = std::to_string(item["input"].get<uint64_t>());
    const Json variables = ask("vars", {}, 0);
    for (const Json& variable : variables.value("variables", Json::array()))
        if (variable["name"] == name && variable.contains("input")) number = std::to_string(variable["input"].get<uint64_t>());
    bool found = name.empty();
    for (const Json& input : inputs.value("inputs", Json::array()))
        if (name.empty() || std::to_string(input["input"].get<uint64_t>()) == number) text = input["text"], found = true;
    if (!found) return fail(usage, "there is no item and no input `" + name + "`");
    std::fflush(stdout);
    std::string changed = text;
    if (const std::string why = tegula_tool::edit_outside(changed); !why.empty()) return fail(run_failed, why);
    return changed == text || is_blank(changed) ? static_cast<int>(ok) : run(changed);
}

int Front::idle_after() {
    constexpr int kLook = 300;
    return watched_.empty() ? -1 : kLook;
}

bool Front::is_due() {
    return std::ranges::any_of(watched_, [](const auto& file) {
        const int64_t now = changed_at(file.first);
        return now >= 0 && now != file.second;
    });
}

/// An input of nothing: files that have changed are loaded before every input.
std::string Front::idle() {
    evaluate({});
    std::fflush(stdout);
    return prompt_text(next_);
}

std::string Front::edit_outside(std::string& text) { return tegula_tool::edit_outside(text); }

Json Front::ask(const char* op, std::string_view text, size_t at) {
    Json result;
    evaluator_.request({{"op", op}, {"text", std::string(text)}, {"pos", at}}, [&](Json event) {
        if (event["event"] == "done")
            result = event.contains("result") ? std::move(event["result"]) : Json();
        else if (event["event"] == "diagnostic" && event["diagnostic"]["code"] == "" && event["diagnostic"]["level"] == "error")
            later_.push_back(std::move(event));  // what the process of --isolate has come to
    });
    return result;
}

std::vector<edit::Span> Front::colours(std::string_view text) {
    std::vector<edit::Span> out;
    if (!colour_ || is_command(text)) return out;
    const Json found = ask("tokens", text, text.size());
    if (!found.is_object()) return out;
    for (const Json& token : found["tokens"]) {
        const edit::Colour colour = colour_of(token.value("kind", ""));
        if (colour != edit::Colour::plain) out.push_back({token["begin"], token["end"], colour});
    }
    return out;
}

edit::Completion Front::complete(std::string_view text, size_t at) {
    edit::Completion out{at, at, {}};
    const Json found = ask("complete", text, at);
    if (!found.is_object()) return out;
    out.begin = found["begin"];
    out.end = found["end"];
    for (const Json& c : found["candidates"]) {
        const std::string kind = c["kind"], type = c["type"];
        out.candidates.push_back({c["text"], type.empty() ? kind : type, c["doc"]});
    }
    return out;
}

/// The signature of the function or kernel whose argument list is open at `at`.
std::string Front::hint(std::string_view text, size_t at) {
    if (is_command(text)) {
        std::string unheard;
        const std::string_view word = command_word(text);
        const Command* c = find_command(word, unheard);
        return c && text.ends_with(' ') && trimmed(text).size() == word.size() + 1 ? std::string(c->operands) : "";
    }
    size_t depth = 0, open = text.npos;
    for (size_t i = std::min(at, text.size()); i-- > 0 && open == text.npos;) {
        if (text[i] == ')' || text[i] == ']' || text[i] == '}') ++depth;
        if (text[i] == '(' || text[i] == '[' || text[i] == '{') {
            if (depth == 0 && text[i] != '(') return {};
            if (depth-- == 0) open = i;
        }
    }
    if (open == text.npos || open == 0) return {};
    const std::string_view called = text.substr(0, open);
    if (called != hint_text_ || hint_text_.empty()) {
        hint_text_ = called;
        hint_.clear();
        const std::string_view name = without_groups(called);
        const Json found = ask("inspect", name, name.size());
        if (found.is_object() && found["found"].is_object()) hint_ = found["found"].value("type", "");
    }
    return hint_;
}

edit::Completeness Front::is_complete(std::string_view text) {
    const std::string given(text);
    if (transcript_ && !has_prompts(given)) return {true, 0};
    const std::string last = inputs_of(given).back();
    if (is_blank(last)) return {true, 0};
    // A long input that is read line by line would be parsed as often as it has lines. Lines that hold neither texts nor comments are counted alone,
    // as long as brackets stay open.
    if (!editor_ && open_ > 0 && last.size() > seen_.size() && last.starts_with(seen_)) {
        const std::string_view added = std::string_view(last).substr(seen_.size());
        const int64_t open = open_ + brackets(added);
        if (added.find_first_of("\"'/*\\") == added.npos && open > 0) {
            seen_ = last, open_ = open;
            return {false, 0};
        }
    }
    const Json found = ask("is_complete", last, last.size());
    if (!found.is_object()) return {true, 0};
    const bool complete = found["state"] != "incomplete";
    const auto indent = found["indent"].get<size_t>();
    constexpr size_t kIndent = 4;
    seen_ = last;
    open_ = !complete && brackets(last) == static_cast<int64_t>(indent / kIndent) ? brackets(last) : 0;
    return {complete, indent};
}

}  // namespace tegula_tool::repl
