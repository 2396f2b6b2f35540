// Loading: text -> parsed and checked module, with its imports. Paths resolve under declared directories only: no absolute path, no `..`,
// no symbolic link on the way (each component is opened with O_NOFOLLOW), regular files of bounded size.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "jit/engine/engine.h"
#include "jit/engine/stdlib.h"
#include "lang/check.h"
#include "lang/foreign.h"
#include "parser/parse.h"
#include "sema/recovery.h"

namespace tegula {

namespace {

constexpr size_t kMaxImports = 1024;
constexpr size_t kMaxImportDepth = 64;
constexpr int64_t kMaxSource = int64_t{16} << 20;
constexpr std::string_view kPrelude[] = {"math", "layouts"};  // what programs see without an import

struct File {
    int fd = -1;
    ~File() {
        if (fd >= 0) ::close(fd);
    }
};

std::vector<std::string> path_parts(std::string_view path) {
    std::vector<std::string> parts;
    size_t at = 0;
    while (at <= path.size()) {
        size_t slash = std::min(path.find('/', at), path.size());
        parts.emplace_back(path.substr(at, slash - at));
        at = slash + 1;
    }
    return parts;
}

bool legal_path(std::string_view path) {
    if (path.empty() || path.front() == '/' || path.find('\0') != std::string_view::npos || path.find('\\') != std::string_view::npos) return false;
    for (const std::string& part : path_parts(path))
        if (part.empty() || part == "." || part == "..") return false;
    return true;
}

/// Opens the regular file `path` beneath `root` as `at`.
bool open_beneath(const std::string& root, std::string_view path, File& at, struct stat& info, std::string& why) {
    at.fd = ::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at.fd < 0) return why = "the directory cannot be opened", false;
    auto parts = path_parts(path);
    for (size_t i = 0; i < parts.size(); ++i) {
        bool last = i + 1 == parts.size();
        int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (last ? 0 : O_DIRECTORY);
        int fd = ::openat(at.fd, parts[i].c_str(), flags);
        if (fd < 0) return why = errno == ELOOP ? "symbolic links are not followed" : "no such file", false;
        ::close(at.fd);
        at.fd = fd;
    }
    if (::fstat(at.fd, &info) != 0 || !S_ISREG(info.st_mode)) return why = "not a regular file", false;
    return true;
}

std::optional<std::string> read_beneath(const std::string& root, std::string_view path, std::string& why) {
    File at;
    struct stat info {};
    if (!open_beneath(root, path, at, info, why)) return std::nullopt;
    if (info.st_size > kMaxSource) return why = "larger than 16 MiB", std::nullopt;
    std::string text(static_cast<size_t>(info.st_size), '\0');
    size_t got = 0;
    while (got < text.size()) {
        ssize_t n = ::read(at.fd, text.data() + got, text.size() - got);
        if (n <= 0) break;
        got += static_cast<size_t>(n);
    }
    text.resize(got);
    return text;
}

const StdlibFile* stdlib_file(std::string_view name) {
    const auto files = stdlib_files();
    const auto it = std::ranges::find(files, name, &StdlibFile::name);
    return it == files.end() ? nullptr : &*it;
}

/// Does a line start an item? Those of the library start in column 1.
bool starts_item(std::string_view line) {
    constexpr std::string_view kKeywords[] = {"const ", "type ", "struct ", "layout ", "fn ", "kernel ", "test ", "bench "};
    return std::ranges::any_of(kKeywords, [line](std::string_view keyword) { return line.starts_with(keyword); });
}

/// What programs may import, but for what they see without.
std::span<const sema::LibraryModule> library_modules() {
    static const std::vector<sema::LibraryModule> modules = [] {
        std::vector<sema::LibraryModule> out;
        for (const StdlibFile& file : stdlib_files())
            if (std::ranges::find(kPrelude, file.name) == std::end(kPrelude)) out.push_back({file.name, file.names});
        return out;
    }();
    return modules;
}

std::string directory_of(std::string_view path) {
    size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? std::string() : std::string(path.substr(0, slash));
}

}  // namespace

/// The text of a module of the library, parsed once for all who use it at a time. Nobody needs all of it, and its own tests check the whole file, so
/// an item is parsed when it is first asked for: as a source of its own, behind as many empty lines as stand before it in the file.
class Engine::StdText {
public:
    StdText(SourceMap& sources, const StdlibFile& of) : sources_(sources), name_("std." + std::string(of.name)), text_(of.text) {
        Part head, unused, *open = &head;
        for (size_t at = 0, line = 0; at < text_.size(); ++line) {
            const size_t end = std::min(text_.find('\n', at), text_.size() - 1) + 1;
            if (const std::string_view item = text_.substr(at, end - at); starts_item(item)) {
                const size_t word = item.find(' ') + 1;
                const bool is_test = item.starts_with("test ") || item.starts_with("bench ");
                open = is_test ? &unused : &parts_[item.substr(word, item.find_first_of("<[(:={ ", word) - word)];
                *open = {at, at, line, nullptr};
            }
            open->end = at = end;
        }
        head_ = parse(head);
    }
    const std::string& name() const { return name_; }
    const ast::Module* head() const { return head_; }  ///< what stands before the items: imports
    const ast::Item* find(std::string_view item) const {
        const auto part = parts_.find(item);
        if (part == parts_.end()) return nullptr;
        std::lock_guard lock(mutex_);
        if (!part->second.item) part->second.item = parse(part->second)->items.front();
        return part->second.item;
    }
    std::vector<std::string_view> item_names() const {
        std::vector<std::string_view> out;
        for (const auto& [item, part] : parts_) out.push_back(item);
        return out;
    }

private:
    struct Part {
        size_t begin = 0, end = 0, line = 0;
        const ast::Item* item = nullptr;  ///< null: not parsed yet
    };
    SourceMap& sources_;
    const std::string name_;
    const std::string_view text_;
    const ast::Module* head_ = nullptr;
    mutable std::mutex mutex_;  ///< guards what follows
    mutable std::map<std::string_view, Part> parts_;
    mutable Arena arena_;
    mutable std::vector<SourcePtr> parsed_;

    const ast::Module* parse(const Part& part) const {
        parsed_.push_back(sources_.share(name_, std::string(part.line, '\n').append(text_.substr(part.begin, part.end - part.begin))));
        DiagSink diags;
        const ast::Module* parsed = parse_module(sources_, parsed_.back()->id, arena_, diags);
        TEGULA_CHECK(parsed && !diags.has_errors(), name_ + " has errors");
        return parsed;
    }
};

/// A module of the library, as one load sees it.
class Engine::StdModule final : public LoadedModule {
public:
    StdModule(std::shared_ptr<Engine> engine, std::shared_ptr<TypeTable> types, std::shared_ptr<const StdText> text)
        : LoadedModule(std::move(engine), std::move(types)), text_(std::move(text)) {
        name = text_->name();
        ast = text_->head();
    }
    const ast::Item* find(std::string_view item) const override { return text_->find(item); }
    std::vector<std::string_view> item_names() const override { return text_->item_names(); }

private:
    const std::shared_ptr<const StdText> text_;
};

/// A module of the library that others see without importing it. Owned by such a module, which keeps the engine alive.
class Engine::StdPrelude : public sema::Prelude {
public:
    StdPrelude(Engine& engine, std::shared_ptr<TypeTable> types, const StdlibFile& file) : engine_(engine), types_(std::move(types)), file_(file) {}
    std::span<const std::string_view> names() const override { return file_.names; }
    const sema::Module& module() const override {
        std::call_once(loaded_, [&] {
            Loading state;
            state.types = types_;
            DiagSink diags;
            module_ = engine_.std_module(state, file_.name, diags);
            TEGULA_CHECK(module_ && !diags.has_errors(), "std." + std::string(file_.name) + " has errors");
        });
        return *module_;
    }

private:
    Engine& engine_;
    const std::shared_ptr<TypeTable> types_;
    const StdlibFile& file_;
    mutable std::once_flag loaded_;
    mutable ModulePtr module_;
};

const ast::KernelItem* LoadedModule::kernel(std::string_view name) const {
    const ast::Item* item = find(name);
    return item && item->kind == ast::ItemKind::kernel ? &ast::as<ast::KernelItem>(item) : nullptr;
}

LoadedModule* LoadedModule::imported(std::string_view alias) const {
    for (const Import& import : imports)
        if (import.alias == alias)
            for (const ModulePtr& dependency : dependencies)
                if (dependency.get() == import.module) return dependency.get();
    return nullptr;
}

std::pair<LoadedModule*, const ast::KernelItem*> LoadedModule::launched(const ast::Expr& callee) {
    const ast::Expr* head = callee.kind == ast::ExprKind::instantiate ? ast::as<ast::InstantiateExpr>(&callee).base : &callee;
    if (head->kind == ast::ExprKind::name) return {this, kernel(ast::as<ast::NameExpr>(head).name)};
    if (head->kind != ast::ExprKind::member) return {nullptr, nullptr};
    const auto& member = ast::as<ast::MemberExpr>(head);
    LoadedModule* home = member.base->kind == ast::ExprKind::name ? imported(ast::as<ast::NameExpr>(member.base).name) : nullptr;
    return {home, home ? home->kernel(member.member.text) : nullptr};
}

std::shared_ptr<Engine> Engine::create(EngineOptions options) { return std::shared_ptr<Engine>(new Engine(std::move(options))); }

ModulePtr Engine::load(const std::string& name, std::string text, const std::string& directory, DiagSink& diags) {
    Loading state;
    state.stack.push_back(name);
    const size_t before = diags.all().size();
    ModulePtr loaded = load_file(state, name, std::move(text), directory, diags);
    if (state.first) settle_changes(state.first, loading_of(state.first, directory), diags, before);
    if (!loaded) diags.sort();
    return loaded;
}

ModulePtr Engine::read_module(Loading& state, const std::string& name, std::string text, const std::string& directory, DiagSink& diags,
                              const std::string& path, sema::Recorder* recorder, const std::atomic<bool>* cancel) {
    auto module = std::make_shared<LoadedModule>(shared_from_this(), state.types);
    diags.keep(module);  // errors end its life
    module->recorder = recorder;
    module->name = name;
    module->directory = directory;
    module->source = sources_.share(name, std::move(text));
    module->text = module->source->text;
    if (!state.first) state.first = module->source;
    if (!path.empty()) state.paths[module->source->id] = path;
    module->library = library_modules();
    const size_t first = diags.all().size();
    module->ast = parse_module(sources_, module->source->id, module->arena, diags);
    sema::settle_errors(*module, diags, first);
    for (const Span& text : module->ast->damage) diags.settle(text);
    poll(cancel);
    resolve_imports(state, *module, directory, false, diags);
    sema::check_module(*module, module->types(), diags, cancel);
    return module;
}

ModulePtr Engine::load_file(Loading& state, const std::string& name, std::string text, const std::string& directory, DiagSink& diags,
                            const std::string& path) {
    const size_t before = diags.error_count();
    ModulePtr module = read_module(state, name, std::move(text), directory, diags, path);
    if (diags.error_count() == before) return module;
    check_bodies(*module, diags);  // whoever loads the file hears of all its errors at once
    return nullptr;
}

ModulePtr Engine::assemble(Loading& state, const SourcePtr& whole, const SourcePtr& input, std::span<const ast::Item* const> items,
                           const std::string& directory, const std::atomic<bool>* cancel, DiagSink& diags) {
    auto module = std::make_shared<LoadedModule>(shared_from_this(), state.types);
    diags.keep(module);
    module->name = whole->name;
    module->directory = directory;
    module->source = whole;
    module->text = input->text;
    module->library = library_modules();
    auto* tree = module->arena.make<ast::Module>();
    tree->file = input->id;
    tree->items = module->arena.copy(std::vector(items.begin(), items.end()));
    module->ast = tree;
    state.stack.assign(1, whole->name);
    resolve_imports(state, *module, directory, false, diags);
    sema::check_module(*module, module->types(), diags, cancel);
    return module;
}

ModulePtr Engine::import_file(Loading& state, const ast::ImportItem& import, const std::string& directory, bool is_std, DiagSink& diags) {
    const std::string path(import.path), key = directory + "/" + path;
    if (auto it = state.done.find(key); it != state.done.end()) return it->second;
    if (is_std || !legal_path(path)) return diags.report(Diag::import_path, import.span, {printable(path)}), nullptr;
    std::string why, file;
    auto text = read_import(state, path, directory, why, file);
    if (!text) return diags.report(Diag::import_not_found, import.span, {printable(path), why}), nullptr;
    const std::string below = directory_of(path);
    state.stack.push_back(path);
    ModulePtr found = load_file(state, path, std::move(*text), directory.empty() || below.empty() ? directory : directory + "/" + below, diags, file);
    state.stack.pop_back();
    return state.done[key] = found;
}

ModulePtr Engine::resolve_import(Loading& state, const ast::ImportItem& import, const std::string& directory, bool is_std, DiagSink& diags) {
    const std::string path(import.path);
    if (std::find(state.stack.begin(), state.stack.end(), path) != state.stack.end()) {
        std::string chain;
        for (const std::string& step : state.stack) chain += step + " -> ";
        diags.report(Diag::import_cycle, import.span, {printable(path)}).notes.push_back("import chain: " + printable(chain + path));
        return nullptr;
    }
    if (import.is_path) return import_file(state, import, directory, is_std, diags);
    ModulePtr found = path.substr(0, 4) == "std." ? std_module(state, std::string_view(path).substr(4), diags) : nullptr;
    if (found) return found;
    std::vector<std::string_view> names;
    for (const StdlibFile& file : stdlib_files()) names.push_back(file.name);
    auto& d = diags.report(Diag::import_not_found, import.span, {printable(path), "the library has no such module"});
    if (const auto known = foreign(ForeignUse::module, std::string_view(path).substr(0, path.find('.'))); !known.empty()) {
        d.notes.emplace_back(std::string(known.front()->note));
        d.propose({{import.span, ""}});
        return nullptr;
    }
    for (const std::string_view near : similar(path.starts_with("std.") ? std::string_view(path).substr(4) : path, names)) {
        const std::string line = "import std." + std::string(near) + " as " + std::string(import.name.text) + ";";
        d.propose({{import.span, line}}, "did you mean `std." + std::string(near) + "`?");
    }
    return nullptr;
}

bool Engine::resolve_imports(Loading& state, LoadedModule& module, const std::string& directory, bool is_std, DiagSink& diags) {
    bool ok = true;
    for (const ast::Item* item : module.ast->items) {
        if (item->kind != ast::ItemKind::import) continue;
        const auto& import = ast::as<ast::ImportItem>(item);
        ModulePtr found;
        if (state.stack.size() < kMaxImportDepth && state.done.size() < kMaxImports)
            found = resolve_import(state, import, directory, is_std, diags);
        else if (ok)
            diags.report(Diag::import_budget, item->span, {std::to_string(kMaxImports), std::to_string(kMaxImportDepth)});
        ok = ok && found;
        if (found) module.dependencies.push_back(found);
        module.imports.push_back({item->name.text, found.get(), &import});
    }
    // A module of the prelude sees those before it in the list: they never load one another.
    for (std::string_view name : kPrelude) {
        if (is_std && module.name == "std." + std::string(name)) break;
        module.prelude.push_back(std::make_unique<StdPrelude>(*this, module.types_, *stdlib_file(name)));
    }
    return ok;
}

std::shared_ptr<const Engine::StdText> Engine::std_text(const StdlibFile& file) {
    std::lock_guard lock(std_mutex_);
    std::weak_ptr<const StdText>& known = std_texts_[std::string(file.name)];
    std::shared_ptr<const StdText> text = known.lock();
    if (!text) known = text = std::make_shared<const StdText>(sources_, file);
    return text;
}

ModulePtr Engine::std_module(Loading& state, std::string_view name, DiagSink& diags) {
    const StdlibFile* file = stdlib_file(name);
    if (!file) return nullptr;
    if (auto it = state.done.find("std." + std::string(name)); it != state.done.end()) return it->second;
    auto module = std::make_shared<StdModule>(shared_from_this(), state.types, std_text(*file));
    state.stack.push_back(module->name);
    const bool ok = resolve_imports(state, *module, {}, true, diags);
    state.stack.pop_back();
    return state.done[module->name] = ok ? module : nullptr;
}

Made<HostTensor> Engine::load_array(LoadedModule& module, const std::string& path, const std::string& name) {
    using Result = Made<HostTensor>;
    if (!options_.load_array) return Result::failed("this host has no array reader");
    if (!options_.confine_loads) {
        const std::string beside = module.directory + "/" + path;
        const bool relative = !module.directory.empty() && module.directory != "." && !path.starts_with('/');
        if (relative && ::access(beside.c_str(), F_OK) == 0) return options_.load_array(module, beside, name);
        std::shared_ptr<HostTensor> loaded;
        std::string why;
        if (options_.load_array(module, path, name).into(loaded, why)) return loaded;
        const bool elsewhere = relative && ::access(path.c_str(), F_OK) != 0;
        return Result::failed(why + (elsewhere ? "; there is none beside the source, in " + module.directory + ", either" : ""));
    }
    if (!legal_path(path)) return Result::failed("loads are confined: paths are relative, without empty, `.` or `..` parts");
    std::string why = "loads are confined, and no import root is set";
    for (const std::string& root : {module.directory, options_.import_root}) {
        File at;
        struct stat info {};
        if (!root.empty() && open_beneath(root, path, at, info, why)) return options_.load_array(module, root + "/" + path, name);
    }
    return Result::failed(std::move(why));
}

std::optional<std::string> Engine::read_import(const Loading& state, std::string_view path, const std::string& directory, std::string& why,
                                               std::string& file) {
    why = "no importer and no import root is set";
    if (options_.importer)
        if (auto text = options_.importer(path)) return text;
    for (const std::string& root : {directory, options_.import_root}) {
        if (root.empty()) continue;
        file = root + "/" + std::string(path);
        if (state.texts)
            if (auto text = state.texts(file)) return text;
        if (auto text = read_beneath(root, path, why)) return text;
    }
    file.clear();
    return std::nullopt;
}

}  // namespace tegula
