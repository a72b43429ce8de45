"""The step for a product of codes with weights in blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Annotated

import numpy as np

from intact import numerics
from intact.engine.steps.base.block_constants import block_weights, check_block_constants
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
class BlockLinear(Step):
    """Codes x [..., in] times weights in blocks along `in`, plus a bias [out]: float32 [..., out] (N69).

    Attributes:
        x: int8 or uint8.
        x_scales: float32 without axes, or [..., blocks].
        x_zero_points: uint8, likewise; "" for zeros.
        weight, scales, inputs, bits, block, zero_points, minima, sub_scales, sub_minima: The weights, as
            `BlockConstants` says; a row for each output.
        x_block: Elements along `in` of a block of codes.
    """

    kind = "block_linear"
    x: Read
    x_scales: Operand
    y: Write
    weight: Annotated[str, Const("uint8", 2)]
    scales: Annotated[str, Const("float32", 2)]
    inputs: int
    bits: int
    block: int
    x_block: int
    x_zero_points: Operand = ""
    zero_points: Annotated[str, Const("uint8", 2)] = ""
    minima: Annotated[str, Const("float32", 2)] = ""
    sub_scales: Annotated[str, Const("int8", 2)] = ""
    sub_minima: Annotated[str, Const("int8", 2)] = ""
    bias: Annotated[str, Const("float32", 1)] = ""

    def check(self, checker: Checker) -> None:
        check_block_constants(self, checker)
        checker.that(self.x_block > 0, self.x_block, "blocks of elements")
        check_bias(checker, self.bias, checker.sizes(self.weight)[0])
        checker.one_rank(self.x, self.y)
        checker.floats(self.y, self.x_scales)
        dtype, rank = checker.dtype(self.x), checker.rank(self.x)
        checker.that(dtype in ("int8", "uint8"), dtype, "int8 or uint8")
        for name in filter(None, (self.x_scales, self.x_zero_points)):
            checker.that(checker.rank(name) in ((0,), rank), f"'{name}'", "no axes, or those of the codes")
        if self.x_zero_points:
            dtypes = dtype, checker.dtype(self.x_zero_points)
            checker.that(dtypes == ("uint8", "uint8"), dtypes, "uint8 codes and zero points")
        why = misfit(self.inputs, self.block, self.x_block)
        checker.that(not why, why, "blocks that kernels multiply")

    def output_shape(self, sizes: Sizes) -> Shape:
        x = sizes.of(self.x)
        if x[-1] != self.inputs:
            raise mismatch(self.x, f"{x[-1]} columns", f"{self.inputs}, as its weight has")
        ranges = (*x[:-1], -(-self.inputs // self.x_block))
        for name in filter(None, (self.x_scales, self.x_zero_points)):
            if sizes.of(name) not in ((), ranges):
                raise mismatch(name, str(sizes.of(name)), f"{ranges}, a range for each block")
        return *x[:-1], sizes.of(self.weight)[0]

    def evaluate(self, run: Run) -> None:
        x, scales = run.array(self.x), run.array(self.x_scales)
        points = run.array(self.x_zero_points) if self.x_zero_points else None
        ranges = (*x.shape[:-1], -(-self.inputs // self.x_block))
        spread = [None if values is None else np.broadcast_to(values, ranges) for values in (scales, points)]
        activations = numerics.DynamicActivations(x, spread[0], spread[1], self.x_block)  # type: ignore[arg-type]
        bias = run.array(self.bias) if self.bias else None
        run.bind(self.y, numerics.block_product(activations, block_weights(self, run), bias))

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * self.inputs


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
