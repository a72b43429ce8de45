"""Product with weights in blocks, of which each row has the matrices that indices choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.block_constants import BlockConstants
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.indices import check_rows
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Const, Operand, Read, Write
from intact.engine.steps.products.block_linear import (
    check_ranges,
    misfit,
    read_codes,
    sizes_of_codes,
    sizes_of_rows,
)
from intact.engine.steps.products.float_linear import check_bias

PANEL = 16
"""Outputs that kernels multiply together: those of a group are a multiple."""


@dataclass(frozen=True)
class ChosenBlockLinear(BlockConstants, Step):
    """Multiplies rows x [..., in] by the matrices that indices choose: y float32 [n, out / groups].

    What `BlockLinear` (N69), or of floats `BlockFloatLinear` (N51), with all matrices makes, of which a row
    keeps the outputs of those that it chooses: the experts of a transformer. The weights have the rows of the
    first matrix, then those of the next.

    Attributes:
        x: int8 codes, or floats.
        index: int32 or int64 [n, 1], as many for each row of x. Negative ones count from the end; what is out
            of range is an error.
        groups: How many matrices there are; each has a multiple of 16 outputs.
        x_scales: float32 without axes, or [..., blocks]; "" where x are floats.
        x_block: Elements along `in` of a block of codes; 0 where x are floats.
    """

    kind = "chosen_block_linear"
    x: Read
    index: Operand
    y: Write
    groups: int
    x_scales: Operand = ""
    x_block: int = 0
    bias: Annotated[str, Const("float32", 1)] = ""

    def check(self, checker: Checker) -> None:
        self.check_weights(checker)
        outputs = checker.sizes(self.weight)[0]
        check_bias(checker, self.bias, outputs)
        is_whole = self.groups > 0 and outputs % self.groups == 0 and outputs // self.groups % PANEL == 0
        checker.that(is_whole, f"{self.groups} groups of {outputs} outputs", f"multiples of {PANEL} of each")
        checker.one_rank(self.x)
        ranks = checker.rank(self.index, self.y)
        checker.that(set(ranks) == {2}, ranks, "matrices")
        checker.index(self.index)
        checker.floats(self.y)
        if self.x_scales:
            dtype = checker.dtype(self.x)
            checker.that(dtype == "int8", dtype, "int8")
            check_ranges(self, checker)
            return
        checker.floats(self.x)
        checker.that(self.x_block == 0, self.x_block, "no blocks of floats")
        why = misfit(self.inputs, self.block, self.inputs)
        checker.that(not why, why, "blocks that kernels multiply")

    def output_shape(self, sizes: Sizes) -> Shape:
        in_codes = bool(self.x_scales)
        x = sizes_of_codes(self, sizes) if in_codes else sizes_of_rows(sizes, self.x, self.inputs)
        index, rows = sizes.of(self.index), prod(x[:-1])
        if index[1] != 1 or (index[0] % rows if rows else index[0]):
            raise mismatch(self.index, f"shape {index}", f"as many single indices for each of {rows} rows")
        return index[0], sizes.of(self.weight)[0] // self.groups

    def evaluate(self, run: Run) -> None:
        x, index = run.array(self.x), run.array(self.index).reshape(-1)
        self.check_index(index, x.shape, f"tensor '{self.index}'")
        rows = prod(x.shape[:-1])
        weights, bias = self.weights(run.array), run.array(self.bias) if self.bias else None
        if self.x_scales:
            y = numerics.block_product(read_codes(self, run), weights, bias)
        else:
            matrix = np.ascontiguousarray(numerics.dequantize_blocks(weights).T)
            y = numerics.float_product(x.reshape(rows, self.inputs), matrix, bias)
        each = index.size // rows if rows else 1
        parts = y.reshape(rows, self.groups, y.shape[-1] // self.groups)
        run.bind(self.y, parts[np.arange(index.size) // each, index])

    def check_index(self, index: NDArray[Any], shape: Shape, where: str) -> None:
        """Refuse indices of matrices that are not there; `shape` is that of x.

        Raises:
            QuantValueError: One is out of range; names `where`.
        """
        check_rows(index, self.groups, where)

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * self.inputs
