"""Times the methods: entropy + mse + percentile for 100 histograms of 2048 bins, on one thread.

    OMP_NUM_THREADS=1 python benchmarks/calib_methods.py

The loop beside it is the definition written plainly (one candidate at a time, parts in Python, bins in
NumPy), timed on a few histograms and scaled up. The last lines time collection against a copy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from intact.calib import Histogram, Range, amax_from_counts
from intact.numerics import count_fixed, fake_quantize, scale_from_amax
from intact.spec import INT8, QuantSpec

METHODS = ("entropy", "mse", "percentile")
BINS, START, LEVELS = 2048, 128, 128


def histograms(number: int) -> list[tuple[NDArray[np.int64], float]]:
    """Counts and bin width of tensors like those of a CNN: half of them after a ReLU."""
    rng = np.random.default_rng(0)
    result = []
    for i in range(number):
        x = np.abs(rng.standard_normal(100_000).astype(np.float32)) ** (1 + i % 3 / 2)
        x = np.maximum(x - 1, 0) if i % 2 else x
        width = float(x.max()) / BINS
        result.append((count_fixed(x, width, BINS), width))
    return result


def loop_entropy(counts: NDArray[np.int64], width: float) -> float:
    bins = counts.astype(np.float64)
    bins[0] = bins[1]
    best, chosen = np.inf, BINS
    for i in range(START, BINS + 1):
        p, inside = bins[:i].copy(), bins[:i]
        p[-1] += bins[i:].sum()
        part = np.arange(i) * LEVELS // i
        q = np.zeros(i)
        for level in range(LEVELS):
            mine = (part == level) & (inside > 0)
            if mine.any():
                q[mine] = inside[mine].mean()
        positive = p > 0
        with np.errstate(divide="ignore"):
            kl = float(
                (p[positive] / p.sum() * np.log(p[positive] / p.sum() / (q[positive] / q.sum()))).sum()
            )
        if kl <= best:
            best, chosen = kl, i
    return chosen * width


def loop_mse(counts: NDArray[np.int64], width: float) -> float:
    middles = (np.arange(BINS) + 0.5) * width
    spec = QuantSpec(INT8)
    errors = [
        float((counts * (fake_quantize(middles, scale_from_amax(amax, spec), 0, spec) - middles) ** 2).sum())
        for amax in middles[START:]
    ]
    return float(middles[START + int(np.argmin(errors))])


LOOPS = {"entropy": loop_entropy, "mse": loop_mse}


def seconds(function: Callable[[], object], repeats: int) -> float:
    """The shortest of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def time_methods(tensors: int, loops: int) -> None:
    data = histograms(tensors)
    print(
        f"{tensors} histograms of {BINS} bins, int8, one thread; the plain loop on {loops} of them, scaled up"
    )
    total = 0.0
    for method in METHODS:
        took = seconds(lambda m=method: [amax_from_counts(c, w, 8, False, m) for c, w in data], 5)
        total += took
        print(f"  {method:10} {took:7.3f} s{beside_loop(method, data, loops, took)}")
    print(f"  {'together':10} {total:7.3f} s   (target: under 1 s)")


def beside_loop(method: str, data: list[tuple[NDArray[np.int64], float]], loops: int, took: float) -> str:
    """The time of the plain loop, extrapolated from a few histograms, and how far its results are."""
    if method not in LOOPS or not loops:
        return ""
    start = time.perf_counter()
    differ = [
        abs(LOOPS[method](c, w) - amax_from_counts(c, w, 8, False, method)) / w for c, w in data[:loops]
    ]
    loop = (time.perf_counter() - start) * len(data) / loops
    times = f"plain loop {loop:8.1f} s (extrapolated), {loop / took:6.0f}x"
    return f"   {times}; results differ by at most {max(differ):.2g} bins"


def time_collection(megabytes: int) -> None:
    x = np.random.default_rng(0).standard_normal(megabytes << 18).astype(np.float32)
    y = np.empty_like(x)
    copy = seconds(lambda: np.copyto(y, x), 20)
    print(f"collecting {megabytes} MB of float32, in copies of it ({copy * 1e3:.2f} ms):")
    for name, stats in (("Histogram", Histogram()), ("Range", Range())):
        stats.collect(x)  # the first tensor also finds the bin width
        took = seconds(lambda s=stats: s.collect(x), 20)
        print(f"  {name:10} {took / copy:5.2f}")
    rows = x.reshape(64, -1)
    channels = Histogram(0)
    channels.collect(rows)
    print(f"  {'64 channels':10} {seconds(lambda: channels.collect(rows), 20) / copy:4.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensors", type=int, default=100)
    parser.add_argument("--loops", type=int, default=1, help="histograms for the plain loop")
    parser.add_argument("--megabytes", type=int, default=25)
    options = parser.parse_args()
    time_methods(options.tensors, options.loops)
    time_collection(options.megabytes)


if __name__ == "__main__":
    main()
