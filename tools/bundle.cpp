// What an internal error leaves behind: the sources, the words of the call, what was said, versions, and the intermediate text of the kernel.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "files.h"
#include "terminal.h"
#include "tool.h"

namespace tegula_tool {

namespace {

/// A word as an argument file has it.
std::string in_quotes(const std::string& word) {
    std::string out = "'";
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'\n";
}

/// The kernel that the call names, or the first of the file: any of them may be the one.
std::vector<std::string> kernels_of(tegula::Module& module, const std::string& named) {
    constexpr size_t kMost = 8;
    std::vector<std::string> out;
    if (!module.c()) return out;
    if (!named.empty()) return {named};
    auto text = module.artifact("json");
    if (!text) return out;
    const auto json = nlohmann::json::parse(text.value(), nullptr, false);
    for (const auto& item : json.value("items", nlohmann::json::array()))
        if (item["kind"] == "kernel" && out.size() < kMost) out.push_back(item["name"]);
    return out;
}

std::string absolute(const std::string& path) {
    char* real = ::realpath(path.c_str(), nullptr);
    std::string out = real ? real : path;
    std::free(real);
    return out;
}

}  // namespace

int leave_bundle(const std::vector<std::string>& words, const Options& o, const std::string& said) {
    std::string directory = temporary_path("tegula-error-XXXXXX"), error;
    if (!::mkdtemp(directory.data())) return internal;
    const auto put = [&](const std::string& name, const std::string& text) { return write_file(directory + "/" + name, text, error); };
    std::vector<std::string> sources = o.files;
    if (!o.file.empty()) sources.push_back(o.file);
    // The copies take the places of the sources; their imports are found where the sources lie.
    std::string arguments, root;
    std::vector<std::pair<std::string, std::string>> copies;
    for (const std::string& source : sources) {
        const auto text = read_file(source, uint64_t{16} << 20, error);
        if (source == "-" || !text) continue;
        const std::string name = std::to_string(copies.size()) + "-" + source.substr(source.rfind('/') + 1);
        const std::string path = absolute(source);
        if (root.empty()) root = path.substr(0, path.rfind('/') + 1);
        if (put(name, *text)) copies.emplace_back(source, directory + "/" + name);
    }
    for (const std::string& word : words) {
        const auto copy = std::find_if(copies.begin(), copies.end(), [&](const auto& c) { return c.first == word; });
        arguments += in_quotes(copy == copies.end() ? word : copy->second);
    }
    if (o.import_root.empty() && !root.empty()) arguments += "--import-root\n" + in_quotes(root);
    char here[4096] = ".";
    if (!::getcwd(here, sizeof here)) here[0] = '.', here[1] = '\0';
    const std::string replay = "cd " + in_quotes(here).substr(0, in_quotes(here).size() - 1) + " && tegula @" + directory + "/args.txt";
    bool good = put("args.txt", arguments) && put("said.txt", said);
    try {
        Options fresh = o;
        Session session(fresh);
        good &= put("versions.txt", std::string(tegula_build_id()) + "\n" + session.engine.describe());
        tegula::Module module;
        if (!copies.empty())
            if (auto loaded = session.engine.load_file(copies.front().second)) module = loaded.value();
        const auto generics = session.generics();
        for (const std::string& name : kernels_of(module, o.kernel)) {
            if (!generics) break;
            auto kernel = module.compile(name, *generics);
            if (!kernel) continue;
            for (const char* stage : {"ir", "ir:final"})
                if (auto text = kernel.value().artifact(stage))
                    good &= put(name + (std::string(stage) == "ir" ? ".elaborated.ir" : ".final.ir"), text.value());
        }
    } catch (const std::exception&) {  // the error struck again: what is there has to do
    }
    if (good)
        std::fprintf(stderr, "this is a bug of Tegula's; %s has what a report of it needs, and this repeats it:\n  %s\n", visible(directory).c_str(),
                     visible(replay).c_str());
    return internal;
}

}  // namespace tegula_tool
