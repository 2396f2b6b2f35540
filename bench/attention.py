"""Attention forward in NumPy, the peer of bench/cpu.cpp: attention.py HEADS S D CAUSAL RUNS prints the median seconds of a run, timed in here."""
import statistics
import sys
import time

try:
    import numpy as np
except ImportError:
    sys.exit(3)


def attention(q, k, v, scale, seen):
    scores = q @ k.swapaxes(-1, -2) * scale
    if seen is not None:
        scores = np.where(seen, scores, np.float32(-np.inf))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True)) @ v


def main():
    heads, s, d, causal, runs = map(int, sys.argv[1:])
    random = np.random.default_rng(1)
    q, k, v = (random.standard_normal((heads, s, d), dtype=np.float32) for _ in range(3))
    seen = np.tri(s, dtype=bool) if causal else None
    scale = np.float32(d**-0.5)
    attention(q, k, v, scale, seen)
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        attention(q, k, v, scale, seen)
        seconds.append(time.perf_counter() - start)
    print(statistics.median(seconds))


main()
