"""Constant weights in blocks (N67), as steps of several kinds name them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run

MOST_BLOCK_ELEMENTS = 2**24


class BlockConstants(Protocol):
    """A step with weights in blocks along their last axis.

    Attributes:
        weight: Codes without a sign, [rows, bytes]: of `bits` bits one after the other, the lowest bit first.
        scales: float32 [rows, blocks].
        zero_points: Codes, likewise; "" for half of their range.
        minima: What is added in each block, likewise; "" for nothing.
        inputs: Elements of a row.
        block: Elements of a block; the last one may have fewer.
    """

    @property
    def weight(self) -> str: ...
    @property
    def scales(self) -> str: ...
    @property
    def zero_points(self) -> str: ...
    @property
    def minima(self) -> str: ...
    @property
    def inputs(self) -> int: ...
    @property
    def bits(self) -> int: ...
    @property
    def block(self) -> int: ...


def check_block_constants(step: BlockConstants, checker: Checker) -> None:
    """Refuse constants whose sizes do not fit each other."""
    codes, ranges = checker.sizes(step.weight), checker.sizes(step.scales)
    checker.that(2 <= step.bits <= 8, f"{step.bits} bits", "2 to 8")
    sizes = step.inputs, step.block
    checker.that(min(sizes) > 0 and step.inputs <= MOST_BLOCK_ELEMENTS, sizes, "blocks of elements")
    row = -(-step.inputs * step.bits // 8)
    checker.that(0 < codes[0] <= MOST_BLOCK_ELEMENTS and codes[1] == row, codes, f"rows of {row} bytes")
    blocks = codes[0], -(-step.inputs // step.block)
    checker.that(ranges == blocks, ranges, f"{blocks}, a scale for each block")
    for name in filter(None, (step.zero_points, step.minima)):
        checker.that(checker.sizes(name) == blocks, f"'{name}'", f"{blocks}, one for each block")


def block_weights(
    step: BlockConstants, run: Run, rows: NDArray[np.int64] | None = None
) -> numerics.BlockWeights:
    """Return the weights of a step, or these rows of them."""

    def part(name: str) -> NDArray:
        array = run.array(name)
        return array if rows is None else array[rows]

    scales = part(step.scales)
    middle = np.full(scales.shape, 2 ** (step.bits - 1), np.uint8)
    return numerics.BlockWeights(
        numerics.split_stream(part(step.weight), step.bits, step.inputs), f"uint{step.bits}",
        scales, min(step.block, step.inputs),
        zero_points=part(step.zero_points) if step.zero_points else middle,
        minima=part(step.minima) if step.minima else None,
    )  # fmt: skip
