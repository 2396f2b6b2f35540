// The table of the console's commands, and what follows from it: finding, completing and showing them. See commands.h.
#include "commands.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>

#include "tools/viz/viz.h"

namespace tegula_tool::repl {

namespace {

constexpr const char* kArchs = "@cpu @sm_75 @sm_80 @sm_86 @sm_89 @sm_90a @sm_100a @sm_120a";

/// Of commands that begin alike the first one is meant by their common beginning.
const Command kCommands[] = {
    {"type", "E", Operands::expression, "", "type, extents and layout of what an expression would show, without running it", show_type, false},
    {"vars", "", Operands::none, "", "the variables: type, bytes, and the input that made them", show_variables, false},
    {"items", "", Operands::none, "", "the kernels, functions, types, .. of the session, with their signatures", show_items, false},
    {"doc", "N", Operands::item, "", "what a name is, and its documentation; ?N is the same", show_documentation, false},
    {"show", "X [value|code|hex|bits] [all]", Operands::expression, "",
     "a value: its elements, or the codes that they are stored as; `all` of them, however many; a part is X[2, 0 +: 8]", show_value, false},
    {"bits", "X", Operands::expression, "", "the bits of each element; of floats sign, exponent and mantissa apart", show_bits, false},
    {"layout", "X or T @ L [M, N]", Operands::expression, "",
     "where each element lies in storage, in elements (in bits where they are no whole bytes), of a tensor or of T[8, 8] @ L", show_layout, false},
    {"diff", "E [MACHINE MACHINE]", Operands::expression, "",
     "what launches give on two machines, interp and the present one unless said otherwise: `f(x, y); y` has the value that is compared; how many "
     "elements differ, and by how many units in the last place",
     show_differences, false},
    {"time", "S [N]", Operands::expression, "", "runs statements N times, or for half a second, and shows the median and quartiles; changes nothing",
     measure, false},
    {"test", "[TEXT]", Operands::text, "", "runs the tests of the session whose name contains the text, on every machine unless one is set",
     run_tests, false},
    {"bench", "[TEXT]", Operands::text, "", "runs its benches", run_benches, false},
    {"ir", "K [STAGE] [-s N=V] [@ARCH]", Operands::kernel, "final after=PASS gpu gpu:after=PASS", "the tile IR of a kernel", show_ir, false},
    {"cuda", "K [-s N=V] [@ARCH]", Operands::kernel, kArchs, "its CUDA C++ text", show_cuda, false},
    {"ptx", "K [-s N=V] [@ARCH]", Operands::kernel, kArchs, "its PTX", show_ptx, false},
    {"sass", "K [-s N=V] [@ARCH]", Operands::kernel, kArchs, "its machine code for a GPU, through nvdisasm", show_sass_of, false},
    {"llvm", "K [opt] [-s N=V] [@aarch64]", Operands::kernel, "opt", "its LLVM IR for the CPU", show_llvm, false},
    {"asm", "K [-s N=V]", Operands::kernel, "", "its machine code for the CPU", show_asm, false},
    {"explain", "K [-s N=V] [@ARCH] or CODE", Operands::kernel, kArchs,
     "what became of each product and access of a kernel, and why; or what a code such as T0401 means", explain, false},
    {"resources", "K [-s N=V] [@ARCH]", Operands::kernel, kArchs, "registers, memory and spills", show_resources, false},
    {"viz", "KIND [K|T[M, N] @ L] [-s N=V] [@ARCH] [FILE.svg]", Operands::picture, kArchs,
     "a picture of a kernel or a type (`tegula viz --help` says of which kinds), as text or into a file (.svg, .html, .json)", draw, false},
    {"load", "FILE", Operands::file, "", "evaluates a file as one input", load_file, true},
    {"reload", "", Operands::none, "", "evaluates all files again that were loaded", reload_files, true},
    {"watch", "FILE", Operands::file, "", "loads a file, now and whenever it has changed: while the prompt waits, or before the next input",
     watch_file, true},
    {"save", "FILE", Operands::file, "", "writes the items of the session as a file that checks", save_file, false},
    {"import", "[N =] FILE[#NAME] [as T[M, N] [@ L]]", Operands::file, "",
     "an array of a .npy, .npz or .safetensors file becomes a variable; `as` takes its bytes for the storage of such a tensor", import_array, true},
    {"undo", "", Operands::none, "", "goes back by one input, contents of tensors included", undo, true},
    {"reset", "", Operands::none, "", "begins anew", reset, true},
    {"machine", "[NAME]", Operands::words, "interp cpu cuda auto", "what launches run on", set_machine, true},
    {"model", "[ARCH]", Operands::words, "none sm_75 sm_80 sm_86 sm_89 sm_90a sm_100a sm_120a",
     "interp sums products as the tensor cores of this GPU do, to the bit", set_model, true},
    {"checked", "[on|native|off]", Operands::words, "on native off", "whether launches report out-of-range accesses, races, ..", set_checked, true},
    {"set", "[NAME VALUE]", Operands::words, "print.digits print.edge print.threshold threads seed steps memory", "a setting, or all of them",
     set_setting, true},
    {"err", "", Operands::none, "", "the last diagnostics once more, and as JSON", show_error, false},
    {"history", "", Operands::none, "", "the inputs so far", show_history, false},
    {"edit", "[N]", Operands::item, "", "an item or an input by its number in the editor that EDITOR names; what it leaves is evaluated", nullptr,
     false},
    {"cd", "[DIR]", Operands::folder, "", "where files are looked for", change_folder, true},
    {"doctor", "", Operands::none, "", "what this machine has", show_doctor, false},
    {"cache", "[TASK]", Operands::words, "stats list verify trim clear", "what is kept of compiled code", show_cache, false},
    {"json", "on|off", Operands::words, "on off", "answers as JSON events", nullptr, false},
    {"quit", "", Operands::none, "", "ends the console; so does Ctrl-D on an empty line", nullptr, false},
    {"help", "[COMMAND]", Operands::words, "", "this list, or one command", show_help, false},
};

std::string_view without_space(std::string_view text) {
    const size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    return text.substr(begin);
}

Json candidate(const std::string& text, const char* kind, const std::string& type, std::string_view doc) {
    return {{"text", text}, {"kind", kind}, {"type", type}, {"doc", std::string(doc)}};
}

/// Files whose path begins with `word`.
Json files_like(const std::string& word, bool folders) {
    Json out = Json::array();
    const size_t slash = word.rfind('/');
    const std::string folder = slash == word.npos ? "" : word.substr(0, slash + 1), name = word.substr(folder.size());
    DIR* dir = ::opendir(folder.empty() ? "." : folder.c_str());
    if (!dir) return out;
    std::vector<std::string> found;
    constexpr size_t kMost = 1000;
    for (const dirent* e = ::readdir(dir); e && found.size() < kMost; e = ::readdir(dir)) {
        const std::string file = e->d_name;
        if (!file.starts_with(name) || file == "." || file == ".." || (name.empty() && file[0] == '.')) continue;
        struct stat info {};
        const bool is_folder = ::stat((folder + file).c_str(), &info) == 0 && S_ISDIR(info.st_mode);
        if (is_folder || !folders) found.push_back(folder + file + (is_folder ? "/" : ""));
    }
    ::closedir(dir);
    std::ranges::sort(found);
    for (const std::string& file : found) out.push_back(candidate(file, "file", "", ""));
    return out;
}

}  // namespace

std::string trimmed(std::string_view text) {
    text = without_space(text);
    while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != std::string_view::npos) text.remove_suffix(1);
    return std::string(text);
}

std::vector<std::string> words_in(std::string_view text) {
    std::vector<std::string> out;
    std::string word;
    for (const char c : std::string(text) + " ") {
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
            word += c;
        } else if (!word.empty()) {
            out.push_back(word);
            word.clear();
        }
    }
    return out;
}

std::span<const Command> commands() { return kCommands; }

std::vector<std::pair<std::string, std::string>> command_rows() {
    std::vector<std::pair<std::string, std::string>> out;
    for (const Command& c : kCommands)
        out.emplace_back(":" + std::string(c.name) + (c.operands.empty() ? "" : " ") + std::string(c.operands), c.help);
    out.emplace_back("!COMMAND", "a command of the shell, with --shell only");
    return out;
}

bool is_command(std::string_view text) {
    text = without_space(text);
    return text.starts_with(':') || text.starts_with('?') || text.starts_with('!');
}

std::string_view command_word(std::string_view text) {
    text = without_space(text);
    if (text.starts_with('?')) return "doc";
    if (!text.starts_with(':')) return {};
    return text.substr(1, std::min(text.find_first_of(" \t\r\n", 1), text.size()) - 1);
}

std::string_view command_operand(std::string_view text) {
    std::string unheard;
    const Command* command = find_command(command_word(text), unheard);
    if (!command || command->takes != Operands::expression) return {};
    text = without_space(text);
    return without_space(text.substr(std::min(text.find_first_of(" \t\r\n"), text.size())));
}

const Command* find_command(std::string_view word, std::string& problem) {
    const Command* found = nullptr;
    std::vector<std::string_view> names;
    for (const Command& c : kCommands) {
        if (c.name == word) return &c;
        if (!found && !word.empty() && c.name.starts_with(word)) found = &c;
        names.push_back(c.name);
    }
    if (!found)
        problem = word.empty() ? "`:help` lists the commands" : "there is no command `:" + std::string(word) + "`" + did_you_mean(word, names);
    return found;
}

int run_command(Core& core, const std::string& text) {
    std::string problem;
    if (without_space(text).starts_with('!')) return core.fail(usage, "commands of the shell are for a console that was begun with --shell");
    const Command* command = find_command(command_word(text), problem);
    if (!command) return core.fail(usage, problem);
    if (!command->run) return core.fail(usage, "`:" + std::string(command->name) + "` is for a console, and this is none");
    const std::string_view rest = without_space(text);
    const size_t begin = rest.starts_with('?') ? 1 : std::min(rest.find_first_of(" \t\r\n"), rest.size());
    return command->run(core, trimmed(rest.substr(begin)));
}

Json complete_command(Core& core, const std::string& text, size_t at) {
    const size_t colon = text.find_first_of(":?!");
    const std::string_view word = command_word(text);
    Json found = Json::array();
    size_t begin = at;
    if (text[colon] == ':' && at <= colon + 1 + word.size()) {
        begin = colon + 1;
        for (const Command& c : kCommands)
            if (c.name.starts_with(std::string_view(text).substr(begin, at - begin)))
                found.push_back(candidate(std::string(c.name), "command", std::string(c.operands), c.help));
        return {{"schema", 1}, {"begin", begin}, {"end", colon + 1 + word.size()}, {"candidates", found}};
    }
    std::string unheard;
    const Command* command = find_command(word, unheard);
    if (!command || command->takes == Operands::expression) return nullptr;
    const size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
    while (begin > colon + 1 && std::string_view(" \t\n").find(text[begin - 1]) == std::string_view::npos) --begin;
    const std::string typed = text.substr(begin, at - begin);
    const auto offer = [&](std::string_view name, const char* kind) {
        if (name.starts_with(typed)) found.push_back(candidate(std::string(name), kind, "", ""));
    };
    if (command->takes == Operands::file || command->takes == Operands::folder) found = files_like(typed, command->takes == Operands::folder);
    if (command->takes == Operands::item) return nullptr;
    // A kernel, or the kind of a picture, stands first; behind the kind that of which the picture is.
    const size_t operand = words_in(std::string_view(text).substr(colon, begin - colon)).size() - 1;
    const bool kernel = command->takes == Operands::kernel, picture = command->takes == Operands::picture;
    const auto offer_all = [&](const char* kind) {
        for (const std::string& name : core.names(kind)) offer(name, kind);
    };
    if (picture && operand == 0)
        for (const viz::Kind& kind : viz::kinds())
            if (kind.name.starts_with(typed)) found.push_back(candidate(std::string(kind.name), "picture", "", kind.help));
    if ((kernel && operand == 0) || (picture && operand == 1)) offer_all("kernel");
    if (picture && operand == 1) offer_all("type");
    if ((kernel || picture) && operand == 0 && !found.empty()) return {{"schema", 1}, {"begin", begin}, {"end", end}, {"candidates", found}};
    if (command->name == "help")
        for (const Command& c : kCommands) offer(c.name, "command");
    for (const std::string_view name : words_of(command->words)) offer(name, "option");
    return {{"schema", 1}, {"begin", begin}, {"end", end}, {"candidates", found}};
}

int show_help(Core& core, const std::string& operands) {
    if (!operands.empty()) {
        std::string problem;
        const Command* c = find_command(operands.starts_with(':') ? operands.substr(1) : operands, problem);
        if (!c) return core.fail(usage, problem);
        core.say(":" + std::string(c->name) + (c->operands.empty() ? "" : " ") + std::string(c->operands) + "\n    " + std::string(c->help));
        return ok;
    }
    std::string out =
        "Type items (kernel, fn, struct, type, layout, const, import, test, bench), statements, or expressions, whose values are shown and become\n"
        "`ans` and `_N`; a `;` at the end mutes. Commands, which may be abbreviated:\n\n";
    const size_t width = core.style().width;
    constexpr size_t kColumn = 30;
    for (const auto& [name, help] : command_rows()) {
        out += "  " + name;
        size_t column = name.size() + 2;
        if (column + 2 > kColumn) out += "\n", column = 0;
        out += std::string(kColumn - column, ' ');
        column = kColumn;
        for (const std::string& word : words_in(help)) {
            if (column > kColumn && column + 1 + word.size() > std::max(width, kColumn + 30))
                out += "\n" + std::string(kColumn, ' '), column = kColumn;
            if (column > kColumn) out += ' ', ++column;
            out += word, column += word.size();
        }
        out += "\n";
    }
    core.say(out);
    return ok;
}

}  // namespace tegula_tool::repl
