"""The step for a product of codes with weights in blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Annotated, Protocol

import numpy as np

from intact import numerics
from intact.engine.steps.base.block_constants import BlockConstants
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Const, Operand, Read, Write


@dataclass(frozen=True)
class BlockLinear(BlockConstants, Step):
    """Codes x [..., in] times weights in blocks along `in`, plus a bias [out]: float32 [..., out] (N69).

    The weights have a row for each output.

    Attributes:
        x: int8 or uint8.
        x_scales: float32 without axes, or [..., blocks].
        x_zero_points: uint8, likewise; "" for zeros.
        x_block: Elements along `in` of a block of codes.
    """

    kind = "block_linear"
    x: Read
    x_scales: Operand
    y: Write
    x_block: int
    x_zero_points: Operand = ""
    bias: Annotated[str, Const("float32", 1)] = ""

    rules = """
        not bias or bias[0] == weight[0] | one number of a bias for each output
        one_rank(x, y)
        floats(x_scales, y)
        types(x, 'int8', 'uint8')
        not x_zero_points or dtype(x) == dtype(x_zero_points) == 'uint8' | uint8 codes and zero points
        rank(x_scales) in [0, rank(x)] | no axes, or those of the codes
        not x_zero_points or rank(x_zero_points) in [0, rank(x)] | no axes, or those of the codes
        x_block > 0 | blocks of elements
        blocks_fit(inputs, block, x_block) | blocks that kernels multiply
        fits x: x[-1] == inputs | as many columns as its weight has
        ranges = [*x[:-1], ceil_div(inputs, x_block)]
        fits x_scales: rank(x_scales) == 0 or [*x_scales] == ranges | a range for each block
        zeros = [*x_zero_points] if x_zero_points else []
        fits x_zero_points: len(zeros) == 0 or zeros == ranges | a range for each block
        sizes y: [*x[:-1], weight[0]]
    """

    def evaluate(self, run: Run) -> None:
        bias = run.array(self.bias) if self.bias else None
        codes = read_codes(self, run, self.x_zero_points)
        run.bind(self.y, numerics.block_product(codes, self.weights(run.array), bias))

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * self.inputs


class ProductOfCodes(Protocol):
    """A step that multiplies codes `x` with ranges of their own by weights in blocks."""

    @property
    def x(self) -> str: ...
    @property
    def x_scales(self) -> str: ...
    @property
    def x_block(self) -> int: ...
    @property
    def inputs(self) -> int: ...
    @property
    def block(self) -> int: ...


def read_codes(step: ProductOfCodes, run: Run, zero_points: str = "") -> numerics.DynamicActivations:
    """Return the codes of a run with a range for each block."""
    x = run.array(step.x)
    scales = np.broadcast_to(run.array(step.x_scales), _range_sizes(step, x.shape))
    points = np.broadcast_to(run.array(zero_points), scales.shape) if zero_points else None
    return numerics.DynamicActivations(x, scales, points, step.x_block)


def _range_sizes(step: ProductOfCodes, x: Shape) -> Shape:
    return *x[:-1], -(-step.inputs // step.x_block)
