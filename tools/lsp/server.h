// The language server: documents, the order of requests, and what each of them asks the library. One thread reads, one answers in the order of what
// came, and a pool makes artefacts and runs, which take long. Everything about the language is the library's (tegula_workspace).
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../tool.h"
#include "pool.h"
#include "text.h"
#include "transport.h"

namespace tegula_tool::lsp {

struct Document {
    std::string uri, path;
    Text text;
    json version = nullptr;
    bool due = false, settle = false;              ///< diagnostics are to be sent; to be sent again with their changes tried
    bool note = false;                             ///< what accesses cost is to be found out
    uint64_t edits = 0;                            ///< of this and other texts
    json notes = json::array();                    ///< hints of that
    std::chrono::steady_clock::time_point when{};  ///< not before
    json sent;                                     ///< diagnostics that the client has
    json found;                                    ///< by the library, of the present text; null: not yet
    bool tried = false;                            ///< `found` with its changes tried
    std::vector<uint32_t> tokens;
    uint64_t tokens_id = 0;
    tegula::Module module;  ///< of the present text, for lenses
    bool has_module = false;
};

class Server {
public:
    Server(Session& session, int in, int out, const std::string& log);
    ~Server();
    Server(const Server&) = delete;
    int run();

private:
    using Handler = json (Server::*)(const json& params);
    struct Row {
        std::string_view method;
        Handler handler;
    };
    /// What clients that ask for diagnostics, tokens, hints and lenses themselves are told to ask for again.
    enum Stale : unsigned { stale_diagnostics = 1, stale_tokens = 2, stale_hints = 4, stale_lenses = 8 };

    // server.cpp: threads, order, life cycle
    void read_all();
    bool next(json& message);
    void handle(const json& message);
    void call(const json& id, const std::string& method, const json& params);
    bool told(const std::string& method, const json& params);
    void later(std::function<json(Job&)> work, How how = {});
    void refresh();
    json initialize(const json& params);
    void configure(const json& settings);
    void read_project(const std::string& folder);
    void scan(const std::string& folder);
    void set_edited(Document& d);
    void forget(const std::string& path);
    void in_background();
    bool background_is_due(std::chrono::steady_clock::time_point& when) const;
    json ask(const char* verb, const std::string& path, size_t begin = 0, size_t end = 0, const std::string& text = {});
    Document& document(const json& params);
    size_t place(const Document& d, const json& params, const char* name = "position");
    std::pair<size_t, size_t> stretch(const Document& d, const json& params);
    const Text& text_of(const std::string& path);
    std::string file_of(const std::string& path);
    json location(const std::string& path, size_t begin, size_t end);
    std::string write_library(const std::string& name, const std::string& text);
    std::string page_of(const std::string& code);
    static std::span<const Row> rows();

    // answers.cpp: what names are
    json hover(const json& params);
    std::string layout_picture(Document& d, const std::string& layout, int rank);
    json completion(const json& params);
    json resolve_completion(const json& params);
    json signature_help(const json& params);
    json definition(const json& params);
    json references(const json& params);
    json highlights(const json& params);
    json prepare_rename(const json& params);
    json rename(const json& params);
    json document_symbols(const json& params);
    json workspace_symbols(const json& params);
    json prepare_calls(const json& params);
    json incoming_calls(const json& params);
    json outgoing_calls(const json& params);
    json calls(const json& params, const char* direction, const char* end);
    json call_item(const json& item);
    json links(const json& params);
    json folds(const json& params);
    json selections(const json& params);
    json hints(const json& params);

    // edits.cpp: diagnostics and texts
    void publish(Document& d, bool settled);
    json diagnostics_of(Document& d, bool settled);
    json diagnostic(const Document& d, const json& found);
    json pull_diagnostics(const json& params);
    json actions(const json& params);
    json format(const json& params);
    json format_range(const json& params);
    json format_on_type(const json& params);
    json formatted(Document& d, size_t first_line, size_t last_line);
    std::vector<uint32_t> tokens_of(Document& d, size_t begin, size_t end);
    json tokens(const json& params);
    json tokens_delta(const json& params);
    json tokens_range(const json& params);

    // artifacts.cpp: what is compiled or run
    json lenses(const json& params);
    json resolve_lens(const json& params);
    json artifact(const json& params);
    tegula::Module module_of(Document& d);
    std::string instance_of(Document& d, const std::string& kernel);
    void find_notes(Document& d);
    void take_notes(const std::string& uri, uint64_t edits, json notes);

    // runs.cpp: what is run or drawn
    json run_blocks(const std::string& uri, bool bench, const std::string& part, const std::string& machine, bool tell);
    json run_request(const json& params);
    json picture(const json& params);
    json execute(const json& params);

    Session& session_;
    Transport transport_;
    tegula::Engine engine_;
    tegula::Workspace workspace_;
    Encoding encoding_ = Encoding::utf16;
    bool initialized_ = false, shut_ = false, ended_ = false, pulls_ = false, snippets_ = false, hints_on_ = true;
    std::string arch_ = "sm_90a", import_root_;
    std::map<std::string, Document> documents_;   ///< open ones, by URI
    std::map<std::string, Text> texts_;           ///< of other files, for the request in progress
    std::map<std::string, std::string> written_;  ///< texts of the library that are files for editors
    std::map<std::string, std::string> pages_;    ///< URIs of what explains diagnostics, by code
    std::set<std::string> files_;                 ///< of the workspace
    json completions_;                            ///< the last ones, with their documentation
    json request_;                                ///< in progress: its id
    std::shared_ptr<Progress> progress_;          ///< the same; null: nobody wants to know
    bool answered_later_ = false;
    unsigned refreshes_ = 0, stale_ = 0;  ///< Stale: of what the client can be told so, and of what it has to be
    uint64_t asked_ = 0;                  ///< requests to the client

    std::mutex mutex_;  ///< guards what follows
    std::condition_variable wake_;
    std::deque<json> queue_;
    std::set<std::string> cancelled_;             ///< ids, as text
    std::deque<std::function<void()>> returned_;  ///< of the pool, to be done by the second thread
    bool closed_ = false, in_background_ = false;
    std::string running_;  ///< id of the request in progress

    Pool pool_;
};

}  // namespace tegula_tool::lsp
