#include "server.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "../files.h"
#include "../terminal.h"
#include "members.h"

namespace tegula_tool {

int serve_editor(Session& session) { return lsp::Server(session, STDIN_FILENO, STDOUT_FILENO, session.options.log).run(); }

}  // namespace tegula_tool

namespace tegula_tool::lsp {

using namespace members;

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kQuiet = std::chrono::milliseconds(150);  ///< after an edit, before diagnostics
constexpr auto kCalm = std::chrono::milliseconds(700);   ///< after that, before kernels are compiled for notes
constexpr size_t kMostFiles = 5000;                      ///< of a workspace
constexpr size_t kMostWaiting = 100'000;                 ///< messages: the reader waits while there are so many
constexpr size_t kMostWorkers = 4;

/// What a client can be told to ask for again: where its capabilities say so, and by which request.
struct Refresh {
    const char *capability, *method;
};
constexpr Refresh kRefreshes[] = {{"diagnostics", "workspace/diagnostic/refresh"},
                                  {"semanticTokens", "workspace/semanticTokens/refresh"},
                                  {"inlayHint", "workspace/inlayHint/refresh"},
                                  {"codeLens", "workspace/codeLens/refresh"}};

}  // namespace

Server::Server(Session& session, int in, int out, const std::string& log)
    : session_(session),
      transport_(in, out, log),
      engine_(session.engine),
      workspace_(engine_.workspace().value()),
      pool_(std::clamp<size_t>(std::thread::hardware_concurrency() / 2, 2, kMostWorkers)) {}

Server::~Server() {
    tegula_cancel(engine_.c(), 1);
    pool_.stop();
}

// ---- threads ----

void Server::read_all() {
    json message;
    while (transport_.read(message)) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return queue_.size() < kMostWaiting; });
        const bool cancels = text_at(message, "method") == "$/cancelRequest";
        const std::string id = cancels ? member(member(message, "params"), "id").dump(-1, ' ', false, json::error_handler_t::replace) : std::string();
        // Work behind the scenes gives way to whatever comes; a request ends when the client says so.
        if (in_background_ || (cancels && !running_.empty() && id == running_)) workspace_.cancel();
        if (cancels)
            cancelled_.insert(id);
        else
            queue_.push_back(std::move(message));
        wake_.notify_all();
        lock.unlock();
        if (cancels) pool_.cancel(member(member(message, "params"), "id"));
    }
    const std::lock_guard lock(mutex_);
    closed_ = true;
    if (in_background_) workspace_.cancel();
    wake_.notify_all();
}

/// The next message; false: there are no more. Does what waits for quiet meanwhile.
bool Server::next(json& message) {
    std::unique_lock lock(mutex_);
    for (;;) {
        if (!returned_.empty()) {
            const std::function<void()> work = std::move(returned_.front());
            returned_.pop_front();
            lock.unlock();
            work();
            lock.lock();
            continue;
        }
        if (!queue_.empty()) {
            message = std::move(queue_.front());
            queue_.pop_front();
            wake_.notify_all();
            return true;
        }
        if (closed_) return false;
        Clock::time_point when;
        if (!background_is_due(when)) {
            cancelled_.clear();
            wake_.wait(lock);
        } else if (Clock::now() < when) {
            wake_.wait_until(lock, when);
        } else {
            in_background_ = true;
            workspace_.cancel(false);
            lock.unlock();
            in_background();
            lock.lock();
            in_background_ = false;
            workspace_.cancel(false);
        }
    }
}

int Server::run() {
    std::thread reader([this] { read_all(); });
    json message;
    while (!ended_ && next(message)) handle(message);
    transport_.stop();
    {
        const std::lock_guard lock(mutex_);
        queue_.clear();  // the reader may wait for room
        wake_.notify_all();
    }
    reader.join();
    return shut_ ? ok : source;
}

/// The request in progress is answered by the pool.
void Server::later(std::function<json(Job&)> work, How how) {
    auto job = std::make_shared<Job>(transport_, request_, progress_);
    {
        const std::lock_guard lock(mutex_);  // a cancellation that came before the pool knew of the request
        if (cancelled_.contains(running_)) throw Failure{request_cancelled, "the client has cancelled it"};
        if (!pool_.add({std::move(job), std::move(work), how})) throw Failure{request_failed, "too many requests wait already"};
    }
    answered_later_ = true;
}

/// Tells the client what to ask for again.
void Server::refresh() {
    const unsigned now = std::exchange(stale_, 0) & refreshes_;
    for (unsigned i = 0; i < std::size(kRefreshes); ++i)
        if (now & (1u << i)) transport_.ask("tegula-" + std::to_string(++asked_), kRefreshes[i].method);
}

bool Server::background_is_due(Clock::time_point& when) const {
    bool any = false;
    for (const auto& [uri, d] : documents_)
        if (d.due || d.settle || d.note) when = any ? std::min(when, d.when) : d.when, any = true;
    return any;
}

void Server::in_background() {
    for (auto& [uri, d] : documents_) {
        if (!d.due && !d.settle && !d.note) continue;
        if (Clock::now() < d.when) continue;
        try {
            if (d.due || d.settle) {
                const bool first = d.due;
                publish(d, !first);
                (first ? d.due : d.settle) = false;
                d.note = hints_on_ && std::ranges::none_of(d.found, [](const json& found) { return found["level"] == "error"; });
                d.when = Clock::now() + kCalm;
            } else {
                find_notes(d);
                d.note = false;
            }
        } catch (const Failure& failure) {
            if (failure.code == request_cancelled) return;  // an edit or a request came: later
            d.due = d.settle = d.note = false;
        }
    }
    texts_.clear();
    refresh();
}

// ---- messages ----

void Server::handle(const json& message) {
    const json& id = member(message, "id");
    const bool has_id = message.is_object() && message.contains("id");
    if (!message.is_object() || (has_id && !id.is_string() && !id.is_number_integer() && !id.is_null()))
        return transport_.fail(nullptr, invalid_request, "a message is an object, with a text or an integer for its id");
    const json& method = member(message, "method");
    if (!method.is_string()) {
        if (!message.contains("result") && !message.contains("error")) transport_.fail(id, invalid_request, "the message has no method");
        return;
    }
    const std::string name = method.get<std::string>();
    const json& params = member(message, "params");
    if (name == "exit" && !has_id) {
        ended_ = true;
        return;
    }
    try {
        if (has_id)
            call(id, name, params);
        else
            told(name, params);
    } catch (const Failure& failure) {
        has_id ? transport_.fail(id, failure.code, failure.why)
               : transport_.notify("window/logMessage", {{"type", 1}, {"message", name + ": " + failure.why}});
    } catch (const std::exception& e) {
        has_id ? transport_.fail(id, internal_error, e.what())
               : transport_.notify("window/logMessage", {{"type", 1}, {"message", name + ": " + std::string(e.what())}});
    }
    texts_.clear();
}

void Server::call(const json& id, const std::string& method, const json& params) {
    const std::string key = id.dump(-1, ' ', false, json::error_handler_t::replace);
    {
        const std::lock_guard lock(mutex_);
        if (cancelled_.erase(key)) throw Failure{request_cancelled, "the client has cancelled it"};
        running_ = key;
        workspace_.cancel(false);
    }
    struct Done {
        Server& server;
        ~Done() {
            const std::lock_guard lock(server.mutex_);
            server.running_.clear();
            server.workspace_.cancel(false);
        }
    } done{*this};
    if (method == "initialize") return transport_.reply(id, initialize(params));
    if (!initialized_) throw Failure{not_initialized, "the first request is `initialize`"};
    if (shut_) throw Failure{invalid_request, "the server is shut down"};
    if (method == "shutdown") {
        shut_ = true;
        return transport_.reply(id, nullptr);
    }
    for (const Row& row : rows()) {
        if (row.method != method) continue;
        request_ = id;
        const json& token = member(params, "workDoneToken");
        progress_ = token.is_null() ? nullptr : std::make_shared<Progress>(transport_, token, method.substr(method.rfind('/') + 1));
        answered_later_ = false;
        struct End {
            std::shared_ptr<Progress> progress;
            const bool& later;
            ~End() {
                if (progress && !later) progress->end();
            }
        };
        json result;
        {
            const End end{progress_, answered_later_};
            result = (this->*row.handler)(params);
        }
        if (!answered_later_) transport_.reply(id, std::move(result));
        return;
    }
    throw Failure{unknown_method, "there is no method `" + visible(method.substr(0, 100)) + "`"};
}

void Server::set_edited(Document& d) {
    workspace_.cancel(false);
    if (!workspace_.set(d.path, d.text.text())) throw Failure{invalid_params, "the text cannot be taken: it is too large"};
    d.found = nullptr;
    d.tried = false;
    pool_.outdate();
    for (auto& [uri, other] : documents_) {  // which may import it
        other.due = true;
        other.settle = other.note = false;
        other.notes = json::array();
        ++other.edits;
        other.when = Clock::now() + kQuiet;
        other.has_module = false;
        if (&other != &d) other.found = nullptr, stale_ |= stale_hints | stale_lenses;
    }
}

/// What is on disk counts.
void Server::forget(const std::string& path) {
    workspace_.cancel(false);
    (void)workspace_.add(path);
}

/// What a client says, without wanting an answer. False: nothing that is known.
bool Server::told(const std::string& method, const json& params) {
    if (!initialized_) return false;
    const json& file = member(params, "textDocument");
    const std::string uri = text_at(file, "uri");
    if (method == "textDocument/didOpen") {
        if (uri.empty() || !member(file, "text").is_string()) throw Failure{invalid_params, "a document has a URI and a text"};
        Document& d = documents_[uri];
        d = {};
        d.uri = uri;
        d.path = path_of(uri);
        d.text = Text(file["text"].get<std::string>(), encoding_);
        d.version = member(file, "version");
        set_edited(d);
        d.when = Clock::now();
    } else if (method == "textDocument/didChange") {
        const auto it = documents_.find(uri);
        if (it == documents_.end()) throw Failure{invalid_params, "the document is not open"};
        const json& changes = member(params, "contentChanges");
        if (!changes.is_array()) throw Failure{invalid_params, "`contentChanges` is a list"};
        Text text = it->second.text;
        for (const json& change : changes) {
            if (!member(change, "text").is_string()) throw Failure{invalid_params, "a change has a text"};
            const std::string replacement = change["text"].get<std::string>();
            if (!change.contains("range"))
                text = Text(replacement, encoding_);
            else if (!text.edit(change["range"], replacement))
                throw Failure{invalid_params, "a change lies outside of the text, which has " + std::to_string(text.lines()) + " lines"};
        }
        it->second.text = std::move(text);
        it->second.version = member(file, "version");
        set_edited(it->second);
    } else if (method == "textDocument/didClose") {
        const auto it = documents_.find(uri);
        if (it == documents_.end()) return true;
        forget(it->second.path);
        documents_.erase(it);
        if (!pulls_) transport_.notify("textDocument/publishDiagnostics", {{"uri", uri}, {"diagnostics", json::array()}});
    } else if (method == "textDocument/didSave" || method == "workspace/didChangeWatchedFiles") {
        const json& changes = member(params, "changes");
        for (const json& change : changes.is_array() ? changes : json::array()) {
            const std::string changed = text_at(change, "uri"), path = path_of(changed);
            if (!documents_.contains(changed) && path.ends_with(".tile")) forget(path), files_.insert(path);
        }
        for (auto& [name, d] : documents_) d.found = nullptr, d.has_module = false, d.due = true, d.when = Clock::now() + kQuiet;
        if (method != "textDocument/didSave") stale_ |= stale_tokens | stale_hints | stale_lenses;
    } else if (method == "workspace/didChangeConfiguration") {
        configure(member(params, "settings"));
    } else if (method == "workspace/didChangeWorkspaceFolders") {
        const json& added = member(member(params, "event"), "added");
        for (const json& folder : added.is_array() ? added : json::array()) scan(path_of(text_at(folder, "uri")));
    } else {
        return false;
    }
    return true;
}

// ---- life cycle ----

void Server::configure(const json& settings) {
    const json& own = member(settings, "tegula").is_object() ? member(settings, "tegula") : settings;
    if (const std::string arch = text_at(own, "arch"); !arch.empty()) arch_ = arch;
    if (member(own, "hints").is_boolean()) hints_on_ = own["hints"].get<bool>();
    stale_ |= stale_tokens | stale_hints | stale_lenses;
    for (auto& [uri, d] : documents_) d.due = true, d.when = Clock::now() + kQuiet;  // and then the client is told
    const std::string root = text_at(own, "importRoot");
    if (root.empty() || root == import_root_) return;
    import_root_ = root;
    tegula::EngineOptions options;
    options.import_root = import_root_.c_str();
    auto engine = tegula::Engine::create(options);
    if (!engine) return;
    auto workspace = engine.value().workspace();
    if (!workspace) return;
    const std::lock_guard lock(mutex_);  // the reader cancels it
    engine_ = std::move(engine).value();
    workspace_ = std::move(workspace).value();
    for (const std::string& file : files_) forget(file);
    for (auto& [uri, d] : documents_) {
        (void)workspace_.set(d.path, d.text.text());
        d.found = nullptr;
        d.has_module = false;
    }
}

/// `import_root = ".."`, `arch = ".."` and `hints = false` of a file tegula.toml.
void Server::read_project(const std::string& folder) {
    std::string error;
    const auto text = read_file(folder + "/tegula.toml", uint64_t{1} << 20, error);
    if (!text) return;
    json settings = json::object();
    for (size_t at = 0; at < text->size();) {
        const size_t end = std::min(text->find('\n', at), text->size());
        std::string name, value;
        if (split(text->substr(at, end - at), name, value)) {
            const auto trim = [](std::string s) {
                const size_t first = s.find_first_not_of(" \t\r\""), last = s.find_last_not_of(" \t\r\"");
                return first == s.npos ? std::string() : s.substr(first, last - first + 1);
            };
            name = trim(name), value = trim(value);
            if (name == "import_root") settings["importRoot"] = value.starts_with('/') ? value : folder + "/" + value;
            if (name == "arch") settings["arch"] = value;
            if (name == "hints") settings["hints"] = value != "false";
        }
        at = end + 1;
    }
    configure(settings);
}

/// The source files below a folder are known from now on: uses of names are looked for there.
void Server::scan(const std::string& folder) {
    std::vector<std::string> open{folder};
    while (!open.empty() && files_.size() < kMostFiles) {
        const std::string at = open.back();
        open.pop_back();
        DIR* directory = ::opendir(at.c_str());
        if (!directory) continue;
        while (const struct dirent* entry = ::readdir(directory)) {
            const std::string name = entry->d_name, path = at + "/" + name;
            if (name.starts_with('.')) continue;
            struct stat info {};
            if (::lstat(path.c_str(), &info) != 0) continue;
            if (S_ISDIR(info.st_mode) && name != "build" && name != "node_modules") open.push_back(path);
            if (S_ISREG(info.st_mode) && name.ends_with(".tile") && files_.size() < kMostFiles && files_.insert(path).second) forget(path);
        }
        ::closedir(directory);
    }
}

json Server::initialize(const json& params) {
    if (initialized_) throw Failure{invalid_request, "the server is initialized"};
    const json& capabilities = member(params, "capabilities");
    const json& encodings = member(member(capabilities, "general"), "positionEncodings");
    if (encodings.is_array() && std::ranges::find(encodings, json("utf-8")) != encodings.end()) encoding_ = Encoding::utf8;
    const json& text = member(capabilities, "textDocument");
    pulls_ = member(text, "diagnostic").is_object();
    snippets_ = member(member(member(text, "completion"), "completionItem"), "snippetSupport") == json(true);
    for (unsigned i = 0; i < std::size(kRefreshes); ++i)
        if (member(member(member(capabilities, "workspace"), kRefreshes[i].capability), "refreshSupport") == json(true)) refreshes_ |= 1u << i;
    initialized_ = true;
    std::vector<std::string> folders;
    const json& list = member(params, "workspaceFolders");
    for (const json& folder : list.is_array() ? list : json::array()) folders.push_back(path_of(text_at(folder, "uri")));
    if (folders.empty() && !text_at(params, "rootUri").empty()) folders.push_back(path_of(text_at(params, "rootUri")));
    for (const std::string& folder : folders) {
        if (!folder.starts_with('/')) continue;
        read_project(folder);
        scan(folder);
    }
    configure(member(params, "initializationOptions"));
    static constexpr const char* kTokens[] = {"namespace", "type",    "struct",  "typeParameter", "parameter", "variable", "property",
                                              "function",  "keyword", "comment", "string",        "number",    "operator", "decorator"};
    const json symbols = {{"tokenTypes", kTokens}, {"tokenModifiers", {"declaration", "readonly", "defaultLibrary"}}};
    return {{"serverInfo", {{"name", "tegula"}, {"version", tegula_build_id()}}},
            {"capabilities",
             {{"positionEncoding", encoding_ == Encoding::utf8 ? "utf-8" : "utf-16"},
              {"textDocumentSync", {{"openClose", true}, {"change", 2}, {"save", {{"includeText", false}}}}},
              {"hoverProvider", true},
              {"completionProvider", {{"triggerCharacters", {".", "@", ":"}}, {"resolveProvider", true}}},
              {"signatureHelpProvider", {{"triggerCharacters", {"(", "<", ","}}}},
              {"definitionProvider", true},
              {"declarationProvider", true},
              {"referencesProvider", {{"workDoneProgress", true}}},
              {"documentHighlightProvider", true},
              {"documentSymbolProvider", true},
              {"workspaceSymbolProvider", {{"workDoneProgress", true}}},
              {"codeActionProvider", {{"codeActionKinds", {"quickfix", "source.fixAll"}}}},
              {"codeLensProvider", {{"resolveProvider", true}, {"workDoneProgress", true}}},
              {"documentLinkProvider", json::object()},
              {"documentFormattingProvider", true},
              {"documentRangeFormattingProvider", true},
              {"documentOnTypeFormattingProvider", {{"firstTriggerCharacter", "}"}, {"moreTriggerCharacter", {";"}}}},
              {"renameProvider", {{"prepareProvider", true}, {"workDoneProgress", true}}},
              {"foldingRangeProvider", true},
              {"selectionRangeProvider", true},
              {"inlayHintProvider", true},
              {"callHierarchyProvider", {{"workDoneProgress", true}}},
              {"diagnosticProvider", {{"identifier", "tegula"}, {"interFileDependencies", true}, {"workspaceDiagnostics", false}}},
              {"executeCommandProvider", {{"commands", {"tegula.test", "tegula.bench"}}, {"workDoneProgress", true}}},
              {"semanticTokensProvider", {{"legend", symbols}, {"full", {{"delta", true}}}, {"range", true}}},
              {"workspace", {{"workspaceFolders", {{"supported", true}, {"changeNotifications", true}}}}}}}};
}

// ---- what requests ask ----

json Server::ask(const char* verb, const std::string& path, size_t begin, size_t end, const std::string& text) {
    auto answer = workspace_.ask(verb, path, begin, end, text);
    if (answer.status() == TEGULA_E_CANCELLED) throw Failure{request_cancelled, "the client has cancelled it"};
    if (!answer) throw Failure{request_failed, answer.diagnostics().text()};
    return json::parse(answer.value());
}

/// Of `textDocument`, as the protocol's own requests name it, or `uri`.
Document& Server::document(const json& params) {
    const json& named = member(params, "textDocument");
    const auto it = documents_.find(text_at(named.is_null() ? params : named, "uri"));
    if (it == documents_.end()) throw Failure{invalid_params, "the document is not open"};
    return it->second;
}

size_t Server::place(const Document& d, const json& params, const char* name) {
    const auto at = d.text.offset(member(params, name));
    if (!at) throw Failure{invalid_params, "the position lies outside of the text, which has " + std::to_string(d.text.lines()) + " lines"};
    return *at;
}

std::pair<size_t, size_t> Server::stretch(const Document& d, const json& params) {
    const json& range = member(params, "range");
    const size_t begin = place(d, range, "start"), end = place(d, range, "end");
    if (begin > end) throw Failure{invalid_params, "the range ends before it begins"};
    return {begin, end};
}

const Text& Server::text_of(const std::string& path) {
    for (const auto& [uri, d] : documents_)
        if (d.path == path) return d.text;
    const auto it = texts_.find(path);
    if (it != texts_.end()) return it->second;
    if (path.starts_with('/') && !files_.contains(path)) forget(path), files_.insert(path);
    std::string text;
    try {
        text = ask("text", path)["text"].get<std::string>();
    } catch (const Failure& failure) {
        if (failure.code == request_cancelled) throw;
    }
    return texts_.emplace(path, Text(std::move(text), encoding_)).first->second;
}

/// Writes a text of the library where editors can read it: into the cache's directory. Empty: that cannot be.
std::string Server::write_library(const std::string& name, const std::string& text) {
    const auto variable = [](const char* of) { return std::getenv(of) ? std::string(std::getenv(of)) : std::string(); };
    std::string folder = variable("TEGULA_CACHE_DIR");
    if (folder == "off") return {};
    if (folder.empty() && !variable("XDG_CACHE_HOME").empty()) folder = variable("XDG_CACHE_HOME") + "/tegula";
    if (folder.empty() && !variable("HOME").empty()) folder = variable("HOME") + "/.cache/tegula";
    if (!folder.starts_with('/')) return {};
    folder += "/editors";
    for (size_t at = folder.find('/', 1); at != folder.npos; at = folder.find('/', at + 1)) ::mkdir(folder.substr(0, at).c_str(), 0700);
    ::mkdir(folder.c_str(), 0700);
    std::string error;
    return write_file(folder + "/" + name, text, error) ? folder + "/" + name : std::string();
}

/// The file that shows a text to an editor; a module of the library where it cannot be written: its name.
std::string Server::file_of(const std::string& path) {
    if (path.starts_with('/')) return path;
    std::string& file = written_[path];
    if (file.empty()) file = write_library((path.starts_with("std.") ? path.substr(4) : path) + ".tile", text_of(path).text());
    return file.empty() ? "tegula:" + path : file;
}

json Server::location(const std::string& path, size_t begin, size_t end) {
    return {{"uri", uri_of(file_of(path))}, {"range", text_of(path).range(begin, end)}};
}

std::span<const Server::Row> Server::rows() {
    static constexpr Row kRows[] = {{"textDocument/hover", &Server::hover},
                                    {"textDocument/completion", &Server::completion},
                                    {"completionItem/resolve", &Server::resolve_completion},
                                    {"textDocument/signatureHelp", &Server::signature_help},
                                    {"textDocument/definition", &Server::definition},
                                    {"textDocument/declaration", &Server::definition},
                                    {"textDocument/references", &Server::references},
                                    {"textDocument/documentHighlight", &Server::highlights},
                                    {"textDocument/prepareRename", &Server::prepare_rename},
                                    {"textDocument/rename", &Server::rename},
                                    {"textDocument/documentSymbol", &Server::document_symbols},
                                    {"workspace/symbol", &Server::workspace_symbols},
                                    {"textDocument/prepareCallHierarchy", &Server::prepare_calls},
                                    {"callHierarchy/incomingCalls", &Server::incoming_calls},
                                    {"callHierarchy/outgoingCalls", &Server::outgoing_calls},
                                    {"textDocument/documentLink", &Server::links},
                                    {"textDocument/foldingRange", &Server::folds},
                                    {"textDocument/selectionRange", &Server::selections},
                                    {"textDocument/inlayHint", &Server::hints},
                                    {"textDocument/diagnostic", &Server::pull_diagnostics},
                                    {"textDocument/codeAction", &Server::actions},
                                    {"textDocument/formatting", &Server::format},
                                    {"textDocument/rangeFormatting", &Server::format_range},
                                    {"textDocument/onTypeFormatting", &Server::format_on_type},
                                    {"textDocument/semanticTokens/full", &Server::tokens},
                                    {"textDocument/semanticTokens/full/delta", &Server::tokens_delta},
                                    {"textDocument/semanticTokens/range", &Server::tokens_range},
                                    {"textDocument/codeLens", &Server::lenses},
                                    {"codeLens/resolve", &Server::resolve_lens},
                                    {"workspace/executeCommand", &Server::execute},
                                    {"tegula/artifact", &Server::artifact},
                                    {"tegula/viz", &Server::picture},
                                    {"tegula/run", &Server::run_request}};
    return kRows;
}

}  // namespace tegula_tool::lsp
