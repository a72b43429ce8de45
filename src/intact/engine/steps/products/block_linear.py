"""The step for a product of codes with weights in blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Annotated, Protocol

import numpy as np

from intact import numerics
from intact.engine.steps.base.block_constants import BlockConstants
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Const, Operand, Read, Write
from intact.engine.steps.products.float_linear import check_bias

_UNIT = 8
"""Elements of the smallest block, which kernels multiply together."""


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

    def check(self, checker: Checker) -> None:
        self.check_weights(checker)
        check_bias(checker, self.bias, checker.sizes(self.weight)[0])
        checker.one_rank(self.x, self.y)
        checker.floats(self.y)
        dtype = checker.dtype(self.x)
        checker.that(dtype in ("int8", "uint8"), dtype, "int8 or uint8")
        if self.x_zero_points:
            dtypes = dtype, checker.dtype(self.x_zero_points)
            checker.that(dtypes == ("uint8", "uint8"), dtypes, "uint8 codes and zero points")
        check_ranges(self, checker, self.x_zero_points)

    def output_shape(self, sizes: Sizes) -> Shape:
        x = sizes_of_codes(self, sizes, self.x_zero_points)
        return *x[:-1], sizes.of(self.weight)[0]

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


def check_ranges(step: ProductOfCodes, checker: Checker, zero_points: str = "") -> None:
    """Refuse blocks that kernels do not multiply, and ranges of other ranks than the codes."""
    checker.that(step.x_block > 0, step.x_block, "blocks of elements")
    checker.floats(step.x_scales)
    rank = checker.rank(step.x)
    for name in filter(None, (step.x_scales, zero_points)):
        checker.that(checker.rank(name) in ((0,), rank), f"'{name}'", "no axes, or those of the codes")
    why = misfit(step.inputs, step.block, step.x_block)
    checker.that(not why, why, "blocks that kernels multiply")


def sizes_of_codes(step: ProductOfCodes, sizes: Sizes, zero_points: str = "") -> Shape:
    """Return the sizes of the codes.

    Raises:
        QuantValueError: Their rows or their ranges have other sizes than the weights say.
    """
    x = sizes_of_rows(sizes, step.x, step.inputs)
    ranges = _range_sizes(step, x)
    for name in filter(None, (step.x_scales, zero_points)):
        if sizes.of(name) not in ((), ranges):
            raise mismatch(name, str(sizes.of(name)), f"{ranges}, a range for each block")
    return x


def sizes_of_rows(sizes: Sizes, x: str, inputs: int) -> Shape:
    """Return the sizes of x [..., inputs].

    Raises:
        QuantValueError: Its rows have another length.
    """
    shape = sizes.of(x)
    if shape[-1] != inputs:
        raise mismatch(x, f"{shape[-1]} columns", f"{inputs}, as its weight has")
    return shape


def read_codes(step: ProductOfCodes, run: Run, zero_points: str = "") -> numerics.DynamicActivations:
    """Return the codes of a run with a range for each block."""
    x = run.array(step.x)
    scales = np.broadcast_to(run.array(step.x_scales), _range_sizes(step, x.shape))
    points = np.broadcast_to(run.array(zero_points), scales.shape) if zero_points else None
    return numerics.DynamicActivations(x, scales, points, step.x_block)


def _range_sizes(step: ProductOfCodes, x: Shape) -> Shape:
    return *x[:-1], -(-step.inputs // step.x_block)


def misfit(inputs: int, block: int, x_block: int) -> str:
    """Say why kernels do not multiply such blocks; "" where they do."""
    small, large = sorted(min(size, inputs) for size in (block, x_block))
    if large < inputs and large % small:
        return f"blocks of {block} and {x_block}, of which neither is a part of the other"
    if small < inputs and (small % _UNIT or (large < inputs and large % _UNIT)):
        return f"blocks of {small}, which is no multiple of {_UNIT}"
    if small * 255 * 255 >= 2**31:
        return f"blocks of {small}, whose sums may leave int32"
    return ""
