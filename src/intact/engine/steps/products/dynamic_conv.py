"""The step for a convolution of codes whose scale and zero point a run says."""

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
from intact.engine.steps.base.window import MOST_WIDTH, Pads, Pair, by_axis, check_window, positions
from intact.engine.steps.base.wiring import Const, Operand, Read, Write

MOST_TERMS = (2**31 - 1) // 255**2
"""Products of codes of 8 bits whose sum stays within int32."""
MIDDLE = 128
"""The zero point of weights that have none: of int8 codes plus 128."""

_PerOutput = Annotated[str, Const("float32", 1)]


@dataclass(frozen=True)
class DynamicConv(Step):
    """Convolution of codes with constant codes: float32 (N73).

    Attributes:
        x: int8 or uint8.
        x_scale: float32 without axes.
        x_zero_point: uint8 without axes; "" for 0.
        weight: Constant, uint8 [out, kernel_h, kernel_w, in / groups].
        scales, zero_points, bias: [out]; "" for zero points of 128 and for no bias.
        pads: (top, left, bottom, right). Padding reads the zero point.
    """

    kind = "dynamic_conv"
    x: Read
    x_scale: Operand
    y: Write
    weight: Annotated[str, Const("uint8", 4)]
    scales: _PerOutput
    x_zero_point: Operand = ""
    zero_points: Annotated[str, Const("uint8", 1)] = ""
    bias: _PerOutput = ""
    strides: Pair = (1, 1)
    dilations: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    groups: int = 1

    def check(self, checker: Checker) -> None:
        shape = checker.sizes(self.weight)
        checker.that(min(shape) > 0, shape, "weights that are not empty")
        divides = self.groups > 0 and shape[0] % self.groups == 0
        checker.that(divides, f"{self.groups} groups", f"a divisor of {shape[0]}")
        checker.that(max(shape[1:3]) <= MOST_WIDTH, shape, "a kernel no wider than an image")
        checker.that(prod(shape[1:]) <= MOST_TERMS, shape, "sums that fit int32")
        for name in filter(None, (self.scales, self.zero_points, self.bias)):
            checker.that(checker.sizes(name) == shape[:1], f"'{name}'", "one number for each output")
        checker.floats(self.y, self.x_scale)
        dtype = checker.dtype(self.x)
        checker.that(dtype in ("int8", "uint8"), dtype, "int8 or uint8")
        if self.x_zero_point:
            dtypes = dtype, checker.dtype(self.x_zero_point)
            checker.that(dtypes == ("uint8", "uint8"), dtypes, "uint8 codes and zero points")
        for name in filter(None, (self.x_scale, self.x_zero_point)):
            checker.that(checker.rank(name) == (0,), f"'{name}'", "no axes")
        check_window(checker, self.x, self.y, (*self.strides, *self.dilations), self.pads)

    def output_shape(self, sizes: Sizes) -> Shape:
        x, (out, kernel_h, kernel_w, depth) = sizes.of(self.x), sizes.of(self.weight)
        if x[1] != depth * self.groups:
            raise mismatch(self.x, f"{x[1]} channels", f"{depth * self.groups}, as its weight has")
        return x[0], out, *positions(x, (kernel_h, kernel_w), self.strides, self.dilations, self.pads)

    def evaluate(self, run: Run) -> None:
        zero_points = run.array(self.zero_points) if self.zero_points else np.uint8(MIDDLE)
        y = numerics.dynamic_conv(
            run.array(self.x), run.array(self.x_scale),
            int(run.array(self.x_zero_point)) if self.x_zero_point else 0,
            np.moveaxis(run.array(self.weight), -1, 1), run.array(self.scales), zero_points,
            run.array(self.bias) if self.bias else None,
            stride=self.strides, padding=by_axis(self.pads), dilation=self.dilations, groups=self.groups,
        )  # fmt: skip
        run.bind(self.y, y)

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * prod(shape_of(self.weight)[1:])
