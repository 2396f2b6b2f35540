// The table of the command line: verbs, options, exit codes, variables. What is not here is neither parsed, shown nor documented.
#include "options.h"
#include "tool.h"

namespace tegula_tool {

namespace {

constexpr std::string_view kRuns = "run test bench bisect repl", kRunsOrTunes = "run test bench bisect repl tune";

const Flag kFlags[] = {
    {"", "json", 0, "", Takes::text, "", &Options::json, "one JSON object a line on standard output; share/tegula/schema describes them"},
    {"", "quiet", 'q', "", Takes::text, "", &Options::quiet, "nothing on standard error but errors"},
    {"", "color", 0, "WHEN", Takes::word, "auto always never", &Options::colour, "when to colour; auto: on a terminal"},
    {"", "import-root", 0, "DIR", Takes::folder, "", &Options::import_root, "imports of files resolve under it, beside the file's own directory"},
    {"", "confine-loads", 0, "", Takes::text, "", &Options::confine_loads,
     "load_npy and load_safetensors of tests read below the file's directory and --import-root only"},

    {"run", "arg", 'a', "NAME=VALUE", Takes::file, "", &Options::args,
     "a parameter: a number; an array 1,2,3 or [[1, 2], [3, 4]]; or @file.npy, @file.npz#array, @file.safetensors#tensor, "
     "@model.safetensors.index.json#tensor, @directory#tensor, @- for standard input; :TYPE behind it converts, and '@FILE as u4[256, 96] @ LAYOUT' "
     "takes the file's bytes as they are"},
    {"run", "out", 'o', "NAME=FILE", Takes::file, "", &Options::outs,
     "where an output goes: file.npy, file.safetensors, or - for standard output; :TYPE behind it converts, :TYPE[EXTENTS] also gives extents that "
     "follow from nothing else"},
    {"run dump viz", "set", 's', "NAME=VALUE", Takes::text, "", &Options::sets,
     "a generic parameter: a number, a type, a word or the name of a function; an extent, a number"},
    {"run repl", "checked", 0, "", Takes::text, "", &Options::checked, "report out-of-range pointers, uninitialised reads, races, division by zero"},
    {"run repl", "checked-native", 0, "", Takes::text, "", &Options::checked_native,
     "the same without uninitialised reads and races, on the machine cpu in native code alone"},
    {"run repl", "trap-floats", 0, "", Takes::text, "", &Options::trap_floats, "with --checked: report NaN and Inf made of finite operands"},
    {"run", "time", 0, "", Takes::text, "", &Options::time, "print how long compiling and running took"},
    {"run", "show", 0, "N", Takes::text, "all", &Options::show, "elements that are shown of an output without a file, or all; default 8"},
    {"run", "digits", 0, "N", Takes::text, "", &Options::digits, "digits of their reals, default 6; integers are shown in full"},
    {"run", "reps", 0, "N", Takes::text, "", &Options::reps,
     "run N times, each with the same values, and print the median, quartiles and what the bytes of the tensors make of it"},
    {kRunsOrTunes, "machine", 0, "NAME", Takes::text, "interp cpu cuda auto", &Options::machine,
     "interp (the reference interpreter), cpu (native code) or cuda; default: cuda where there is a GPU, else cpu, or interp in a build without "
     "LLVM; tests: all that are here"},
    {kRuns, "model", 0, "ARCH", Takes::text, "sm_75 sm_80 sm_86 sm_89 sm_90a sm_100a sm_120a", &Options::model,
     "interp, the default with it: sum products as the tensor cores of this GPU do, to the bit"},
    {kRunsOrTunes, "threads", 0, "N", Takes::text, "", &Options::threads, "worker threads, 0: all cores"},
    {kRunsOrTunes, "disable-passes", 0, "LIST", Takes::text, "all", &Options::disable_passes, "comma-separated compiler passes to skip, or all"},
    {kRunsOrTunes, "timeout", 0, "SECONDS", Takes::text, "", &Options::timeout_seconds, "end the run after this time (exit code 124)"},
    {kRuns, "steps", 0, "N", Takes::text, "", &Options::steps, "budget of tile instructions per launch, 0: none; default: none, for tests 10^9"},
    {kRunsOrTunes, "memory", 0, "BYTES", Takes::text, "", &Options::memory, "budget of tile bytes per program, 0: none"},
    {kRunsOrTunes, "compile-budget", 0, "MS", Takes::text, "", &Options::compile_budget,
     "budget of milliseconds for compiling a kernel for the CPU, 0: none"},
    {kRuns, "seed", 0, "N", Takes::text, "", &Options::seed, "run the programs of a grid in a permuted order"},

    {"pack", "type", 0, "TYPE", Takes::text, "", &Options::type, "element type of the result; default: the file's"},
    {"pack", "layout", 0, "LAYOUT", Takes::text, "row col fragment", &Options::layout,
     "storage order of the result, such as fragment or tiled<8, 8>; default: row"},
    {"pack", "scale", 0, "WHAT", Takes::text, "none tensor row group=64", &Options::scale,
     "divide the values by scales before they are converted, one of f32 for the tensor, each row or each group of a row, such that the largest fits; "
     "they are written beside the tensor as NAME.scale; default: none"},
    {"pack", "with", 0, "FILE", Takes::file, "", &Options::with, "source file whose types and layouts may be named"},

    {"tune", "budget", 0, "TIME", Takes::text, "", &Options::budget,
     "how long to measure, as 20s, 5m or a number of seconds; default 20s. Comparisons with the interpreter, and the first choice of each launch, "
     "may "
     "take longer"},
    {"tune", "jobs", 'j', "N", Takes::text, "", &Options::jobs, "choices compiled at a time; default: one per processor, at most 8"},
    {"tune", "seed", 0, "N", Takes::text, "", &Options::seed, "of the order in which choices are tried where no cost model has one"},
    {"run test bench dump tune viz", "tuned", 0, "FILE", Takes::file, "off", &Options::tuned,
     "the file of measured choices, which launches follow and `tegula tune` adds to; off: none; default: TEGULA_TUNED, else tegula/tuned.json below "
     "XDG_DATA_HOME or ~/.local/share"},
    {"test bench bisect tune", "filter", 'f', "TEXT", Takes::text, "", &Options::filter, "only blocks whose name contains it"},
    {"dump", "emit", 'e', "STAGE", Takes::text,
     "tokens ast fmt json doc ir ir:final ir:after=PASS explain explain-json kernel-json ir:gpu ir:gpu:after=PASS kernel kernel:after=PASS cuda ptx ptx-lines cubin cubin-lines resources sass llvm "
     "llvm-opt llvm-lines asm asm-lines "
     "explain@cpu explain-json@cpu llvm@aarch64 llvm@armv8.6-a",
     &Options::emit,
     "of a file: tokens, ast, fmt, json, doc; of a kernel: ir (the default), ir:after=PASS, ir:final, explain, explain-json, kernel-json; for a GPU: "
     "ir:gpu, ir:gpu:after=PASS, kernel, kernel:after=PASS, cuda, ptx, ptx-lines (with .loc), cubin, cubin-lines, resources, sass (through nvdisasm), each (and explain, explain-json) also as STAGE@sm_80; for the "
     "CPU: llvm, llvm-opt, llvm-lines, asm, asm-lines (with .loc), explain@cpu, explain-json@cpu, llvm@aarch64, llvm@armv8.6-a"},
    {"check", "format", 0, "FORM", Takes::word, "text gnu sarif", &Options::format,
     "text; gnu: a line each, FILE:LINE:COLUMN: error: .., on standard error; sarif: one document of SARIF 2.1.0 on standard output"},
    {"viz", "arch", 0, "ARCH", Takes::text, "sm_75 sm_80 sm_86 sm_89 sm_90a sm_100a sm_120a", &Options::arch, "the GPU that kernels are shown for, default sm_90a"},
    {"viz", "of", 0, "NAME", Takes::text, "", &Options::of, "which parameter of the kernel, or which operation by its line; of tune the machine that measured, of source the panes: ir,cuda,ptx,sass,llvm,asm; default: all of them"},
    {"viz", "format", 0, "FORM", Takes::word, "text svg html json", &Options::form, "text, the default; svg; html; json, which the others are drawn from"},
    {"viz", "output", 'o', "FILE", Takes::file, "", &Options::out, "where to write it; its ending .svg, .html or .json gives the form where --format does not"},
    {"reduce bisect", "while", 0, "COMMAND", Takes::text, "", &Options::condition,
     "what to keep: this command of the shell ends with code 0; {} in it stands for the file (reduce) or the passes that are off (bisect)"},
    {"reduce bisect", "patience", 0, "SECONDS", Takes::text, "", &Options::patience,
     "how long each command may take, default 60; one that takes longer does not hold"},
    {"repl", "eval", 'e', "TEXT", Takes::text, "", &Options::texts,
     "an input, as if it were typed; behind the files, and then the console ends unless -i"},
    {"repl", "interactive", 'i', "", Takes::text, "", &Options::interactive, "go on with what is typed after files and -e"},
    {"repl", "isolate", 0, "", Takes::text, "", &Options::isolate,
     "evaluate in a process of its own, the default with --machine cuda: native code that crashes loses no variable"},
    {"repl", "untrusted", 0, "", Takes::text, "", &Options::untrusted,
     "files and pipes are somebody else's: --isolate and --confine-loads, and no commands in them"},
    {"repl", "init", 0, "FILE", Takes::file, "none", &Options::init,
     "evaluated first, or none; where a person types, default: tegula/init.tile in XDG_CONFIG_HOME or ~/.config"},
    {"repl", "no-history", 0, "", Takes::text, "", &Options::no_history, "neither read nor write the file of what was typed before"},
    {"repl", "plain", 0, "", Takes::text, "", &Options::plain, "read lines without an editor, and write no escape sequence but colours"},
    {"repl", "shell", 0, "", Takes::text, "", &Options::shell_commands, "allow !COMMAND, which a shell runs"},
    {"repl", "keep-going", 0, "", Takes::text, "", &Options::keep_going, "of files, -e and pipes: go on after an input that failed"},
    {"fmt", "check", 0, "", Takes::text, "", &Options::check_only, "change nothing, exit 1 when a file is not formatted"},
    {"lsp", "log", 0, "FILE", Takes::file, "", &Options::log, "append every message to this file"},
    {"manual", "write", 0, "DIR", Takes::folder, "", &Options::directory,
     "write every page and completion into this directory, as an installation has them"},
};

constexpr Operand kSource = {"FILE", true, false, Takes::file, "", &Options::file, "source file, - for standard input"};
constexpr Operand kSources = {"FILE", true, true, Takes::file, "", &Options::files, "source files"};

const std::vector<Verb>& table() {
    static const std::vector<Verb> all = {
        {"run",
         "Run one kernel on array files and numbers",
         {kSource,
          {"KERNEL", false, false, Takes::text, "", &Options::kernel, "its name; not needed when the file has one, alias.name for one of an import"}},
         {"tegula run softmax.tile softmax --set BLOCK=1024 --arg x=@x.npy --out y=y.npy",
          "tegula run w4a16.tile --arg w=@model.safetensors#w:i4 --arg x=@x.npy:f16 --machine cpu --time"},
         "Types, extents and the grid follow from the arguments. An output without --out is summarised on standard output. A failed run writes "
         "nothing.",
         run_kernel},
        {"pack",
         "Write an array file in another type and storage order",
         {{"IN", true, false, Takes::file, "", &Options::in, "file.npy, or file.safetensors#tensor, packed ones too"},
          {"OUT", true, false, Takes::file, "", &Options::out, "file.safetensors#tensor, or without --layout file.npy"}},
         {"tegula pack w.npy w.safetensors --type i4 --layout 'panels<4>' --with kernels.tile",
          "tegula pack w.safetensors back.npy --type f32 --with kernels.tile"},
         "",
         pack_file},
        {"check",
         "Report every error of source files",
         {kSources},
         {"tegula check kernels.tile", "tegula --json check - < kernels.tile"},
         "",
         check_files},
        {"test",
         "Run the test blocks of source files",
         {kSources},
         {"tegula test kernels.tile", "tegula test kernels.tile --filter softmax --machine interp"},
         "Each test runs on every machine that is here, and every launch is compared with the interpreter.",
         test_files},
        {"bench",
         "Run the bench blocks of source files",
         {kSources},
         {"tegula bench kernels.tile", "tegula --json bench kernels.tile --machine cpu --threads 4"},
         "Times are those of the launches: wall time, on a GPU the kernels' own from a cold L2 cache, without copies.",
         bench_files},
        {"tune",
         "Measure the choices of tuned values",
         {kSources},
         {"tegula tune matmul.tile --budget 60s", "tegula tune matmul.tile --machine cpu --filter 1024"},
         "Every launch of the bench blocks that leaves choices of `tune` open is measured where it stands. A choice that is quicker than the one "
         "launches "
         "take by themselves is compared with the interpreter before it is believed: in the tests of the file that launch the kernel, or, without "
         "any, on "
         "the arguments of the bench. What is found goes into the file of measured choices, which launches of every program follow from then on.\n"
         "A search that was interrupted, or whose time was up, goes on where it ended.",
         tune_files},
        {"dump",
         "Show a stage of the compiler",
         {kSource, {"KERNEL", false, false, Takes::text, "", &Options::kernel, "for stages of a kernel; default: the first of the file"}},
         {"tegula dump matmul.tile matmul --emit=ir:after=fold --set BM=64", "tegula dump matmul.tile --emit=explain@sm_80"},
         "",
         dump_file},
        {"viz",
         "Draw a picture of a type, a kernel, or of two arrays",
         {{"KIND", true, false, Takes::word, "layout bits format fragment place banks sectors convert pipeline smem resources roofline grid tune source diff", &Options::picture,
           "of types and kernels: layout, bits, format, fragment, banks; of kernels: place, sectors, convert, pipeline, smem, resources, roofline, grid, tune, source; of arrays: diff"},
          {"FILE", true, false, Takes::file, "", &Options::file, "source file, - for standard input"},
          {"WHAT", false, false, Takes::text, "", &Options::kernel,
           "a kernel, by default the first of the file, or a type: 'u4[16, 32] @ tiled<8, 8>'; of fragment an instruction: wgmma.f16.f32; of diff, FILE and WHAT are arrays, as run takes them: x.npy, m.safetensors#w:f16"}},
         {"tegula viz layout kernels.tile 'f16[16, 16] @ swizzle<3, 3, 3>'", "tegula viz format kernels.tile f8e4m3 -o f8.svg"},
         "Text has the width of the terminal, or 80 columns. Pictures need no network and no fonts, and follow the viewer's dark or light theme.",
         draw_picture},
        {"fmt",
         "Format source files in place; - formats standard input to standard output",
         {kSources},
         {"tegula fmt kernels.tile", "tegula fmt --check examples/*.tile"},
         "",
         format_files},
        {"doc",
         "Markdown of the documented items of a file",
         {kSource},
         {"tegula doc kernels.tile > kernels.md", "tegula doc - < kernels.tile"},
         "",
         document_file},
        {"explain",
         "What a diagnostic code means and how to cure it",
         {{"CODE", true, false, Takes::text, "", &Options::code, "for example T0301"}},
         {"tegula explain T0301", "tegula --json explain T0301"},
         "",
         explain_code},
        {"doctor",
         "What this machine has: versions, machines, directories",
         {},
         {"tegula doctor", "tegula --json doctor"},
         "Exit code 0 in any case.",
         doctor},
        {"targets", "Machines, GPU architectures, number formats and compiler passes", {}, {"tegula targets", "tegula --json targets"}, "", targets},
        {"cache",
         "What is kept of compiled code, and its removal",
         {{"TASK", false, false, Takes::word, "stats list verify trim clear", &Options::task,
           "stats (the default); list: each entry; verify: remove damaged ones; trim: down to the limit; clear: everything"}},
         {"tegula cache", "tegula cache verify"},
         "The directory is that of TEGULA_CACHE_DIR, or tegula in XDG_CACHE_HOME or ~/.cache.",
         tend_cache},
        {"new",
         "Make a directory with a kernel, its tests, and a C++ program that launches it",
         {{"DIR", true, false, Takes::folder, "", &Options::file, "which may be there, without files of these names"}},
         {"tegula new kernels", "cmake -S kernels -B kernels/build && cmake --build kernels/build"},
         "",
         new_project},
        {"reduce",
         "The smallest text for which a command still ends with code 0",
         {{"FILE", true, false, Takes::file, "", &Options::file, "source file, which stays as it is"}},
         {"tegula reduce k.tile --while 'tegula check {} 2>&1 | grep -q T0302'",
          "tegula reduce k.tile --while '! timeout 5 tegula test {}' > small.tile"},
         "The text goes to standard output. Each attempt is a file beside FILE, so that imports are found, and is removed at the end.",
         reduce_file},
        {"bisect",
         "Which compiler pass makes the tests of a file fail",
         {kSource},
         {"tegula bisect k.tile --machine cpu", "tegula bisect k.tile --while '! tegula run k.tile -a x=@x.npy --disable-passes={}'"},
         "Passes are taken away from the end of the list of tegula targets. Exit code 3 where no pass is the cause.",
         bisect_file},
        {"lsp",
         "Serve an editor: the language server protocol on standard input and output",
         {},
         {"tegula lsp", "tegula lsp --log /tmp/lsp.log"},
         "Editors start it by themselves: docs/editors.md says how.",
         serve_editor},
        {"repl",
         "A console: items, statements and expressions of the language as they are typed",
         {{"FILE", false, true, Takes::file, "", &Options::files,
           "evaluated in order, and then the console ends unless -i; one with commands or prompts in it is read as if it were typed"}},
         {"tegula repl", "echo 'sum(arange<f32>[100]())' | tegula repl", "tegula repl -e ':load softmax.tile' -e ':cuda softmax'"},
         "Expressions are shown and become ans and _N. Commands begin with a colon: :help lists them. Off a terminal it stops at the first error, "
         "with its exit code. With --json it is a server: requests are lines of JSON on standard input, events lines on standard output.",
         start_repl},
        {"completions",
         "A shell's completions of this command",
         {{"SHELL", true, false, Takes::word, "bash zsh fish", &Options::shell, "bash, zsh or fish"}},
         {"source <(tegula completions bash)", "tegula completions fish > ~/.config/fish/completions/tegula.fish"},
         "An installation has them where the shells look for them.",
         show_completions},
        {"manual",
         "A page of the manual, as roff",
         {{"VERB", false, false, Takes::text, "", &Options::page, "whose page; default: that of the command"}},
         {"tegula manual run | man -l -", "tegula manual | man -l -"},
         "An installation has the pages: man tegula, man tegula-run.",
         show_manual},
    };
    return all;
}

constexpr Row kExitCodes[] = {
    {"0", "all is well"},
    {"1", "errors in the source (or, with `fmt --check`, in its format)"},
    {"2", "the command was called wrongly"},
    {"3", "the launch was refused, the run stopped on an error, a test failed, or a machine differed from the interpreter"},
    {"4", "the machine asked for is not here: no GPU, no driver, no NVRTC, or a library built without LLVM"},
    {"5", "a file could not be read or written, or standard output could not take what was printed"},
    {"70", "an internal error: a directory that is named has what a report of it needs, with the line that repeats the call"},
    {"124", "`--timeout` is over"},
    {"130",
     "interrupted (Ctrl-C, SIGTERM): runs stop by themselves, compiling for a GPU included, anything else is ended two seconds later; a second "
     "signal "
     "of the kind ends the command at once"},
};

constexpr Row kVariables[] = {
    {"TEGULA_CACHE_DIR",
     "where compiled kernels of `cpu` and `cuda` are kept; `off`: in memory only. Default `$XDG_CACHE_HOME/tegula`, else `$HOME/.cache/tegula`"},
    {"TEGULA_CPU", "a processor of LLVM's, such as `x86-64-v3`, that kernels of `cpu` are compiled for instead of the host"},
    {"TEGULA_CPU_DEBUG", "`1`: kernels of `cpu` are shown to gdb and perf"},
    {"TEGULA_NVRTC", "the NVRTC library to use"},
    {"TEGULA_TUNED",
     "the file of measured choices; `off`: none. Default `$XDG_DATA_HOME/tegula/tuned.json`, else `$HOME/.local/share/tegula/tuned.json`"},
    {"NO_COLOR, CLICOLOR_FORCE, TERM",
     "diagnostics are coloured when standard error is a terminal, unless `NO_COLOR` is set or `TERM=dumb`; `CLICOLOR_FORCE=1` colours always; "
     "`--color` beats them all"},
};

}  // namespace

std::span<const Verb> verbs() { return table(); }
std::span<const Flag> flags() { return kFlags; }
std::span<const Row> exit_codes() { return kExitCodes; }
std::span<const Row> variables() { return kVariables; }

}  // namespace tegula_tool
