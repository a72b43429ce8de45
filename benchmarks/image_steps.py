"""Steps on planes of codes: the depthwise layers of MobileNetV2, the pools and sums of ResNet-50, the input.

    python benchmarks/image_steps.py [--threads 2] [--seconds 0.2]
    INTACT_MAX_ISA=avx2 python benchmarks/image_steps.py

Times are the best of many runs, each a program of one step. GB/s count what is read and written once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from intact.kernels import depthwise, moves, pointwise, pool
from intact.kernels.epilogue import BoundEpilogue, Bytes
from intact.kernels.program import NativeStep, Program, View
from intact.kernels.registry import kernels_in_use
from intact.kernels.window import PixelWindow

MOBILENET_V2 = (
    # channels, size of x, stride, how often
    (32, 112, 1, 1),
    (96, 112, 2, 1),
    (144, 56, 1, 1),
    (144, 56, 2, 1),
    (192, 28, 1, 2),
    (192, 28, 2, 1),
    (384, 14, 1, 4),
    (576, 14, 1, 2),
    (576, 14, 2, 1),
    (960, 7, 1, 3),
)
HALO = (1, 1, 1, 1)


@dataclass
class Case:
    """One step: what it is called, its work, and how to make it in an arena."""

    name: str
    count: int
    products: int
    make: Callable[[Arena], NativeStep]


class Arena:
    """Views behind each other in one arena."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.traffic = 0

    def image(
        self,
        n: int,
        h: int,
        w: int,
        c: int,
        halo: tuple[int, int, int, int] = (0, 0, 0, 0),
        dtype: str = "uint8",
        high: int = 255,
    ) -> View:
        """An image in NHWC."""
        top, left, bottom, right = halo
        pixel = c * np.dtype(dtype).itemsize
        row = (w + max(left, right)) * pixel
        image = (h + max(top, bottom)) * row
        first = self._take(n * image + (top + bottom) * row + (left + right) * pixel)
        self.traffic += n * h * w * pixel
        offset = first + top * row + left * pixel
        strides = (image, row, pixel, np.dtype(dtype).itemsize)
        return View(0, offset, dtype, (n, h, w, c), strides, halo, (0, high))

    def planes(self, n: int, c: int, h: int, w: int) -> View:
        """An image of float32 in NCHW, as (n, h, w, c)."""
        offset = self._take(4 * n * c * h * w)
        self.traffic += 4 * n * c * h * w
        return View(0, offset, "float32", (n, h, w, c), (4 * c * h * w, 4 * w, 4, 4 * h * w))

    def _take(self, nbytes: int) -> int:
        start = self.nbytes
        self.nbytes = -(-(start + nbytes + 64) // 64) * 64
        return start


def depthwise_layer(
    channels: int, size: int, stride: int, kernel: int = 3, high: int = 127
) -> Callable[[Arena], NativeStep]:
    """A layer with padding that keeps the size, or halves it."""

    def make(arena: Arena) -> NativeStep:
        pad, out = kernel // 2, size // stride
        x = arena.image(1, size, size, channels, (pad,) * 4, high=high)
        y = arena.image(1, out, out, channels, HALO)
        rng = np.random.default_rng(0)
        weight = rng.integers(-127, 128, (kernel, kernel, channels)).astype(np.int8)
        per_channel = np.full(channels, 2**-10, np.float32)
        correction = np.zeros(channels, np.int32)
        epilogue = BoundEpilogue(per_channel, per_channel, correction, Bytes(0, 0, 127))
        window = PixelWindow((kernel,) * 2, (stride,) * 2, (1, 1), (pad,) * 4)
        return depthwise.depthwise(x, y, weight, window, epilogue)

    return make


def max_pool(arena: Arena) -> NativeStep:
    """ResNet-50's."""
    x, y = arena.image(1, 112, 112, 64), arena.image(1, 56, 56, 64)
    return pool.max_pool(x, y, PixelWindow((3, 3), (2, 2), (1, 1), (1, 1, 1, 1)))


def mean_pool(arena: Arena) -> NativeStep:
    """ResNet-50's, over all of the plane."""
    x, y = arena.image(1, 7, 7, 2048), arena.image(1, 1, 1, 2048)
    return pool.mean_pool(x, y, PixelWindow((7, 7)), 0, {49: 0.02}, Bytes(0))


def add(channels: int, size: int) -> Callable[[Arena], NativeStep]:
    """Two images."""

    def make(arena: Arena) -> NativeStep:
        a, b, y = (arena.image(1, size, size, channels) for _ in "aby")
        return pointwise.add(a, b, y, (0, 0.7), (128, 1.3), Bytes(0, 0, 127))

    return make


def quantize(channels: int, size: int) -> Callable[[Arena], NativeStep]:
    """float32 NCHW to bytes NHWC with a halo."""

    def make(arena: Arena) -> NativeStep:
        x, y = arena.planes(1, channels, size, size), arena.image(1, size, size, channels, HALO)
        return pointwise.quantize(x, y, 0.02, Bytes(128))

    return make


def dequantize(channels: int, size: int) -> Callable[[Arena], NativeStep]:
    """Bytes NHWC to float32 NCHW."""

    def make(arena: Arena) -> NativeStep:
        x, y = arena.image(1, size, size, channels), arena.planes(1, channels, size, size)
        return pointwise.dequantize(x, y, 0.02, 128)

    return make


def heads(arena: Arena) -> NativeStep:
    """BERT's [tokens, heads, 64] to [heads, tokens, 64]."""
    x, y = arena.image(1, 128, 12, 64), arena.image(1, 12, 128, 64)
    return moves.copy(x, View(0, y.offset, "uint8", (1, 128, 12, 64), (y.strides[0], 64, 128 * 64, 1)))


def rescale(arena: Arena) -> NativeStep:
    """One input of a Concat."""
    x, y = arena.image(1, 28, 28, 256), arena.image(1, 28, 28, 512)
    return pointwise.rescale(x, View(0, y.offset, "uint8", x.sizes, y.strides), 3, 0.77, Bytes(7))


def lookup(arena: Arena) -> NativeStep:
    """A function of codes behind a layer."""
    x, y, table = arena.image(1, 56, 56, 256), arena.image(1, 56, 56, 256), arena.image(1, 1, 1, 256)
    return pointwise.lookup(x, View(0, table.offset, "uint8", (256,), (1,)), y)


def cases() -> Iterator[Case]:
    """Everything that is timed."""
    for channels, size, stride, count in MOBILENET_V2:
        products = (size // stride) ** 2 * channels * 9
        name = f"depthwise 3x3 s{stride} {size}x{size}x{channels}"
        yield Case(name, count, products, depthwise_layer(channels, size, stride))
    every = depthwise_layer(384, 14, 1, 3, 255)
    yield Case("depthwise 3x3 s1 14x14x384, any byte", 0, 14 * 14 * 384 * 9, every)
    yield Case("depthwise 5x5 s1 28x28x120", 0, 28 * 28 * 120 * 25, depthwise_layer(120, 28, 1, 5))
    yield Case("max pool 3x3 s2 112x112x64", 0, 0, max_pool)
    yield Case("mean pool 7x7x2048", 0, 0, mean_pool)
    yield Case("add 56x56x256", 0, 0, add(256, 56))
    yield Case("add 7x7x2048", 0, 0, add(2048, 7))
    yield Case("rescale 28x28x256", 0, 0, rescale)
    yield Case("lookup 56x56x256", 0, 0, lookup)
    yield Case("quantize 3x224x224", 0, 0, quantize(3, 224))
    yield Case("quantize 256x56x56", 0, 0, quantize(256, 56))
    yield Case("dequantize 256x56x56", 0, 0, dequantize(256, 56))
    yield Case("transpose heads 128x12x64", 0, 0, heads)


def best_time(case: Case, threads: int, seconds: float) -> tuple[float, int]:
    """Seconds of one run, and bytes read and written."""
    arena = Arena()
    step = case.make(arena)
    program = Program(threads)
    program.arena(arena.nbytes)
    program.add(step)
    times = np.zeros(1)
    best, until = np.inf, time.perf_counter() + seconds
    while time.perf_counter() < until:
        program.run([], [], times)
        best = min(best, times[0])
    return best, arena.traffic


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.2, help="for each step")
    arguments = parser.parse_args()
    families = ("depthwise", "pool", "pointwise", "quantize", "transpose")
    print(", ".join(kernels_in_use()[family] for family in families))
    print(f"{'step':36} {'us':>9} {'GMAC/s':>8} {'GB/s':>7}")
    total = 0.0
    for case in cases():
        seconds, traffic = best_time(case, arguments.threads, arguments.seconds)
        total += case.count * seconds
        speed = f"{case.products / seconds / 1e9:8.1f}" if case.products else " " * 8
        print(f"{case.name:36} {seconds * 1e6:9.1f} {speed} {traffic / seconds / 1e9:7.1f}")
    print(f"all depthwise layers of MobileNetV2: {total * 1e3:.3f} ms")


if __name__ == "__main__":
    main()
