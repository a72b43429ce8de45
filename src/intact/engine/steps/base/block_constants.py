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
        scales: float32 [rows, blocks]; with sub-scales [rows, supers].
        zero_points: Codes [rows, blocks]; "" for half of their range.
        minima: What is added in each block, as scales are; "" for nothing.
        sub_scales: int8 [rows, blocks], each multiplied by the scale of its super-block; "" for one level.
        sub_minima: The same for minima.
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
    def sub_scales(self) -> str: ...
    @property
    def sub_minima(self) -> str: ...
    @property
    def inputs(self) -> int: ...
    @property
    def bits(self) -> int: ...
    @property
    def block(self) -> int: ...


def check_block_constants(step: BlockConstants, checker: Checker) -> None:
    """Refuse constants whose sizes do not fit each other."""
    codes = checker.sizes(step.weight)
    checker.that(2 <= step.bits <= 8, f"{step.bits} bits", "2 to 8")
    sizes = step.inputs, step.block
    checker.that(min(sizes) > 0 and step.inputs <= MOST_BLOCK_ELEMENTS, sizes, "blocks of elements")
    row = -(-step.inputs * step.bits // 8)
    checker.that(0 < codes[0] <= MOST_BLOCK_ELEMENTS and codes[1] == row, codes, f"rows of {row} bytes")
    blocks = codes[0], -(-step.inputs // step.block)
    checker.that(bool(step.minima or not step.sub_minima), f"'{step.sub_minima}'", "none without minima")
    for floats, integers in ((step.scales, step.sub_scales), (step.minima, step.sub_minima)):
        if integers:
            supers = checker.sizes(floats)
            divides = supers[0] == blocks[0] and supers[1] > 0 and blocks[1] % supers[1] == 0
            checker.that(divides, supers, f"one for as many of {blocks} blocks each")
    ranges = (step.zero_points, step.sub_scales or step.scales, step.sub_minima or step.minima)
    for name in filter(None, ranges):
        checker.that(checker.sizes(name) == blocks, f"'{name}'", f"{blocks}, one for each block")


def block_weights(
    step: BlockConstants, run: Run, rows: NDArray[np.int64] | None = None
) -> numerics.BlockWeights:
    """Return the weights of a step, or these rows of them; two levels of scales are multiplied."""

    def part(name: str) -> NDArray | None:
        array = run.array(name) if name else None
        return array if array is None or rows is None else array[rows]

    codes, points = part(step.weight), part(step.zero_points)
    scales, sub_scales = part(step.scales), part(step.sub_scales)
    minima, sub_minima = part(step.minima), part(step.sub_minima)
    assert codes is not None and scales is not None
    fine = scales if sub_scales is None else sub_scales
    weights = numerics.BlockWeights(
        numerics.split_stream(codes, step.bits, step.inputs), f"uint{step.bits}", fine,
        min(step.block, step.inputs),
        zero_points=np.full(fine.shape, 2 ** (step.bits - 1), np.uint8) if points is None else points,
        minima=minima if sub_minima is None else sub_minima,
        super_scales=None if sub_scales is None else scales,
        super_minima=None if sub_minima is None else minima,
    )  # fmt: skip
    return numerics.join_levels(weights)
