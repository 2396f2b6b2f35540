#!/usr/bin/env python3
"""Row kernels (softmax, layernorm) in the configuration that the compiler chose and in others: warps, programs on a multiprocessor, a loop over programs.

    rows.py make DIR TEGULA [OTHER]   compile all variants for sm_90a into DIR, also what another build chooses; needs NVRTC, no GPU
    rows.py run DIR                   measure them; needs a GPU and the driver only

`run` prints one line per kernel, element type and shape: bandwidth in TB/s of what was chosen and of each alternative, `warps x programs`, with a `p`
when a CTA runs many programs and an `o` from the other build, read and written, the median of 7 launches. All variants of a line must leave the same bits.
"""
import ctypes as c, json, os, re, struct, subprocess, sys

SHAPES = [(16384, 4096), (32768, 8192), (16384, 16384), (4096, 32768), (131072, 781)]
FLAGS = ["--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--gpu-architecture=sm_90a", "-default-device", "--no-cache"]


def check(code, what):
    if code:
        sys.exit(f"{what}: error {code}")


def nvrtc(lib, text):
    program, size = c.c_void_p(), c.c_size_t()
    check(lib.nvrtcCreateProgram(c.byref(program), text.encode(), b"rows.cu", 0, None, None), "nvrtcCreateProgram")
    check(lib.nvrtcCompileProgram(program, len(FLAGS), (c.c_char_p * len(FLAGS))(*[f.encode() for f in FLAGS])), "nvrtcCompileProgram")
    check(lib.nvrtcGetCUBINSize(program, c.byref(size)), "nvrtcGetCUBINSize")
    cubin = c.create_string_buffer(size.value)
    check(lib.nvrtcGetCUBIN(program, cubin), "nvrtcGetCUBIN")
    check(lib.nvrtcDestroyProgram(c.byref(program)), "nvrtcDestroyProgram")
    return cubin.raw


def sources(tegula, folder, kernel, element, columns, block, tag=""):
    """(warps, programs, tags, source, shared bytes); the first is what the compiler chose, and the only one with a `tag` of another build."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples")
    text = open(os.path.join(root, kernel + ".tile")).read()
    seen = {}
    for warps in (0,) if tag else (0, 1, 2, 4, 8, 16, 32):
        if warps and not 256 <= block // warps <= 2048:
            continue
        for schedule in ("",) if tag else ("", "\n    schedule persistent"):
            path = os.path.join(folder, "variant.tile")
            with open(path, "w") as out:
                out.write(text.replace("where N <= BLOCK", "where N <= BLOCK" + (f"\n    @ warps({warps})" if warps else "") + schedule, 1))
            dump = [tegula, "dump", path, kernel, "-s", "T=" + element, "-s", f"BLOCK={block}", "-s", f"N={columns}"]
            source = subprocess.run(dump + ["--emit=cuda@sm_90a"], check=True, capture_output=True, text=True).stdout
            form = subprocess.run(dump + ["--emit=ir:gpu@sm_90a"], check=True, capture_output=True, text=True).stdout
            shared, tags = re.search(r"shared = (\d+)", form), "p" * ("persistent," in form) + tag
            bounds = re.search(r"__launch_bounds__\((\d+), (\d+)\)", source)
            threads, chosen = int(bounds[1]), int(bounds[2])
            others = {1, 512 // threads, 768 // threads, 1024 // threads, 1280 // threads, 1536 // threads} if not warps and not tag else set()
            for programs in [chosen] + sorted(p for p in others if 0 < p <= 32 and p != chosen):
                key = (threads // 32, programs, tags)
                if key not in seen:
                    seen[key] = source.replace(bounds[0], f"__launch_bounds__({threads}, {programs})"), int(shared[1]) if shared else 0
    return [key + value for key, value in seen.items()]


def make(folder, tegula, *others):
    os.makedirs(folder, exist_ok=True)
    for name in ("libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13", "libnvrtc.so"):
        try:
            lib = c.CDLL(name)
            break
        except OSError:
            continue
    table = []
    for kernel in ("softmax", "layernorm"):
        for rows, columns in SHAPES:
            for element in ("f32", "bf16"):
                block = 1 << (columns - 1).bit_length()
                variants = []
                builds = sources(tegula, folder, kernel, element, columns, block)
                for other in others:
                    builds += sources(other, folder, kernel, element, columns, block, "o")
                for warps, programs, tags, source, shared in builds:
                    name = f"{kernel}-{element}-{columns}-{warps}-{programs}{tags}.cubin"
                    with open(os.path.join(folder, name), "wb") as out:
                        out.write(nvrtc(lib, source))
                    head = re.search(r'__global__ void __launch_bounds__\(\d+, \d+\) (\w+)\((.*)\) \{', source)
                    variants.append({"warps": warps, "programs": programs, "tags": tags, "file": name, "entry": head[1], "params": head[2].split(", "), "shared": shared})
                if variants:
                    table.append({"kernel": kernel, "element": element, "rows": rows, "columns": columns, "variants": variants})
                    print(kernel, element, columns, len(variants), "variants", flush=True)
    with open(os.path.join(folder, "rows.json"), "w") as out:
        json.dump(table, out)


class Device:
    def __init__(self):
        self.lib = c.CDLL("libcuda.so.1")
        device, context = c.c_int(), c.c_void_p()
        self("cuInit", 0)
        self("cuDeviceGet", c.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", c.byref(context), device)
        self("cuCtxSetCurrent", context)
        self.events = [c.c_void_p(), c.c_void_p()]
        for e in self.events:
            self("cuEventCreate", c.byref(e), 0)

    def __call__(self, name, *args):
        check(getattr(self.lib, name)(*args), name)

    def allocate(self, size):
        at = c.c_uint64()
        self("cuMemAlloc_v2", c.byref(at), c.c_size_t(size))
        return at.value

    def function(self, path, entry, shared):
        module, function = c.c_void_p(), c.c_void_p()
        self("cuModuleLoad", c.byref(module), path.encode())
        self("cuModuleGetFunction", c.byref(function), module, entry.encode())
        if shared > 48 << 10:
            self("cuFuncSetAttribute", function, 8, shared)
        return module, function

    def resident(self, function, threads, shared):
        """CTAs of the function that the device holds at once."""
        blocks, processors = c.c_int(), c.c_int()
        self("cuOccupancyMaxActiveBlocksPerMultiprocessor", c.byref(blocks), function, threads, c.c_size_t(shared))
        self("cuDeviceGetAttribute", c.byref(processors), 16, 0)
        return max(blocks.value, 1) * processors.value

    def median(self, launch, runs=7):
        times = []
        for i in range(runs + 2):
            self("cuEventRecord", self.events[0], None)
            launch()
            self("cuEventRecord", self.events[1], None)
            self("cuEventSynchronize", self.events[1])
            ms = c.c_float()
            self("cuEventElapsedTime", c.byref(ms), *self.events)
            times.append(ms.value)
        return sorted(times[2:])[runs // 2] / 1e3


def argument(text, rows, columns, places):
    """The launch's value for a parameter of the emitted kernel, told by its name."""
    name = re.split(r"[ *]", text)[-1]
    if name.startswith("first"):
        return c.c_uint64(0)
    if name.startswith("eps"):
        return c.c_uint64(struct.unpack("<I", struct.pack("<f", 1e-5))[0])
    stem = name.split("_")[0]
    if stem in places and re.fullmatch(stem + r"_\d+", name):
        return c.c_uint64(places[stem])
    if stem in ("N",) or "_extent" in name or "_stride" in name:
        return c.c_int64(columns)
    if stem == "M" or name.startswith("programs"):
        return c.c_int64(rows)
    sys.exit("no value for the parameter " + text)


def values(width):
    """A megabyte of values in [1, 2) with varied fractions, f32 or bf16."""
    if width == 4:
        return b"".join(struct.pack("<f", 1 + (i * 2654435761 % 2**32) / 2**32) for i in range(1048573))
    return b"".join(struct.pack("<H", 0x3f80 + i * 40503 % 128) for i in range(1048573))


def run(folder):
    d = Device()
    periods = {4: values(4), 2: values(2)}
    for line in json.load(open(os.path.join(folder, "rows.json"))):
        rows, columns, width = line["rows"], line["columns"], 4 if line["element"] == "f32" else 2
        size = rows * columns * width
        period = periods[width]
        places = {"x": d.allocate(size), "y": d.allocate(size), "gamma": d.allocate(4 * columns), "beta": d.allocate(4 * columns)}
        for at in range(0, size, len(period)):
            d("cuMemcpyHtoD_v2", c.c_uint64(places["x"] + at), period, c.c_size_t(min(len(period), size - at)))
        for g in ("gamma", "beta"):
            d("cuMemcpyHtoD_v2", c.c_uint64(places[g]), struct.pack("<f", 0.75) * columns, c.c_size_t(4 * columns))
        cells, bits = [], None
        for v in line["variants"]:
            module, function = d.function(os.path.join(folder, v["file"]), v["entry"], v["shared"])
            args = [argument(p, rows, columns, places) for p in v["params"]]
            pointers = (c.c_void_p * len(args))(*[c.cast(c.pointer(a), c.c_void_p) for a in args])
            d("cuMemsetD8_v2", c.c_uint64(places["y"]), c.c_ubyte(0xff), c.c_size_t(size))
            ctas = min(rows, d.resident(function, 32 * v["warps"], v["shared"])) if "p" in v["tags"] else rows
            seconds = d.median(lambda: d("cuLaunchKernel", function, ctas, 1, 1, 32 * v["warps"], 1, 1, v["shared"], None, pointers, None))
            out = c.create_string_buffer(min(size, 1 << 22))
            d("cuMemcpyDtoH_v2", out, c.c_uint64(places["y"] + size - len(out)), c.c_size_t(len(out)))
            bits = bits or out.raw
            cells.append(f"{v['warps']}x{v['programs']}{v['tags']} {2 * size / seconds / 1e12:.2f}" + ("" if bits == out.raw else " DIFFERS"))
            d("cuModuleUnload", module)
        for at in places.values():
            d("cuMemFree_v2", c.c_uint64(at))
        print(f"{line['kernel']:9} {line['element']:4} {rows}x{columns}: " + " | ".join(cells), flush=True)


if len(sys.argv) in (4, 5) and sys.argv[1] == "make":
    make(*sys.argv[2:])
elif len(sys.argv) == 3 and sys.argv[1] == "run":
    run(sys.argv[2])
else:
    sys.exit(__doc__)
