"""PyTorch (cuBLAS, cuDNN, FlashAttention) and Triton on the work of gpu.cpp, timed the same way. One JSON object per line; prints nothing where there
is no PyTorch with a GPU."""
import json
import os
import sys
import time

try:
    import torch
    if not torch.cuda.is_available():
        sys.exit(0)
except ImportError:
    sys.exit(0)

QUICK = "--quick" in sys.argv  # measure for a short time
ONLY = os.environ.get("TEGULA_BENCH_ONLY", "")
FEW = QUICK and not ONLY  # of what there is to measure, the most telling
flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")


def elapsed(work):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3


def burst(work, runs=7):
    work()
    times = []
    for _ in range(runs):
        torch.cuda.synchronize()
        time.sleep(0.2)
        for _ in range(4):
            flush.view(torch.int32).sum()  # reads only, and long enough that the host has enqueued everything before it ends
        times.append(elapsed(work))
    return sorted(times)[runs // 2]


def sustained(work, seconds):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
        one = max(1e-6, elapsed(work))
        count = min(500, max(1, int(0.02 / one)))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            for _ in range(count):
                work()
        graph.replay()
        t = elapsed(graph.replay)
        for _ in range(max(1, int(0.1 / t))):
            graph.replay()
        n = max(1, int(seconds / t))

        def repeat():
            for _ in range(n):
                graph.replay()

        return elapsed(repeat) / n / count


def measure(name, who, work, flops=0, bytes=0):
    if ONLY not in name:
        return
    try:
        rows = [("burst", burst(work)), ("sustained", sustained(work, 0.2 if QUICK else 0.5))]
    except Exception as error:  # a peer that cannot run is no row
        print(f"{name} {who}: {error}", file=sys.stderr)
        return
    for mode, seconds in rows:
        print(json.dumps({"work": name, "who": who, "mode": mode, "seconds": seconds, "flops": flops, "bytes": bytes}), flush=True)


def attentions():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    cases = [(128, s, c) for s in ([4096] if FEW else [1024, 4096, 16384]) for c in (False, True)]
    if not FEW:
        cases += [(64, 4096, False), (64, 4096, True)]
    for d, s, causal in cases:
        b, h = 16384 // s, 2048 // d
        q, k, v = (torch.randn(b, h, s, d, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        flops = 4.0 * b * h * s * s * d * (0.5 if causal else 1)
        name = f"attention d{d} S{s} " + ("causal" if causal else "full")
        for who, backend in (("flash2", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
            with sdpa_kernel(backend):
                measure(name, who, lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal), flops)


def products():
    """cuBLASLt's e4m3 product through PyTorch, scales of 1."""
    one = torch.ones((), device="cuda")
    for m, n, k in [] if FEW else [(8192, 8192, 8192), (4096, 7168, 16384)]:
        a, b = ((torch.randint(0, 256, shape, device="cuda", dtype=torch.uint8) & 0xbf).view(torch.float8_e4m3fn) for shape in ((m, k), (n, k)))
        multiply = lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)
        measure(f"e4m3 matmul nt {m}x{n}x{k}", "cublaslt", multiply, 2.0 * m * n * k)


def triton_rows():
    import triton
    import triton.language as tl

    @triton.jit
    def softmax_kernel(x, y, n, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        i = tl.arange(0, BLOCK)
        v = tl.load(x + row * n + i, mask=i < n, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, 0))
        tl.store(y + row * n + i, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=i < n)

    @triton.jit
    def layernorm_kernel(x, g, b, y, n, eps, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        i = tl.arange(0, BLOCK)
        v = tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32)
        mean = tl.sum(v, 0) / n
        c = tl.where(i < n, v - mean, 0.0)
        scale = 1 / tl.sqrt(tl.sum(c * c, 0) / n + eps)
        out = c * scale * tl.load(g + i, mask=i < n) + tl.load(b + i, mask=i < n)
        tl.store(y + row * n + i, out.to(y.dtype.element_ty), mask=i < n)

    @triton.jit
    def add_kernel(x, y, z, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(z + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

    def best(launch):
        """The warp count with the shortest time."""
        times = {}
        for w in (4, 8, 16, 32):
            try:
                launch(w)
                times[w] = triton.testing.do_bench(lambda: launch(w), warmup=5, rep=20)
            except Exception:
                pass
        return min(times, key=times.get)

    shapes = [(16384, 4096), (32768, 8192), (16384, 16384), (4096, 32768), (131072, 781)]
    for m, n in shapes[:1] if FEW else shapes:
        for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
            x = torch.randn(m, n, device="cuda", dtype=dtype)
            y, g, b = torch.empty_like(x), torch.ones(n, device="cuda"), torch.ones(n, device="cuda")
            block = triton.next_power_of_2(n)
            size = f"{name} {m}x{n}"
            bytes = 2.0 * x.numel() * x.element_size()

            def softmax(w):
                softmax_kernel[(m,)](x, y, n, BLOCK=block, num_warps=w)

            def layernorm(w):
                layernorm_kernel[(m,)](x, g, b, y, n, 1e-5, BLOCK=block, num_warps=w)

            for work, launch in (("softmax", softmax), ("layernorm", layernorm)):
                if ONLY not in f"{work} {size}":
                    continue
                w = best(launch)
                measure(f"{work} {size}", "triton", lambda: launch(w), bytes=bytes)
            measure(f"softmax {size}", "torch", lambda: torch.softmax(x, -1), bytes=bytes)
            measure(f"rmsnorm {size}", "torch", lambda: torch.nn.functional.rms_norm(x, (n,), g.to(dtype), 1e-5), bytes=bytes)
    for n in (1 << 25, 1 << 28):
        x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
        z = torch.empty_like(x)
        measure(f"add f32 {n}", "triton", lambda: add_kernel[(triton.cdiv(n, 1024),)](x, y, z, n, BLOCK=1024, num_warps=8), bytes=12.0 * n)
        measure(f"add f32 {n}", "torch", lambda: torch.add(x, y, out=z), bytes=12.0 * n)


attentions()
products()
try:
    triton_rows()
except ImportError:
    pass
