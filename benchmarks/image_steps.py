"""Steps on planes of codes: the depthwise layers of MobileNetV2, the pools and sums of ResNet-50, the input.

    python benchmarks/image_steps.py [--threads 2] [--runs 200]
    INTACT_MAX_ISA=avx2 python benchmarks/image_steps.py

Times are the best of many runs, each a plan of one step; copies around it are not counted. GB/s
count what is read and written once.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from step_times import best_time
from tests.one_step import plan_of

from intact.engine.plan import Plan
from intact.engine.steps import (
    Add,
    Codes,
    Conv,
    Dequantize,
    Epilogue,
    Pool,
    Quantize,
    Rescale,
    Step,
    Table,
    Transpose,
)
from intact.kernels import kernels_in_use

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


@dataclass
class Case:
    """One step: what it is called, how often MobileNetV2 has it, its products, its plan and inputs."""

    name: str
    count: int
    products: int
    plan: Plan
    feeds: dict[str, np.ndarray]


def case(
    name: str, step: Step, feeds: dict[str, np.ndarray], *, count: int = 0, products: int = 0, **more: Any
) -> Case:  # fmt: skip
    return Case(name, count, products, plan_of(step, feeds, **more), feeds)


def image(channels: int, size: int, high: int = 255) -> np.ndarray:
    """Bytes [1, channels, size, size]."""
    return np.random.default_rng(0).integers(0, high + 1, (1, channels, size, size)).astype(np.uint8)


def grid(scale: float = 1.0, zero: int = 0, high: int = 255) -> Codes:
    return Codes(scale, zero, False, 0, high)


def depthwise(
    channels: int, size: int, stride: int, kernel: int = 3, high: int = 127, count: int = 0
) -> Case:  # fmt: skip
    """A layer with padding that keeps the size, or halves it."""
    weight = np.random.default_rng(0).integers(-127, 128, (channels, kernel, kernel, 1)).astype(np.int8)
    epilogue = Epilogue("m", "m", low=0, high=127)
    step = Conv("step", (), "x", "y", "w", epilogue, (stride,) * 2, (1, 1), (kernel // 2,) * 4, channels)
    byte = "" if high == 127 else ", any byte"
    return case(
        f"depthwise {kernel}x{kernel} s{stride} {size}x{size}x{channels}{byte}", step,
        {"x": image(channels, size, high)}, count=count,
        products=(size // stride) ** 2 * channels * kernel**2,
        grids={"x": grid(high=high), "y": grid()}, w=weight, m=np.full(channels, 2**-10, np.float32),
    )  # fmt: skip


def cases() -> Iterator[Case]:
    """Everything that is timed."""
    for channels, size, stride, count in MOBILENET_V2:
        yield depthwise(channels, size, stride, count=count)
    yield depthwise(384, 14, 1, high=255)
    yield depthwise(120, 28, 1, 5)
    both = {"x": grid(), "y": grid()}
    pool = Pool("step", (), "x", "y", "max", (3, 3), (2, 2), (1, 1), (1, 1, 1, 1))
    yield case("max pool 3x3 s2 112x112x64", pool, {"x": image(64, 112)}, grids=both)
    mean = Pool("step", (), "x", "y", "average")
    yield case("mean pool 7x7x2048", mean, {"x": image(2048, 7)}, grids=both)
    for channels, size in ((256, 56), (2048, 7)):
        feeds = {"a": image(channels, size), "b": image(channels, size)}
        grids = {"a": grid(0.7), "b": grid(1.3, 128), "y": grid()}
        yield case(
            f"add {size}x{size}x{channels}", Add("step", (), "a", "b", "y", 0, 127), feeds, grids=grids
        )
    rescaled = {"x": grid(0.77, 3), "y": grid(1.0, 7)}
    yield case("rescale 28x28x256", Rescale("step", (), "x", "y"), {"x": image(256, 28)}, grids=rescaled)
    table = np.arange(256, dtype=np.uint8)[::-1].copy()
    yield case(
        "table 56x56x256", Table("step", (), "x", "y", "t"), {"x": image(256, 56)}, grids=both, t=table
    )
    for channels, size in ((3, 224), (256, 56)):
        x = image(channels, size).astype(np.float32) / 100
        step = Quantize("step", (), "x", "y")
        yield case(f"quantize {channels}x{size}x{size}", step, {"x": x}, grids={"y": grid(0.02, 128)})
    step = Dequantize("step", (), "x", "y")
    yield case("dequantize 256x56x56", step, {"x": image(256, 56)}, grids={"x": grid(0.02, 128)})
    heads = np.zeros((1, 128, 12, 64), np.uint8)
    step = Transpose("step", (), "x", "y", (0, 2, 1, 3))
    yield case("transpose heads 128x12x64", step, {"x": heads}, grids=both)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=200, help="of each step")
    arguments = parser.parse_args()
    families = ("depthwise", "pool", "pointwise", "quantize", "transpose")
    print(", ".join(kernels_in_use()[family] for family in families))
    print(f"{'step':36} {'us':>9} {'GMAC/s':>8} {'GB/s':>7}")
    total = 0.0
    for c in cases():
        seconds, _ = best_time(c.plan, c.feeds, "step", threads=arguments.threads, runs=arguments.runs)
        total += c.count * seconds
        tensors = c.plan.tensors.values()
        traffic = sum(math.prod(t.shape) * (1 if t.codes else np.dtype(t.dtype).itemsize) for t in tensors)
        speed = f"{c.products / seconds / 1e9:8.1f}" if c.products else " " * 8
        print(f"{c.name:36} {seconds * 1e6:9.1f} {speed} {traffic / seconds / 1e9:7.1f}")
    print(f"all depthwise layers of MobileNetV2: {total * 1e3:.3f} ms")


if __name__ == "__main__":
    main()
