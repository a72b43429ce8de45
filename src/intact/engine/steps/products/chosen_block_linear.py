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
from intact.engine.steps.base.indices import check_rows
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Const, Operand, Read, Write
from intact.engine.steps.products.block_linear import (
    read_codes,
)

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

    rules = """
        not bias or bias[0] == weight[0] | one number of a bias for each output
        groups > 0 and weight[0] % (16 * groups) == 0 | multiples of 16 outputs for each matrix
        one_rank(x)
        ranks(2, index, y)
        types(index, 'int32', 'int64')
        floats(x_scales, y)
        dtype(x) == ('int8' if x_scales else 'float32') | int8 with scales, or floats
        (x_block > 0) == (not not x_scales) and x_block >= 0 | blocks of elements of codes, and none of floats
        not x_scales or rank(x_scales) in [0, rank(x)] | no axes, or those of the codes
        blocks_fit(inputs, block, x_block or inputs) | blocks that kernels multiply
        fits x: x[-1] == inputs | as many columns as its weight has
        ranges = [*x[:-1], ceil_div(inputs, x_block or inputs)]
        scales_of_x = [*x_scales] if x_scales else []
        fits x_scales: len(scales_of_x) == 0 or scales_of_x == ranges | a range for each block
        rows = prod(x[:-1])
        fits index: index[1] == 1 and (index[0] % rows == 0 if rows else index[0] == 0) | as many for each row
        sizes y: [index[0], weight[0] // groups]
    """

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
