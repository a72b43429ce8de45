"""The step for a product of codes with weights in blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Annotated

import numpy as np

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Const, Operand, Read, Write
from intact.engine.steps.products.float_linear import check_bias

_MOST = 2**24
_UNIT = 8
"""Elements of the smallest block, which kernels multiply together."""


@dataclass(frozen=True)
class BlockLinear(Step):
    """Codes x [..., in] times weights in blocks along `in`, plus a bias [out]: float32 [..., out] (N69).

    Attributes:
        x: int8 or uint8.
        x_scales: float32 without axes, or [..., blocks].
        x_zero_points: uint8, likewise; "" for zeros.
        weight: Codes without a sign, [out, bytes]: of `bits` bits one after the other, the lowest bit first.
        scales: float32 [out, blocks].
        zero_points: Codes, likewise; "" for half of their range.
        minima: What is added in each block, likewise; "" for nothing.
        inputs: Size of `in`.
        block, x_block: Elements along `in` of a block of weights, and of codes.
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
    bias: Annotated[str, Const("float32", 1)] = ""

    def check(self, checker: Checker) -> None:
        codes, ranges = checker.sizes(self.weight), checker.sizes(self.scales)
        checker.that(2 <= self.bits <= 8, f"{self.bits} bits", "2 to 8")
        sizes = self.inputs, self.block, self.x_block
        checker.that(min(sizes) > 0 and self.inputs <= _MOST, sizes, "blocks of elements")
        row = -(-self.inputs * self.bits // 8)
        checker.that(0 < codes[0] <= _MOST and codes[1] == row, codes, f"rows of {row} bytes")
        blocks = codes[0], -(-self.inputs // self.block)
        checker.that(ranges == blocks, ranges, f"{blocks}, a scale for each block")
        for name in filter(None, (self.zero_points, self.minima)):
            checker.that(checker.sizes(name) == blocks, f"'{name}'", f"{blocks}, one for each block")
        check_bias(checker, self.bias, codes[0])
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
        optional = [run.array(name) if name else None for name in (self.zero_points, self.minima)]
        middle = np.full(run.array(self.scales).shape, 2 ** (self.bits - 1), np.uint8)
        weights = numerics.BlockWeights(
            numerics.split_stream(run.array(self.weight), self.bits, self.inputs), f"uint{self.bits}",
            run.array(self.scales), min(self.block, self.inputs),
            zero_points=middle if optional[0] is None else optional[0], minima=optional[1],
        )  # fmt: skip
        bias = run.array(self.bias) if self.bias else None
        run.bind(self.y, numerics.block_product(activations, weights, bias))

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
