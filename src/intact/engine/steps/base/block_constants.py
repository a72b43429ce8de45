"""Constant weights in blocks (N67), as steps of several kinds have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.wiring import Const

MOST_BLOCK_ELEMENTS = 2**24


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

    def check_weights(self, checker: Checker) -> None:
        """Refuse constants whose sizes do not fit each other."""
        codes = checker.sizes(self.weight)
        checker.that(2 <= self.bits <= 8, f"{self.bits} bits", "2 to 8")
        sizes = self.inputs, self.block
        checker.that(min(sizes) > 0 and self.inputs <= MOST_BLOCK_ELEMENTS, sizes, "blocks of elements")
        row = -(-self.inputs * self.bits // 8)
        checker.that(0 < codes[0] <= MOST_BLOCK_ELEMENTS and codes[1] == row, codes, f"rows of {row} bytes")
        if self.table:
            size = checker.sizes(self.table)
            checker.that(
                (size, self.bits) == ((numerics.TABLE_SIZE,), 4), size, "16 values of codes of 4 bits"
            )
            checker.that(not self.zero_points, f"'{self.zero_points}'", "no zero points of places in a table")
        blocks = codes[0], -(-self.inputs // self.block)
        checker.that(bool(self.minima or not self.sub_minima), f"'{self.sub_minima}'", "none without minima")
        for floats, integers in ((self.scales, self.sub_scales), (self.minima, self.sub_minima)):
            if integers:
                supers = checker.sizes(floats)
                divides = supers[0] == blocks[0] and supers[1] > 0 and blocks[1] % supers[1] == 0
                checker.that(divides, supers, f"one for as many of {blocks} blocks each")
        ranges = (self.zero_points, self.sub_scales or self.scales, self.sub_minima or self.minima)
        for name in filter(None, ranges):
            checker.that(checker.sizes(name) == blocks, f"'{name}'", f"{blocks}, one for each block")

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
