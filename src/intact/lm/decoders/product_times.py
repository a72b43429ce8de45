"""Measure how long products of one token take with weights of each format on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np

from intact.engine import compile as compile_model
from intact.formats import BLOCK_INPUTS, block_inputs
from intact.graph import Composer
from intact.graph.ops import BlockLinear
from intact.ptq.blocks import BlockFormat, activation_block

_SIZE, _ROWS, _COPIES, _RUNS = 2048, 1024, 32, 5
"""Columns; rows whose codes are drawn, and how often they are repeated: 64 million weights fill caches."""


def seconds_per_weight(grids: Sequence[BlockFormat], threads: int | None = None) -> list[float]:
    """Return the seconds that one weight of each format costs a token, read from memory.

    Args:
        grids: Formats.
        threads: Of a run; None: as many as the process may use.
    """
    return [_seconds(grid, threads) / (_SIZE * _ROWS * _COPIES) for grid in grids]


def _seconds(grid: BlockFormat, threads: int | None) -> float:
    rng, blocks = np.random.default_rng(0), -(-_SIZE // grid.block_size)
    codes = rng.integers(grid.low, grid.high + 1, (_ROWS, _SIZE))
    scales = rng.uniform(0.01, 0.02, (_ROWS, blocks)).astype(np.float32)
    points = np.full((_ROWS, blocks), 0 if grid.symmetric else 2 ** (grid.bits - 1) - 1)
    arrays, numbers = block_inputs(grid.weights(codes, scales, points))
    composer = Composer(21)
    composer.input("x", "float32", ["tokens", _SIZE])
    names = [
        composer.constant(name, np.tile(arrays[name], (_COPIES, 1))) if name in arrays else ""
        for name in BLOCK_INPUTS
    ]
    composer.node(
        "BlockLinear", ["x", *names], ["y"], name="y", domain=BlockLinear.domain,
        x_block=activation_block(grid.block_size, _SIZE), **numbers,
    )  # fmt: skip
    composer.output("y", "float32", ["tokens", _ROWS * _COPIES])
    engine = compile_model(composer.load(), threads=threads)
    inputs = {"x": rng.normal(size=(1, _SIZE)).astype(np.float32)}
    times = []
    for _ in range(_RUNS):
        begin = perf_counter()
        engine.run(inputs)
        times.append(perf_counter() - begin)
    return min(times)
