// C++ text compiled by the system's compiler and loaded.
#pragma once
#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace tegula {

class HostLibrary {
public:
    ~HostLibrary() { close(); }
    HostLibrary() = default;
    HostLibrary(const HostLibrary&) = delete;
    HostLibrary& operator=(const HostLibrary&) = delete;

    /// `name`: of the files, one for each library of a program, as a file that is loaded already would not be loaded again.
    bool build(const std::string& name, const std::string& source, const std::string& options) {
        const std::string file = std::string(TEGULA_BINARY_DIR) + "/" + name;
        std::ofstream(file + ".cpp") << source;
        for (const char* compiler : {"g++", "clang++", "clang++-19", "c++"}) {
            if (std::system((std::string("command -v ") + compiler + " > /dev/null 2>&1").c_str()) != 0) continue;
            found_ = true;
            const std::string command = std::string(compiler) + " -std=c++17 " + options + " -w -fno-strict-aliasing -ffp-contract=off -shared -fPIC -o " +
                                        file + ".so " + file + ".cpp";
            if (std::system(command.c_str()) != 0) return false;
            handle_ = dlopen((file + ".so").c_str(), RTLD_NOW);
            return handle_ != nullptr;
        }
        return false;
    }
    bool found() const { return found_; }  ///< a compiler
    void* symbol(const std::string& name) const { return dlsym(handle_, name.c_str()); }
    void close() {
        if (handle_) dlclose(handle_);
        handle_ = nullptr;
    }

private:
    bool found_ = false;
    void* handle_ = nullptr;
};

}  // namespace tegula
