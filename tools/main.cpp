// The `tegula` command: parses arguments and calls one verb. Built on the public headers only.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "terminal.h"
#include "tool.h"

namespace {

using tegula_tool::Options;

/// Standard streams that the caller closed are opened the wrong way round, so that using one fails as before and no file takes its place.
void hold_standard_streams() {
    for (int fd : {0, 1, 2})
        if (::fcntl(fd, F_GETFD) < 0) (void)::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

/// `code`, unless what was written to standard output got lost. A reader that has gone (EPIPE) wanted no more.
int flushed(int code) {
    const bool lost = std::ferror(stdout) != 0;
    const int why = std::fflush(stdout) == 0 ? 0 : errno;
    if ((!lost && why == 0) || why == EPIPE) return code;
    std::fprintf(stderr, "error: standard output: %s\n", why ? std::strerror(why) : "not all of it could be written");
    return code == tegula_tool::ok ? tegula_tool::io : code;
}

/// An error of the command line itself, for people or as --json anywhere in it asks.
int complain(const Options& options, bool json, const tegula_tool::Parsed& parsed) {
    if (json) {
        std::printf("{\"schema\":1,\"level\":\"error\",\"code\":\"\",\"message\":%s,\"spans\":[],\"notes\":[],\"fixes\":[]}\n",
                    tegula_tool::json_text(parsed.message).c_str());
        return parsed.code;
    }
    const std::string verb = options.verb ? " " + std::string(options.verb->name) : "";
    std::fprintf(stderr, "tegula: %s\n`tegula%s --help` shows the %s\n", tegula_tool::visible(parsed.message).c_str(), verb.c_str(),
                 verb.empty() ? "verbs and options" : "options");
    return parsed.code;
}

int run_command(int argc, char** argv) {
    Options options;
    const std::vector<std::string> words(argv + (argc > 0), argv + argc);
    const tegula_tool::Parsed parsed = tegula_tool::parse_line(words, options);
    switch (parsed.what) {
        case tegula_tool::Parsed::failed:
            return complain(options, options.json || std::find(words.begin(), words.end(), "--json") != words.end(), parsed);
        case tegula_tool::Parsed::help:
            std::fputs(tegula_tool::help_text(options.verb, tegula_tool::wants_colour(options.colour, STDOUT_FILENO)).c_str(), stdout);
            return tegula_tool::ok;
        case tegula_tool::Parsed::version:
            std::printf("%s%s%s\n", tegula_build_id(), *tegula_tool::commit() ? ", commit " : "", tegula_tool::commit());
            return tegula_tool::ok;
        case tegula_tool::Parsed::run:
            break;
    }
    try {
        tegula_tool::Session session(options);
        const int code = options.verb->run(session);
        return code == tegula_tool::internal ? tegula_tool::leave_bundle(words, options, session.said()) : code;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "tegula: internal error: %s\n", tegula_tool::visible(e.what()).c_str());
        return tegula_tool::leave_bundle(words, options, std::string("internal error: ") + e.what() + "\n");
    }
}

}  // namespace

int main(int argc, char** argv) {
    hold_standard_streams();
    return flushed(run_command(argc, argv));
}
