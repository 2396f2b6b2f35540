#!/usr/bin/env python3
# The main job: job.py TEGULA DIRECTORY [ROWS COLUMNS BATCH]. Makes a weight matrix, quantises it to 4-bit groups and multiplies with it through
# the `tegula` command on .npy files, then checks both steps against numpy. Exits 1 when a check fails.
import os, subprocess, sys, time

import numpy as np

GROUP = 128
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "quantised_linear.tile")


def say(text):
    print(f"==> {text}", file=sys.stderr, flush=True)


def tegula(*arguments):
    start = time.perf_counter()
    done = subprocess.run([TEGULA, "run", SOURCE, *arguments])
    if done.returncode:
        sys.exit(f"tegula ended with exit code {done.returncode}")
    return time.perf_counter() - start


def make_inputs(rows, columns, batch):
    """Weights as trained layers have them: normal, with a scale per row and one outlier column in 256."""
    random = np.random.default_rng(20)
    w = random.standard_normal((rows, columns), dtype=np.float32) * (0.02 * np.exp(0.5 * random.standard_normal((rows, 1)))).astype(np.float32)
    w[:, ::256] *= 4
    x = random.standard_normal((batch, columns), dtype=np.float32).astype(np.float16)
    np.save("w.npy", w)
    np.save("x.npy", x)
    return w, x


def check_codes(w, q, s):
    """Codes and scales, computed anew: the scale is max|w| / 7 rounded to f16, the code the nearest integer, ties to even, within -7..7."""
    groups = w.reshape(w.shape[0], -1, GROUP)
    scale = (np.abs(groups).max(axis=2) / np.float32(7)).astype(np.float16)
    wide = scale.astype(np.float32)[:, :, None]
    codes = np.clip(np.rint(groups / np.where(wide == 0, np.float32(1), wide)), -7, 7).astype(np.int8)
    return int((scale != s).sum()), int((codes.reshape(w.shape) != q).sum())


def main():
    os.makedirs(DIRECTORY, exist_ok=True)
    os.chdir(DIRECTORY)
    rows, columns, batch = (int(a) for a in sys.argv[3:6]) if len(sys.argv) > 5 else (2048, 2048, 16)
    say(f"making a {rows} x {columns} weight matrix and {batch} activations")
    w, x = make_inputs(rows, columns, batch)
    say("quantising to 4 bits")
    quantise = tegula("quantise", "--arg", "w=@w.npy", "--out", "q=q.npy:i8", "--out", "s=s.npy", "--quiet")
    say("multiplying")
    multiply = tegula("linear", "--arg", "x=@x.npy", "--arg", "w=@q.npy:i4", "--arg", "s=@s.npy", "--out", "y=y.npy", "--quiet")
    say("checking against numpy")
    q, s, y = np.load("q.npy"), np.load("s.npy"), np.load("y.npy").astype(np.float64)
    wrong_scales, wrong_codes = check_codes(w, q, s)
    # The kernel rounds code * scale to f16, multiplies exactly, adds in f32 and rounds once to f16.
    decoded = (q.reshape(rows, -1, GROUP).astype(np.float16) * s[:, :, None]).reshape(rows, columns).astype(np.float64)
    wide = x.astype(np.float64)
    reference = wide @ decoded.T
    bound = columns * 2.0**-24 * (np.abs(wide) @ np.abs(decoded).T) + np.spacing(np.abs(reference).astype(np.float16)).astype(np.float64)
    error = np.abs(y - reference)
    outside = int((error > bound).sum()) + int((~np.isfinite(y)).sum())
    exact = wide @ w.astype(np.float64).T
    lost = np.linalg.norm(y - exact) / np.linalg.norm(exact)

    packed, full, half = rows * columns // 2 + s.nbytes, w.nbytes, w.nbytes // 2
    print(f"weights     f32[{rows}, {columns}] -> i4[{rows}, {columns}] + f16 scales[{rows}, {columns // GROUP}]")
    print(f"bytes       {packed:,} instead of {half:,} in f16 ({half / packed:.2f}x less) or {full:,} in f32 ({full / packed:.2f}x less)")
    print(f"quantise    {quantise:.2f} s, {wrong_codes} of {q.size} codes and {wrong_scales} of {s.size} scales differ from numpy's")
    print(f"multiply    f16[{batch}, {columns}] x i4 -> f16[{batch}, {rows}], {multiply:.2f} s with reading and writing")
    print(f"error       {error.max():.3g} at most against float64 on the same codes ({(error / bound).max():.0%} of the bound, {outside} outside)")
    print(f"quality     {lost:.2%} relative error of the product against unquantised weights")
    good = not (wrong_codes or wrong_scales or outside) and lost < 0.25
    print("result      " + ("right" if good else "WRONG"))
    sys.exit(0 if good else 1)


if len(sys.argv) not in (3, 6):
    sys.exit("usage: job.py TEGULA DIRECTORY [ROWS COLUMNS BATCH]")
TEGULA, DIRECTORY = os.path.abspath(sys.argv[1]), sys.argv[2]
main()
