// The `tegula` command: parses arguments and calls one verb. Built on the public headers only.
#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "terminal.h"
#include "tool.h"

namespace {

using tegula_tool::Options;

std::string not_negative(const std::string& text) {
    if (text.starts_with('-')) return text + " is negative";
    return text.find("nan") == text.npos && text.find("NAN") == text.npos && text.find("NaN") == text.npos ? std::string() : text + " is no number";
}

/// Numbers beyond 64 bits would be read as the largest one.
std::string fits(const std::string& text) {
    if (std::string problem = not_negative(text); !problem.empty()) return problem;
    const bool hex = text.starts_with("0x") || text.starts_with("0X");
    uint64_t value = 0;
    const auto read = std::from_chars(text.data() + 2 * hex, text.data() + text.size(), value, hex ? 16 : 10);
    return read.ec == std::errc::result_out_of_range ? text + " is above 2^64 - 1" : std::string();
}

void add_run_options(CLI::App& app, Options& o) {
    app.add_option("--machine", o.machine,
                   "interp (the reference interpreter), cpu (native code) or cuda; default: cuda where there is a GPU, else cpu, or interp in a "
                   "build without LLVM; tests: all that are here");
    app.add_option("--model", o.model, "interp, the default with it: sum products as the tensor cores of this GPU do, to the bit (sm_90a)");
    app.add_option("--threads", o.threads, "worker threads, 0: all cores");
    app.add_option("--disable-passes", o.disable_passes, "comma-separated compiler passes to skip, or `all`");
    app.add_option("--timeout", o.timeout_seconds, "seconds until the run is ended (exit code 124)")->check(not_negative);
    app.add_option("--steps", o.steps, "budget of tile instructions per launch, 0: none; default: none, for tests 10^9")->check(fits);
    app.add_option("--memory", o.memory, "budget of tile bytes per program, 0: none")->check(fits);
    app.add_option("--compile-budget", o.compile_budget, "budget of milliseconds for compiling a kernel for the CPU, 0: none")->check(fits);
    app.add_option("--seed", o.seed, "run the programs of a grid in a permuted order")->check(fits);
}

void add_verbs(CLI::App& app, Options& o) {
    auto* run = app.add_subcommand("run", "Run one kernel on array files and numbers");
    run->add_option("file", o.file, "source file, - for standard input")->required();
    run->add_option("kernel", o.kernel, "kernel name; not needed when the file has one");
    run->add_option("--arg,-a", o.args, "NAME=VALUE: a number, or @file.npy, @file.safetensors#tensor, each with :type to convert")
        ->allow_extra_args(false);
    run->add_option("--set,-s", o.sets, "NAME=VALUE: a generic parameter, a number or a type")->allow_extra_args(false);
    run->add_option("--out,-o", o.outs, "NAME=file.npy[:type]: where an output goes")->allow_extra_args(false);
    run->add_flag("--checked", o.checked, "report out-of-range pointers, uninitialised reads, races, division by zero");
    run->add_flag("--checked-native", o.checked_native, "the same without uninitialised reads and races, on the machine cpu in native code alone");
    run->add_flag("--trap-floats", o.trap_floats, "with --checked: report NaN and Inf made of finite operands");
    run->add_flag("--time", o.time, "print how long the launch took");
    add_run_options(*run, o);

    auto* pack = app.add_subcommand("pack", "Write an array file in another type and storage order");
    pack->add_option("in", o.in, "file.npy, or file.safetensors#tensor, packed ones too")->required();
    pack->add_option("out", o.out, "file.safetensors#tensor, or without --layout file.npy")->required();
    pack->add_option("--type", o.type, "element type of the result; default: the file's");
    pack->add_option("--layout", o.layout, "storage order of the result, such as fragment or tiled<8, 8>; default: row");
    pack->add_option("--with", o.with, "source file whose types and layouts may be named");

    auto* check = app.add_subcommand("check", "Report every error of source files");
    check->add_option("files", o.files, "source files")->required();

    for (const char* name : {"test", "bench"}) {
        auto* verb = app.add_subcommand(name, std::string("Run the ") + name + " blocks of source files");
        verb->add_option("files", o.files, "source files")->required();
        verb->add_option("--filter,-f", o.filter, "only blocks whose name contains this");
        add_run_options(*verb, o);
    }

    auto* dump = app.add_subcommand("dump", "Show a stage of the compiler");
    dump->add_option("file", o.file, "source file")->required();
    dump->add_option("kernel", o.kernel, "kernel name, for stages of an instance");
    dump->add_option("--emit,-e", o.emit,
                     "tokens, ast, fmt, json, ir, ir:after=PASS, ir:final, explain, kernel-json; for a GPU ir:gpu, ir:gpu:after=PASS, "
                     "cuda, ptx, cubin, resources, sass (through nvdisasm), each (and explain) also as KIND@sm_80; for the CPU llvm, llvm-opt, asm, "
                     "explain@cpu, llvm@aarch64, llvm@armv8.6-a");
    dump->add_option("--set,-s", o.sets, "NAME=VALUE: a generic parameter")->allow_extra_args(false);

    auto* fmt = app.add_subcommand("fmt", "Format source files in place; - formats standard input to standard output");
    fmt->add_option("files", o.files, "source files")->required();
    fmt->add_flag("--check", o.check_only, "change nothing, exit 1 when a file is not formatted");

    auto* doc = app.add_subcommand("doc", "Markdown of the documented items of a file");
    doc->add_option("file", o.file, "source file")->required();

    auto* explain = app.add_subcommand("explain", "What a diagnostic code means and how to cure it");
    explain->add_option("code", o.code, "for example T0301")->required();

    app.add_subcommand("doctor", "What this machine has: versions, machines, directories");
    app.add_subcommand("targets", "Machines, GPU architectures, number formats and compiler passes");
    for (CLI::App* verb : app.get_subcommands(nullptr)) verb->fallthrough();
}

int dispatch(const std::string& verb, tegula_tool::Session& session) {
    using namespace tegula_tool;
    if (verb == "run") return run_kernel(session);
    if (verb == "pack") return pack_file(session);
    if (verb == "check") return check_files(session);
    if (verb == "test" || verb == "bench") return test_files(session, verb == "bench");
    if (verb == "dump") return dump_file(session);
    if (verb == "fmt") return format_files(session);
    if (verb == "doc") return document_file(session);
    if (verb == "explain") return explain_code(session);
    if (verb == "doctor") return doctor(session);
    return targets(session);
}

/// The verb closest to a misspelt one, or empty.
std::string suggest(const CLI::App& app, const std::string& word) {
    std::string best;
    size_t best_score = 3;
    for (const CLI::App* verb : app.get_subcommands(nullptr)) {
        const std::string& name = verb->get_name();
        std::vector<size_t> row(name.size() + 1);
        for (size_t j = 0; j <= name.size(); ++j) row[j] = j;
        for (size_t i = 1; i <= word.size(); ++i) {
            size_t diagonal = row[0]++;
            for (size_t j = 1; j <= name.size(); ++j) {
                size_t cost = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (word[i - 1] != name[j - 1])});
                diagonal = std::exchange(row[j], cost);
            }
        }
        if (row[name.size()] < best_score) best_score = row[name.size()], best = name;
    }
    return best;
}

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

int run_command(int argc, char** argv) {
    Options options;
    CLI::App app{
        "Tegula, a tile language for GPU and CPU kernels.\n\nExamples:\n"
        "  tegula run softmax.tile softmax --set BLOCK=1024 --arg x=@x.npy --out y=y.npy\n"
        "  tegula test examples/*.tile\n"
        "  tegula dump matmul.tile matmul --emit=ir:after=fold --set BM=64",
        "tegula"};
    app.set_version_flag("--version", std::string(tegula_build_id()));
    app.require_subcommand(1);
    app.add_flag("--json", options.json, "machine-readable output, one JSON object per line");
    app.add_flag("--quiet,-q", options.quiet, "no chatter on standard error");
    app.add_option("--color", options.colour, "auto, always, never")->check(CLI::IsMember({"auto", "always", "never"}));
    app.add_option("--import-root", options.import_root, "directory that imports of files resolve under, beside the file's own");
    app.add_flag("--confine-loads", options.confine_loads,
                 "load_npy and load_safetensors of tests read below the file's directory and --import-root only");
    add_verbs(app, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp& e) {
        return app.exit(e);
    } catch (const CLI::CallForAllHelp& e) {
        return app.exit(e);
    } catch (const CLI::CallForVersion& e) {
        return app.exit(e);
    } catch (const CLI::ParseError& e) {
        const std::vector<std::string> rest = app.get_subcommands().empty() ? app.remaining() : std::vector<std::string>();
        const std::string unknown = rest.empty() || rest[0].starts_with('-') ? "" : rest[0];
        const std::string what = unknown.empty() ? e.what() : "there is no verb `" + unknown + "`";
        std::fprintf(stderr, "tegula: %s\n", tegula_tool::visible(what).c_str());
        const std::string near = suggest(app, unknown);
        if (!unknown.empty() && !near.empty()) std::fprintf(stderr, "did you mean `tegula %s`?\n", near.c_str());
        std::fprintf(stderr, "`tegula --help` shows the verbs and options\n");
        return tegula_tool::usage;
    }
    try {
        tegula_tool::Session session(options);
        return dispatch(app.get_subcommands().front()->get_name(), session);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "tegula: internal error: %s\n", tegula_tool::visible(e.what()).c_str());
        return tegula_tool::internal;
    }
}

}  // namespace

int main(int argc, char** argv) {
    hold_standard_streams();
    return flushed(run_command(argc, argv));
}
