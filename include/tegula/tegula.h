/* Tegula: an embeddable tile language. This header is the only ABI; tegula.hpp wraps it for C++.
 *
 * Rules that hold for every function:
 * - Status: 0 is success, negative values are errors. `diags`, when not NULL, receives a handle (also on success: warnings), which the caller
 *   releases; it may be NULL when there is nothing to say. Out-handles are NULL after an error.
 * - Ownership: handles are reference-counted. Functions that return one give the caller a reference, released with tegula_release. Children
 *   keep their parents alive, so handles may be released in any order. Input pointers are borrowed for the call only, unless noted.
 * - Handles: NULL and handles of another kind are TEGULA_E_USAGE with a diagnostic; functions without a status give 0, NULL or "" and do nothing.
 *   A handle whose last reference is gone is not recognised: using it is undefined, as for any freed memory.
 * - Callbacks: what one throws (C++) ends the call with TEGULA_E_USAGE and a diagnostic that names the callback; it goes no further.
 * - Threads: all handles are immutable after creation and may be used from any number of threads at once. Callbacks may run on any thread that
 *   is inside a call; they must not release the handle of that call.
 * - The library never prints, exits, aborts, installs signal handlers or changes process state; no C++ exception leaves it.
 * - Stack: 256 KiB of the calling thread's are enough, and needed; programs that nest too deeply for what there is are errors (T0603).
 * - Floating point: results do not depend on the rounding mode, on how subnormals are treated or on what traps in the calling thread. Callbacks see
 *   the default of all three, the caller finds its own again.
 * - Locale: nothing depends on the locale of the process, of the thread or of C++ (setlocale, uselocale, std::locale::global), and none is changed.
 *   Numbers in texts, artefacts and JSON have a decimal point and no grouping; messages are English, those of the system too.
 * - Text is UTF-8. Strings returned by handles live as long as the handle.
 */
#ifndef TEGULA_H
#define TEGULA_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TEGULA_API __attribute__((visibility("default")))
#else
#define TEGULA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TEGULA_ABI_VERSION 3u

typedef int32_t tegula_status;
enum {
    TEGULA_OK = 0,
    TEGULA_E_SOURCE = -1,      /* the program is wrong: diagnostics say where */
    TEGULA_E_ARGUMENTS = -2,   /* launch arguments do not fit the kernel; nothing was written */
    TEGULA_E_RUN = -3,         /* the run stopped on an error of checked mode, a failed assert or a budget */
    TEGULA_E_UNAVAILABLE = -4, /* the machine asked for is not present here */
    TEGULA_E_IO = -5,          /* a file could not be read or written */
    TEGULA_E_CANCELLED = -6,   /* tegula_cancel, or the progress callback said so */
    TEGULA_E_USAGE = -7,       /* the API was called wrongly (NULL or another handle, bad struct_size, unknown name), or a callback threw */
    TEGULA_E_MISMATCH = -8,    /* a test failed: values differ */
    TEGULA_E_INTERNAL = -70    /* a bug of ours; the diagnostics carry what is needed to report it */
};

typedef struct tegula_engine tegula_engine; /* configuration, machines, compiled kernels */
typedef struct tegula_module tegula_module; /* one checked source file */
typedef struct tegula_kernel tegula_kernel; /* one compiled instance of a kernel for one machine */
typedef struct tegula_diags tegula_diags;   /* diagnostics of one call */
typedef struct tegula_blob tegula_blob;     /* bytes with a length, NUL-terminated after the end */

/* Version of the ABI the library was built with; compare with TEGULA_ABI_VERSION, as tegula.hpp does. */
TEGULA_API uint32_t tegula_abi_version(void);
/* "tegula 0.1.0 (...)": static text. */
TEGULA_API const char* tegula_build_id(void);

/* Text of one import. `name` is "dir/file.tile". Return a blob (tegula_blob_new) or NULL for "not found". */
typedef tegula_blob* (*tegula_import_fn)(void* user, const char* name);

struct tegula_tensor;
/* An array file for `load_npy` / `load_safetensors` of host statements: fills `tensor` (zeros when called; data, scales and names inside the returned
 * blob or longer-lived) or returns NULL with a reason in `error` (`capacity` bytes). `name` is the tensor's name in a safetensors file, NULL for
 * .npy. `path` is as the source has it, behind the directory of the module's file where a file of that name lies there. What it gives is judged as a
 * launch would: packed arrays bring the layout's name and `layout_hash`, block types their scales. Host memory, no strides. */
typedef tegula_blob* (*tegula_array_fn)(void* user, const char* path, const char* name, struct tegula_tensor* tensor, char* error, size_t capacity);

/* Threads of the host, for the programs of a grid on the machine "cpu". `run` calls call(task, i) once for every i below `count`, on any threads,
 * at the same time or one after the other, and returns when all have returned. Calls that are left out are made up for by the thread that launched,
 * repeated ones return at once, and so do those that come later, until the engine is released. */
typedef struct tegula_executor {
    void (*run)(void* user, uint32_t count, void (*call)(void* task, uint32_t index), void* task);
    void* user;
} tegula_executor;

typedef struct {
    size_t struct_size;              /* set by tegula_engine_options_init; sizes that the library does not know are TEGULA_E_USAGE */
    tegula_import_fn import_;        /* NULL: only `std` modules can be imported, and files below import_root */
    tegula_array_fn load_array;      /* NULL: host statements cannot load files */
    void* user;                      /* passed to callbacks */
    const char* import_root;         /* directory imports of files resolve under (no `..`, no absolute path, no symlink escape); NULL: none */
    uint32_t max_errors;             /* diagnostics per call, default 100 */
    uint32_t cpu_threads;            /* machine "cpu": threads of the engine beside the calling one, 0: as many as runs ask for */
    const tegula_executor* executor; /* machine "cpu": copied; NULL: threads of the engine, started when a run first wants them */
    int32_t pin_threads;             /* != 0: each thread of the engine stays on one core */
    int32_t cpu_debug;               /* machine "cpu", != 0: kernels are shown to gdb and perf, with the lines of their sources, and stay in memory */
    int32_t confine_loads; /* != 0, for text that is not trusted: load_array is asked only for regular files below the directory of the module's file
                            * or import_root, by the rules of imports, and gets their path with that directory in front */
    const char* cache_dir; /* where compiled code is kept between processes, "off": nowhere; NULL: as TEGULA_CACHE_DIR says, else below
                              XDG_CACHE_HOME or HOME */
    uint64_t cache_bytes;  /* its size, above which what was used least recently goes; 0: 1 GiB */
    void (*log)(void* user, int level,
                const char* text); /* lines for whoever runs the host, from any thread: TEGULA_LOG_WARNING what goes wrong beside
                                      a call, TEGULA_LOG_INFO each kernel that is compiled, TEGULA_LOG_LAUNCH the
                                      name of each kernel that host statements launch, before it runs; NULL: none. What it throws is dropped */
    const char* tuned;     /* the file of measured choices of `tune` (tegula_tune), which launches ask before the cost model; "off": none; NULL: as
                              TEGULA_TUNED says, else tegula/tuned.json below XDG_DATA_HOME or HOME/.local/share */
} tegula_engine_options;
enum { TEGULA_LOG_WARNING = 1, TEGULA_LOG_INFO = 2, TEGULA_LOG_LAUNCH = 3 };
/* Fills `options` with defaults; `size` is sizeof(tegula_engine_options) of the caller. */
TEGULA_API void tegula_engine_options_init(tegula_engine_options* options, size_t size);
/* `options` may be NULL for defaults. Engines are independent; any number may exist. */
TEGULA_API tegula_status tegula_engine_new(const tegula_engine_options* options, tegula_engine** engine, tegula_diags** diags);
/* `handle`: an engine, a session, or a job (tegula_prepare_async), which ends as soon as that is possible, for good; on == 0 changes nothing for it.
 * A session (a workspace), on != 0: ends its evaluation (its call) in progress, loading and checking included, and refuses new ones until on == 0.
 * An engine, on != 0: ends every run in progress of this engine with TEGULA_E_CANCELLED, and refuses new ones the same way (nothing is written) until
 * on == 0 allows runs again. Runs are launches, prepares, tests, benches and artefacts; they end within about 50 ms, compiling for the GPU
 * included: what NVRTC is at goes on behind the scenes until it can be stopped, seconds at most, and the release of the engine waits for it.
 * Compiling for the CPU ends between two functions of its code, as a rule within 100 ms. Loading, tegula_module_check and tegula_compile go on to
 * their end. Async-signal-safe. To end one run only, see `progress`. */
TEGULA_API void tegula_cancel(void* handle, int on);

/* Parses and checks `text` (`size` bytes); `name` is shown in diagnostics. */
TEGULA_API tegula_status tegula_module_from_source(tegula_engine* engine, const char* name, const char* text, size_t size, tegula_module** module,
                                                   tegula_diags** diags);
/* Reads `path`, then as above; imports also resolve beside the file. */
TEGULA_API tegula_status tegula_module_from_file(tegula_engine* engine, const char* path, tegula_module** module, tegula_diags** diags);
/* Compiles every kernel with default or representative generics, so that errors inside bodies show without a launch. */
TEGULA_API tegula_status tegula_module_check(tegula_module* module, tegula_diags** diags);

/* A named value: a generic (integer, real, type) or a launch argument. */
typedef enum { TEGULA_INT = 0, TEGULA_REAL = 1, TEGULA_TYPE = 2, TEGULA_TENSOR = 3, TEGULA_UINT = 4 } tegula_value_kind;

/* Where a tensor lies, as in DLPack. */
enum { TEGULA_HOST = 0, TEGULA_CUDA = 2 };

/* A tensor in memory of the host or of a device, borrowed for the call (device memory: until the stream has passed the launch). */
typedef struct tegula_tensor {
    void* data;             /* what kernels write must be writable memory */
    size_t bytes;           /* size of the storage at `data`; checked against type, extents and layout */
    const char* type;       /* element type as written in the language: "f16", "i3", "mxfp4" (a type visible in the module); "ptr<f16>":
                               addresses of such elements, of 8 bytes each (tegula_run_options.reachable); numbers of type "u64" may be addresses, too */
    int32_t rank;           /* 0..8 */
    const int64_t* extents; /* logical extents, `rank` of them */
    const int64_t* strides; /* in elements, not negative, whole-byte types only; where the tensor is written no two elements share a place. NULL:
                               storage as `layout` says */
    const char* layout;     /* "row" (also NULL), "col", or a layout visible in the module: "tiled<8, 8>" */
    void* scales;           /* block types: scales, packed in the same order; NULL otherwise */
    size_t scales_bytes;
    void* tensor_scale;   /* block types with a tensor scale: one value; NULL otherwise */
    int32_t device_type;  /* TEGULA_HOST or TEGULA_CUDA: where data, scales and tensor_scale point. Machines copy what they cannot reach.
                             TEGULA_CUDA: elements of 16, 32 and 64 bits begin at multiples of their size, others at any byte; else
                             TEGULA_E_ARGUMENTS. TEGULA_HOST: anywhere; on cuda, tensors that overlap and of which one is written lie such that
                             the elements of both can be multiples of their sizes */
    int32_t device_id;    /* TEGULA_CUDA: ordinal */
    uint64_t layout_hash; /* 0, or what tegula_layout_hash gave when the data was packed: refused where `layout` is another order now */
} tegula_tensor;

typedef struct {
    const char* name; /* generic or parameter name; for launches NULL means "by position" */
    tegula_value_kind kind;
    int64_t i;        /* TEGULA_INT (bools: 0 or 1); TEGULA_UINT: the bits of a uint64_t, for numbers from 2^63 on */
    double r;         /* TEGULA_REAL; a tensor of rank 0 in host memory is a number too, where a scalar is wanted. Integers and the numbers of
                         such tensors must be values of the parameter's type, reals take one rounding; all else is TEGULA_E_ARGUMENTS */
    const char* type; /* TEGULA_TYPE: type text; of a generic that takes a word or a function, the word or the name: "rtz", "nn.relu" */
    const tegula_tensor* tensor; /* TEGULA_TENSOR */
} tegula_value;

typedef struct {
    size_t struct_size;
    const char* machine; /* "interp" (the reference interpreter), "cpu" (native code), "cuda"; NULL or "auto": cuda where there is a GPU, else cpu, or
                            interp in a library without LLVM */
    const char* disable_passes; /* comma-separated pass names, "all", or NULL. Never changes a result bit */
    int32_t checked;        /* 0: no; 1: report out-of-range pointers, uninitialised reads, races, integer division by zero .. (on cpu and cuda the
                             * interpreter runs first);        2: on cpu only what native code sees itself: no uninitialised reads, no races; elsewhere, and with
                             * trap_floats, as 1 */
    int32_t trap_floats;    /* checked: also NaN or Inf out of finite operands */
    uint64_t order_seed;    /* 0: programs in order; else a permutation */
    uint32_t threads;       /* interp, cpu; 0: all cores (checked runs of interp use one) */
    uint64_t step_budget;   /* tile instructions, 0: none. Tests and benches: of each launch, and of a block's statements with its launches */
    uint64_t memory_budget; /* bytes of tile storage per program (cpu: what does not stay in registers), 0: none. Tests and benches: of the tensors
                             * that a block holds, too */
    void (*print)(void* user, const char* text, size_t size); /* output of `print`, also of runs that fail; NULL: dropped */
    int (*progress)(void* user, uint64_t done, uint64_t all); /* about every 0.1 s; non-zero ends this run alone, with TEGULA_E_CANCELLED.
                                                               * Programs of the grid; `all` is 0 in statements of tests and benches, which
                                                               * count steps */
    void* user;
    const char* model; /* interp: sum as the tensor cores of this GPU do ("sm_90a"); NULL: one fma chain. Without `machine` it means interp; cpu and
                          cuda ignore it */
    void* stream;      /* cuda: CUstream to launch on, in its context; tensors in device memory are then not waited for. NULL: the default stream of
                        * the primary context */
    uint64_t compile_budget; /* cpu: milliseconds that compiling a kernel may take before the launch ends with TEGULA_E_RUN, 0: none */
    double*
        run_seconds; /* launches: receives the time of the run itself, without binding and compiling; on a GPU the kernel's own. NULL: not measured */
    double* copy_seconds; /* launches: receives the time that copies between host memory and a GPU took; 0 elsewhere. NULL: not measured */
    const tegula_tensor* reachable; /* launches: memory that addresses among the arguments lead to (tables of pointers, numbers that become pointers),
                                     * beside the arguments themselves, `reachable_count` of them; kernels may write it. Of each count data, bytes,
                                     * device_type and device_id. On interp, cpu and in checked runs pointers reach nothing else; on cuda tables in
                                     * host memory are copied with what they lead to, and of memory of the device nothing need be named */
    size_t reachable_count;
} tegula_run_options;
TEGULA_API void tegula_run_options_init(tegula_run_options* options, size_t size);

/* `kernel` is the name of a kernel of the module, here and below, or `alias.name` of a module that it imports ("matmul.plain" after
 * `import std.matmul;`). Compiles one instance. `generics` name generic parameters (missing ones take defaults or, for types, are an error),
 * and extents: `tune` chooses for them, and a launch must have them. */
TEGULA_API tegula_status tegula_compile(tegula_module* module, const char* kernel, const tegula_value* generics, size_t generic_count,
                                        const tegula_run_options* options, tegula_kernel** compiled, tegula_diags** diags);
/* Deduces the instance from `args` (in parameter order, or by name), compiles it once per engine, checks the arguments, runs it and returns
 * when it has ended. On TEGULA_E_ARGUMENTS nothing has been written. */
TEGULA_API tegula_status tegula_launch(tegula_module* module, const char* kernel, const tegula_value* generics, size_t generic_count,
                                       const tegula_value* args, size_t arg_count, const tegula_run_options* options, tegula_diags** diags);
/* What such a launch would be, as JSON: generics, named extents, grid, and per parameter its type, layout, extents and storage bytes. `out`
 * tensors may be missing from `args`: their extents follow from the others. Nothing is compiled or run, and storage is not looked at: `data`
 * may be NULL. Here a tensor of layout "?" takes the layout that its parameter declares, and one of type "?" its element type. */
TEGULA_API tegula_status tegula_plan(tegula_module* module, const char* kernel, const tegula_value* generics, size_t generic_count,
                                     const tegula_value* args, size_t arg_count, tegula_blob** json, tegula_diags** diags);
/* Runs a compiled instance; arguments are checked against it. The passes are those it was compiled with. */
TEGULA_API tegula_status tegula_kernel_launch(tegula_kernel* kernel, const tegula_value* args, size_t arg_count, const tegula_run_options* options,
                                              tegula_diags** diags);

/* A launch with fixed arguments, made ready once: compiled, checked, parameters and tensor maps encoded. Tensors stay where they are for as long as
 * the handle is used: for cuda in device memory, for cpu and interp in host memory. On cuda it belongs to the context of `options->stream`, and may
 * be prepared while a stream is captured. Callbacks of `options` are not kept; on cpu `checked` is 0 or 2. */
typedef struct tegula_prepared tegula_prepared;
TEGULA_API tegula_status tegula_prepare(tegula_module* module, const char* kernel, const tegula_value* generics, size_t generic_count,
                                        const tegula_value* args, size_t arg_count, const tegula_run_options* options, tegula_prepared** prepared,
                                        tegula_diags** diags);
/* The same on a thread of the library's own: returns at once. Errors that can be seen without compiling come back from here, and then there is no
 * job. Else `done` is called once, on that thread, after tegula_cancel too (TEGULA_E_CANCELLED, within some 100 ms): `prepared` (NULL unless
 * TEGULA_OK) and `diags` (or NULL) are borrowed, and kept by tegula_retain. `progress` of the options is called from that thread while code is
 * compiled for cpu. Storage of `args` stays until then. `job` may be NULL; a job that is released goes on, and holds its module and engine until
 * `done` has returned. */
typedef struct tegula_job tegula_job;
TEGULA_API tegula_status tegula_prepare_async(tegula_module* module, const char* kernel, const tegula_value* generics, size_t generic_count,
                                              const tegula_value* args, size_t arg_count, const tegula_run_options* options,
                                              void (*done)(void* user, tegula_status status, tegula_prepared* prepared, tegula_diags* diags),
                                              void* user, tegula_job** job, tegula_diags** diags);
/* Gives it other arguments, by name or position: other storage, extents or numbers. Parameters that are not mentioned keep theirs. All that preparing
 * checks is checked again, and only what is not compiled yet is compiled; on an error all stays as it was. Must not overlap with other calls on this
 * handle, nor with its launches on a GPU that have not ended. */
TEGULA_API tegula_status tegula_rebind(tegula_prepared* prepared, const tegula_value* args, size_t arg_count, tegula_diags** diags);
/* cuda: enqueues it on `stream` (a CUstream of the context it was prepared for; NULL: the default stream): one driver call, no checks, no locks, no
 * waiting. May be captured into a CUDA graph. TEGULA_E_RUN when the driver refuses. Launches of one handle that overlap share its workspace: give
 * streams that run at the same time a handle each where the kernel splits sums, meets (`grid_barrier`) or has scratch in global memory.
 * cpu, interp: runs it and returns when it has ended; `stream` is NULL. Usable from several threads. TEGULA_E_RUN when it fails, TEGULA_E_CANCELLED
 * (tegula_cancel): tegula_collect says more. On cpu without an allocation where one thread does the work and nothing is printed. */
TEGULA_API tegula_status tegula_enqueue(tegula_prepared* prepared, void* stream);
/* Waits for `stream`, then hands over what the launches printed and reported since the last call (`options` for its print callback; NULL: dropped).
 * TEGULA_E_RUN when one of them failed. An error while `stream` is captured. */
TEGULA_API tegula_status tegula_collect(tegula_prepared* prepared, void* stream, const tegula_run_options* options, tegula_diags** diags);

/* Text of a stage. Modules: "tokens", "ast", "fmt" (canonical formatting), "doc" (Markdown), "json" (signatures, docs, tests, benches).
 * Kernels: "ir" (before passes), "ir:final", "ir:after=PASS", "explain" (what became of each product and access, and why, a line
 * each), "explain-json" (the same as data; share/tegula/schema/explanation.json), "json"; for a GPU "ir:gpu", "ir:gpu:after=PASS", "cuda", "ptx",
 * "cubin", "resources" (JSON: registers, memory and spills), each (and "explain", "explain-json") as "KIND@ARCH" ("cuda@sm_80") or for sm_90a; for
 * the machine "cpu" "llvm", "llvm-opt", "asm", "explain@cpu", "explain-json@cpu". "ptx-lines", "cubin-lines": with the lines of the CUDA text, its
 * `#line` directives left out; "llvm-lines" (optimised), "asm-lines": with those of the source. Pictures are JSON
 * (share/tegula/schema/picture.json; docs/viz.md lists the KINDs): of a kernel "picture:KIND", "picture:KIND@ARCH", "picture:KIND@ARCH:WHAT" (a
 * parameter, or an operation by its line; of "tune" a machine, of "source" panes), of a module "picture:KIND:TYPE", such as
 * "picture:layout:u4[16, 32] @ tiled<8, 8>". None of these needs a GPU. */
TEGULA_API tegula_status tegula_module_artifact(tegula_module* module, const char* kind, tegula_blob** blob, tegula_diags** diags);
TEGULA_API tegula_status tegula_kernel_artifact(tegula_kernel* kernel, const char* kind, tegula_blob** blob, tegula_diags** diags);
/* "tokens", "ast", "fmt" of a text that need not check. */
TEGULA_API tegula_status tegula_dump(tegula_engine* engine, const char* name, const char* text, size_t size, const char* kind, tegula_blob** blob,
                                     tegula_diags** diags);

typedef struct {
    const char* name;     /* of the test or bench */
    tegula_status status; /* TEGULA_OK, TEGULA_E_MISMATCH, TEGULA_E_RUN, .. */
    double seconds;       /* wall time of the block; benches: of its launches (kernels alone on a GPU), median */
    const char* metrics;  /* benches: JSON object of the metrics and case values; NULL for tests */
    tegula_diags* diags;  /* borrowed; NULL when there is nothing to say */
    const char* machines; /* that it ran on, between commas; after an error the last one is where it failed */
} tegula_test_result;
/* Runs the `test` (or `bench`) blocks whose name contains `filter` (NULL: all), in checked mode unless options say otherwise.
 * Tests run on the machine that options name, else on every one present, and launches are compared with the interpreter bit for bit.
 * Returns TEGULA_OK when all passed. */
TEGULA_API tegula_status tegula_test(tegula_module* module, const char* filter, const tegula_run_options* options,
                                     void (*result)(void* user, const tegula_test_result* result), void* user, tegula_diags** diags);
TEGULA_API tegula_status tegula_bench(tegula_module* module, const char* filter, const tegula_run_options* options,
                                      void (*result)(void* user, const tegula_test_result* result), void* user, tegula_diags** diags);

/* Measures the choices of `tune` that launches of the benches leave open, on the machine of `options` (cpu or cuda): each launch where it stands, with
 * its arguments, as long as `seconds` last. A choice is taken when it is quicker than the one that launches prefer (by 1 %) and equals the interpreter:
 * in the module's tests that launch the kernel, or, without any, on the arguments. It goes into the engine's file of measured choices, which launches
 * of the same kernel, generics, extents and scalars on the same hardware follow from then on. What the same build of the library has measured before
 * is not measured again, so that a call goes on where one that was cancelled or ran out of time has ended. `result` is called once per launch, with
 * the details as JSON in `metrics` (`tuned` of tools/schema/tune.json), and once per bench that fails; progress of `options` counts choices. */
typedef struct {
    size_t struct_size;
    double seconds;     /* for all launches together; default 20. Comparisons, and the preferred choice of each launch, may take longer */
    uint64_t seed;      /* of the order in which choices are tried on machines without a cost model */
    uint32_t compilers; /* choices compiled at a time; 0: as many as there are processors, at most 8 */
} tegula_tune_options;
TEGULA_API void tegula_tune_options_init(tegula_tune_options* options, size_t size);
TEGULA_API tegula_status tegula_tune(tegula_module* module, const char* filter, const tegula_run_options* options, const tegula_tune_options* tune,
                                     void (*result)(void* user, const tegula_test_result* result), void* user, tegula_diags** diags);

/* A session: items and variables that grow with each text that a person types, for consoles, notebooks and tools. A text ("input") is items,
 * statements of the host (as in `test` blocks) and expressions in any order. Statements see the variables of former inputs; the end of the text ends
 * a statement, too. Items replace those of the same name, with which everything that depends on them is checked again. An input with an error, and
 * one that ends in an error or is cancelled, changes nothing, tensors included. One call at a time: a call while another is in progress, on whatever
 * thread, is TEGULA_E_USAGE, but for tegula_cancel, tegula_retain and tegula_release. A session that is released meanwhile lives until the call has
 * ended. */
typedef struct tegula_session tegula_session;
/* `directory`: imports of files and array files are looked for there too; NULL: nowhere. */
TEGULA_API tegula_status tegula_session_new(tegula_engine* engine, const char* directory, tegula_session** session, tegula_diags** diags);
/* Answers in JSON (`json` may be NULL; share/tegula/schema/session.json). Diagnostics stand at places of the text that they are about, which `name`
 * names (NULL: "<input 3>"). `verb`: "eval": evaluates `text` under `options`, as launches are run: {input, name, items [{kind, name, replaced}],
 * variables [names that got a value], launch_seconds, value}. `value` is that of an expression at the end without `;`, or null; it becomes the
 * variables `ans` and `_3`. "show": the same, but all is put back, and {launch_seconds, value} has codes and places of elements, too. "type": what
 * "eval" of `text` would show, without running or changing anything: {value {kind, type, ..}}, null where only a run knows. "is_complete": {state:
 * "complete", "incomplete" (more text could mend it) or "invalid", indent}. "tokens": {tokens [{begin, end, kind}]}, of any text. "complete": what may
 * stand at byte
 * `at`: {begin, end (the bytes to replace), candidates [{text, kind, type, doc}]}. "inspect": what the word at byte `at` is: {begin, end, found
 * {kind, name, ..}}, `found` is null where nothing is known. "variables", "items", "history": lists; "items" also has the text of all items, which is
 * a file that checks. "undo": goes back by one evaluation, contents of tensors included: {undone: its number, or null}. "reset": begins anew. Values:
 * {kind, type, text, ..}; tensors of more than 1000 elements, and tuples, are abbreviated in `text` and lack `elements`. */
TEGULA_API tegula_status tegula_session_do(tegula_session* session, const char* verb, const char* name, const char* text, size_t size, size_t at,
                                           const tegula_run_options* options, tegula_blob** json, tegula_diags** diags);
/* Sets a variable (`set`, may be NULL; tensors in host memory are copied, and "undo" takes it back), then reads it (`get`, may be NULL): numbers,
 * types and tensors; `storage` keeps a copy of what `get` points to. TEGULA_E_ARGUMENTS for other values, and where there is no such variable. */
TEGULA_API tegula_status tegula_session_value(tegula_session* session, const char* name, const tegula_value* set, tegula_value* get,
                                              tegula_blob** storage, tegula_diags** diags);
/* The items as a module as they are now, for every function that takes one: launches, tests, artefacts. Later inputs do not change it. */
TEGULA_API tegula_status tegula_session_module(tegula_session* session, tegula_module** module, tegula_diags** diags);

/* Texts that are being edited, with the files that they import, for language servers: what is wrong with them, and what their words are. A file is
 * named by its absolute path; imports resolve beside it, and below import_root. After a change only what changed is elaborated again, and what
 * mentions it. One call at a time, as for sessions; tegula_cancel(workspace, 1) ends the call in progress from any thread. */
typedef struct tegula_workspace tegula_workspace;
TEGULA_API tegula_status tegula_workspace_new(tegula_engine* engine, tegula_workspace** workspace, tegula_diags** diags);
/* The text of a file from now on, also for files that import it. `text` NULL: what is on disk counts, read again whenever it has changed. */
TEGULA_API tegula_status tegula_workspace_set(tegula_workspace* workspace, const char* path, const char* text, size_t size, tegula_diags** diags);
/* Answers in JSON (`json` may be NULL; share/tegula/schema/workspace.json) about a file that was set. Places are bytes of texts, `file` says which where
 * it may be another; files of the library are named "std.nn". `verb`: "diagnostics": what tegula_module_check says of the file, changes as they are
 * offered; with `text` "settled" each change was tried, with `others` that are right, too, which takes longer. Of byte `begin`: "hover": what the
 * word is; "complete": what may stand there; "signature": of the call around it; "definition", "references" (in all files that were set),
 * "highlights" (in this one): places; "rename": edits that give what is declared there the name `text` and change no other meaning, or the `problem`;
 * with an empty `text` whether it can have one; "calls": of a function or kernel; "selections": what encloses it. From `begin` to `end`: "hints":
 * types and generics that the text leaves out. Of the file: "symbols", "folds", "links", "tokens", "text". */
TEGULA_API tegula_status tegula_workspace_ask(tegula_workspace* workspace, const char* verb, const char* path, size_t begin, size_t end,
                                              const char* text, tegula_blob** json, tegula_diags** diags);
/* The file as a module, for artefacts, tests and launches. */
TEGULA_API tegula_status tegula_workspace_module(tegula_workspace* workspace, const char* path, tegula_module** module, tegula_diags** diags);

/* Storage size in bytes of a tensor of `type`, `layout` (NULL: row) and extents; block types: of the elements and, in `scales_bytes` (may be
 * NULL), of the scales. */
TEGULA_API tegula_status tegula_tensor_bytes(tegula_module* module, const char* type, const char* layout, const int64_t* extents, int32_t rank,
                                             size_t* bytes, size_t* scales_bytes, tegula_diags** diags);
/* The order that `layout` (NULL: row) stores elements in, as a number to keep beside packed data: of the map's canonical form, whatever its name, the
 * same on every machine and in every version. Never 0. */
TEGULA_API tegula_status tegula_layout_hash(tegula_module* module, const char* layout, uint64_t* hash, tegula_diags** diags);
/* Copies `from` to `to` (same extents), converting type (one rounding, round-to-nearest-even) and layout: pack, unpack, quantise and widen in one.
 * TEGULA_E_ARGUMENTS also for layouts that are not proved to keep elements apart. */
TEGULA_API tegula_status tegula_tensor_copy(tegula_module* module, const tegula_tensor* to, const tegula_tensor* from, tegula_diags** diags);

/* How the elements of two tensors of one type (none of blocks) and the same extents differ, in units of the last place: a picture as JSON
 * (share/tegula/schema/picture.json). NaNs are equal to each other, and zeros of both signs. TEGULA_E_ARGUMENTS for other tensors. */
TEGULA_API tegula_status tegula_tensor_diff(tegula_module* module, const tegula_tensor* a, const tegula_tensor* b, tegula_blob** json,
                                            tegula_diags** diags);

/* DLPack, both ways without a copy: `managed` is a DLManagedTensor, or with `versioned` != 0 a DLManagedTensorVersioned of version 1.
 * From: fills `tensor`, which borrows data, extents and strides from `managed` (its owner calls the deleter, after the last use of `tensor`) and the
 * type's name from `module`. `read_only`, when not NULL, says that a kernel must not write to it. Bools of 8 bits become u8; managed memory counts
 * as the GPU's. TEGULA_E_ARGUMENTS for what has no type here, negative strides, other devices.
 * To: gives a tensor over the same memory. Its deleter, which the consumer calls once, calls `release(owner)` (release may be NULL; what it throws is
 * dropped, for no call of ours is there to report it); after an error nothing is released. TEGULA_E_ARGUMENTS for what DLPack cannot say: block and
 * custom formats, layouts that are not linear, rows that end within a byte. */
TEGULA_API tegula_status tegula_tensor_from_dlpack(tegula_module* module, const void* managed, int32_t versioned, tegula_tensor* tensor,
                                                   int32_t* read_only, tegula_diags** diags);
TEGULA_API tegula_status tegula_tensor_to_dlpack(tegula_module* module, const tegula_tensor* tensor, int32_t versioned, void (*release)(void* owner),
                                                 void* owner, void** managed, tegula_diags** diags);

/* Static text: what a diagnostic code ("T0301") means and how to cure it; NULL for an unknown code. */
TEGULA_API const char* tegula_explain(const char* code);
/* JSON: machines with their availability and what was looked for, GPU architectures, formats, passes, diagnostics, limits. */
TEGULA_API tegula_status tegula_describe(tegula_engine* engine, tegula_blob** blob);

/* The files of compiled code that engines with this one's options share. `task`: "stats"; "list", which reads every file; "verify", which removes
 * damaged ones; "trim", down to the limit; "clear". JSON: directory, problem (why there is none, or ""), limit, bytes, removed, removed_bytes and
 * entries. TEGULA_E_USAGE for another task. */
TEGULA_API tegula_status tegula_cache(tegula_engine* engine, const char* task, tegula_blob** json, tegula_diags** diags);

/* Diagnostics: number of them; all of them as text (colour: ANSI escapes) or as JSON lines. Strings live as long as the handle. */
TEGULA_API size_t tegula_diags_count(const tegula_diags* diags);
TEGULA_API const char* tegula_diags_text(tegula_diags* diags, int colour);
TEGULA_API const char* tegula_diags_json(tegula_diags* diags);

/* A copy of `size` bytes; NULL when memory is short, or for NULL data of a size. */
TEGULA_API tegula_blob* tegula_blob_new(const void* data, size_t size);
TEGULA_API const char* tegula_blob_data(const tegula_blob* blob, size_t* size);
/* NULL is allowed. Any handle type. */
TEGULA_API void tegula_retain(void* handle);
TEGULA_API void tegula_release(void* handle);

#ifdef __cplusplus
}
#endif
#endif
