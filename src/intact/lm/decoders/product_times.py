"""Measure how long products of one token take with weights of each format on this machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np

from intact.engine import compile as compile_model
from intact.formats import BLOCK_INPUTS, block_inputs
from intact.graph import Composer
from intact.graph.ops import BlockLinear
from intact.ptq.blocks import BlockFormat, activation_block

Shape = tuple[int, int]
_WEIGHTS, _LARGEST = 2**26, 2**24
"""Weights of all products, which do not fit into caches, and of one product, at most."""

_PROFILES, _RUNS = 4, 5
"""The least of several profiles counts, each of the medians of some runs: others may use the machine, too."""


def seconds_per_weight(
    grids: Sequence[BlockFormat], shapes: Sequence[Shape], threads: int | None = None
) -> list[float]:
    """Return the seconds that one weight of each format costs a token, on average over a model's products.

    Args:
        grids: Formats.
        shapes: Rows and columns of the weights of all products.
        threads: Of a run; None: as many as the process may use.
    """
    counts = _sample(shapes)
    total = sum(rows * columns * count for (rows, columns), count in counts.items())
    return [_seconds(grid, counts, threads) / total for grid in grids]


def _sample(shapes: Sequence[Shape]) -> dict[Shape, int]:
    """Return how many products of each shape stand for all."""
    counts = Counter((min(rows, max(1, _LARGEST // columns)), columns) for rows, columns in shapes)
    total = sum(rows * columns * count for (rows, columns), count in counts.items())
    return {shape: ceil(count * min(1.0, _WEIGHTS / total)) for shape, count in counts.items()}


def _seconds(grid: BlockFormat, counts: Mapping[Shape, int], threads: int | None) -> float:
    rng, composer, inputs = np.random.default_rng(0), Composer(21), dict[str, Any]()
    for (rows, columns), count in counts.items():
        x = f"x.{columns}"
        if x not in inputs:
            composer.input(x, "float32", ["tokens", columns])
            inputs[x] = rng.normal(size=(1, columns)).astype(np.float32)
        arrays, numbers = _weights(grid, rows, columns)
        for copy in range(count):
            y = f"{rows}.{columns}.{copy}"
            names = [
                composer.constant(f"{y}.{name}", np.roll(arrays[name], copy, 0)) if name in arrays else ""
                for name in BLOCK_INPUTS
            ]
            composer.node(
                "BlockLinear", [x, *names], [y], name=y, domain=BlockLinear.domain,
                x_block=activation_block(grid.block_size, columns), **numbers,
            )  # fmt: skip
            composer.output(y, "float32", ["tokens", rows])
    engine = compile_model(composer.load(), threads=threads)
    profiles = [engine.profile(inputs, runs=_RUNS) for _ in range(_PROFILES)]
    return min(sum(t.seconds for t in profile.timings if t.kind != "copy") for profile in profiles)


def _weights(grid: BlockFormat, rows: int, columns: int) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the constants and the attributes of random weights."""
    rng, blocks = np.random.default_rng(0), -(-columns // grid.block_size)
    codes = rng.integers(grid.low, grid.high + 1, (rows, columns))
    scales = rng.uniform(0.01, 0.02, (rows, blocks)).astype(np.float32)
    points = np.full((rows, blocks), 0 if grid.symmetric else 2 ** (grid.bits - 1) - 1)
    return block_inputs(grid.weights(codes, scales, points))
