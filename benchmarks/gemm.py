"""GMAC/s of every gemm kernel on the layers of the benchmark networks, epilogues included.

    python benchmarks/gemm.py [--threads 1 2] [--kernels NAME ...] [--high 127]

Each figure is the best of many runs of one step; for grouped kernels the share of products in groups of
1, 2, ... steps stands behind. Weights are Gaussian, cut at 4 sigma: the hard case for groups.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from step_times import best_time
from tests.one_step import plan_of

from intact import kernels
from intact.engine.steps import Codes, Conv, Epilogue


@dataclass(frozen=True)
class Shape:
    """A convolution over square images, or a matrix of `rows`."""

    name: str
    size: int
    inputs: int
    out: int
    kernel: int = 1
    stride: int = 1
    rows: int = 0

    @property
    def positions(self) -> int:
        return -(-self.size // self.stride)

    @property
    def products(self) -> int:
        pixels = self.rows or self.positions**2
        return pixels * self.out * self.inputs * self.kernel**2


SHAPES = [
    Shape("conv1 7x7 s2 3-64", 224, 3, 64, 7, 2),
    Shape("3x3 64-64 @56", 56, 64, 64, 3),
    Shape("3x3 128-128 @28", 28, 128, 128, 3),
    Shape("3x3 256-256 @14", 14, 256, 256, 3),
    Shape("3x3 512-512 @7", 7, 512, 512, 3),
    Shape("3x3 s2 128-128 @56", 56, 128, 128, 3, 2),
    Shape("1x1 64-64 @56", 56, 64, 64),
    Shape("1x1 64-256 @56", 56, 64, 256),
    Shape("1x1 256-64 @56", 56, 256, 64),
    Shape("1x1 256-128 @56", 56, 256, 128),
    Shape("1x1 128-512 @28", 28, 128, 512),
    Shape("1x1 512-128 @28", 28, 512, 128),
    Shape("1x1 256-1024 @14", 14, 256, 1024),
    Shape("1x1 1024-256 @14", 14, 1024, 256),
    Shape("1x1 512-2048 @7", 7, 512, 2048),
    Shape("1x1 2048-512 @7", 7, 2048, 512),
    Shape("1x1 s2 1024-2048 @14", 14, 1024, 2048, 1, 2),
    Shape("mobile 32-16 @112", 112, 32, 16),
    Shape("mobile 16-96 @112", 112, 16, 96),
    Shape("mobile 96-24 @56", 56, 96, 24),
    Shape("mobile 24-144 @56", 56, 24, 144),
    Shape("mobile 144-32 @28", 28, 144, 32),
    Shape("mobile 64-384 @14", 14, 64, 384),
    Shape("mobile 576-96 @14", 14, 576, 96),
    Shape("mobile 960-320 @7", 7, 960, 320),
    Shape("mobile 320-1280 @7", 7, 320, 1280),
    Shape("bert 768-768", 1, 768, 768, rows=128),
    Shape("bert 768-3072", 1, 768, 3072, rows=128),
    Shape("bert 3072-768", 1, 3072, 768, rows=128),
    Shape("fc 2048-1000", 1, 2048, 1000, rows=1),
]


def measure(shape: Shape, kernel: str, threads: int, high: int, runs: int) -> tuple[float, dict[str, int]]:
    """Seconds of the best run, and products by inner loop."""
    rng = np.random.default_rng(0)
    h, w = (1, shape.rows) if shape.rows else (shape.size, shape.size)
    weight = rng.normal(0, 32, (shape.out, shape.kernel, shape.kernel, shape.inputs))
    weight = np.clip(np.rint(weight), -127, 127).astype(np.int8)
    x = rng.integers(0, high + 1, (1, shape.inputs, h, w)).astype(np.uint8)
    grids = {"x": Codes(0.05, 0, False, 0, high), "y": Codes(1.0, 0, False, 0, 255)}
    strides, pads = (shape.stride, shape.stride), (shape.kernel // 2,) * 4
    step = Conv("layer", (), "x", "y", "w", Epilogue("m", "m"), strides, (1, 1), pads)
    plan = plan_of(step, {"x": x}, grids=grids, w=weight, m=np.full(shape.out, 1e-4, np.float32))
    more = {"kernels": kernel, "threads": threads, "runs": runs, "form": kernel}
    return best_time(plan, {"x": x}, "layer", **more)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    families = "gemm", "winograd"
    listed = kernels.kernel_list()
    names = [k.name for k in listed if k.family in families and k.available and k.needs]
    parser.add_argument("--kernels", nargs="+", default=names)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--high", nargs="+", type=int, default=[127, 255])
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--only", default="", help="part of a layer's name")
    options = parser.parse_args()
    for kernel in options.kernels:
        for high in options.high:
            for threads in options.threads:
                print(f"{kernel}, bytes to {high}, {threads} threads")
                total = products = 0.0
                for shape in SHAPES:
                    tiles = shape.kernel == 3 and shape.stride == 1
                    if options.only not in shape.name or not (tiles or kernel.startswith("gemm")):
                        continue
                    seconds, loops = measure(shape, kernel, threads, high, options.runs)
                    total, products = total + seconds, products + shape.products
                    share = " ".join(f"{name} {n / sum(loops.values()):.0%}" for name, n in loops.items())
                    print(
                        f"  {shape.name:22} {seconds * 1e6:8.1f} us"
                        f" {shape.products / seconds / 1e9:7.1f} GMAC/s  {share}"
                    )
                print(f"  {'all':22} {total * 1e6:8.1f} us {products / total / 1e9:7.1f} GMAC/s")


if __name__ == "__main__":
    main()
