"""Constant weights in blocks (N67), as steps of several kinds have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.wiring import Const

MOST_BLOCK_ELEMENTS = 2**24
UNIT = 8
"""Elements of the smallest block, which kernels multiply together."""


@dataclass(frozen=True, kw_only=True)
class BlockConstants:
    """Fields of a step with weights in blocks along their last axis.

    Attributes:
        weight: Codes without a sign, [rows, bytes]: of `bits` bits one after the other, the lowest bit first.
        scales: float32 [rows, blocks]; with sub-scales [rows, supers].
        inputs: Elements of a row.
        block: Elements of a block; the last one may have fewer.
        zero_points: Codes [rows, blocks]; "" for half of their range.
        minima: What is added in each block, as scales are; "" for nothing.
        sub_scales: int8 [rows, blocks], each multiplied by the scale of its super-block; "" for one level.
        sub_minima: The same for minima.
        table: float32 [16]: values of codes, which have 4 bits and no zero points then; "" where codes are
            numbers.
    """

    weight: Annotated[str, Const("uint8", 2)]
    scales: Annotated[str, Const("float32", 2)]
    inputs: int
    bits: int
    block: int
    zero_points: Annotated[str, Const("uint8", 2)] = ""
    minima: Annotated[str, Const("float32", 2)] = ""
    sub_scales: Annotated[str, Const("int8", 2)] = ""
    sub_minima: Annotated[str, Const("int8", 2)] = ""
    table: Annotated[str, Const("float32", 1)] = ""

    rules: ClassVar[str] = """
        2 <= bits <= 8 | 2 to 8 bits
        0 < inputs <= 2 ** 24 and block > 0 | blocks of elements
        0 < weight[0] <= 2 ** 24 and weight[1] == ceil_div(inputs * bits, 8) | packed codes for each row
        not table or table[0] == 16 and bits == 4 | 16 values of codes of 4 bits
        not table or not zero_points | no zero points of places in a table
        minima or not sub_minima | no integers of minima that there are not
        blocks = [weight[0], ceil_div(inputs, block)]
        [*(sub_scales or scales)] == blocks | a scale for each block
        not sub_scales or supers_fit(scales, blocks) | super-blocks of as many blocks each
        not minima or [*(sub_minima or minima)] == blocks | a minimum for each block
        not sub_minima or supers_fit(minima, blocks) | super-blocks of as many blocks each
        not zero_points or [*zero_points] == blocks | a zero point for each block
    """

    def weights(
        self, array_of: Callable[[str], NDArray[Any]], rows: NDArray[np.int64] | None = None
    ) -> numerics.BlockWeights:
        """Return the weights, or these rows of them; two levels of scales are multiplied.

        Args:
            array_of: The array of a constant.
            rows: Indices of the weights' rows.
        """

        def part(name: str) -> NDArray | None:
            array = array_of(name) if name else None
            return array if array is None or rows is None else array[rows]

        codes, points = part(self.weight), part(self.zero_points)
        scales, sub_scales = part(self.scales), part(self.sub_scales)
        minima, sub_minima = part(self.minima), part(self.sub_minima)
        assert codes is not None and scales is not None
        fine = scales if sub_scales is None else sub_scales
        table = array_of(self.table) if self.table else None
        if points is None and table is None:
            points = np.full(fine.shape, 2 ** (self.bits - 1), np.uint8)
        weights = numerics.BlockWeights(
            numerics.split_stream(codes, self.bits, self.inputs),
            f"uint{self.bits}" if table is None else numerics.OWN_TABLE, fine,
            min(self.block, self.inputs), zero_points=points, table=table,
            minima=minima if sub_minima is None else sub_minima,
            super_scales=None if sub_scales is None else scales,
            super_minima=None if sub_minima is None else minima,
        )  # fmt: skip
        return numerics.join_levels(weights)


def misfit(inputs: int, block: int, x_block: int) -> str:
    """Say why kernels do not multiply such blocks; "" where they do."""
    small, large = sorted(min(size, inputs) for size in (block, x_block))
    if large < inputs and large % small:
        return f"blocks of {block} and {x_block}, of which neither is a part of the other"
    if small < inputs and (small % UNIT or (large < inputs and large % UNIT)):
        return f"blocks of {small}, which is no multiple of {UNIT}"
    if small * 255 * 255 >= 2**31:
        return f"blocks of {small}, whose sums may leave int32"
    return ""
