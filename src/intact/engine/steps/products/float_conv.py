"""The step for a convolution of floats with constant weights."""

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
from intact.engine.steps.base.window import Pads, Pair, by_axis, check_window, positions
from intact.engine.steps.base.wiring import Const, Read, Write
from intact.engine.steps.products.float_linear import check_filters_of_floats


@dataclass(frozen=True)
class FloatConv(Step):
    """Convolution of float32 with constant weights, from the bias [out] on (N51).

    Attributes:
        weight: Constant, float32 [out, kernel_h, kernel_w, in / groups].
        pads: (top, left, bottom, right). Padding reads +0.
    """

    kind = "float_conv"
    x: Read
    y: Write
    weight: Annotated[str, Const("float32", 4)]
    bias: Annotated[str, Const("float32", 1)] = ""
    strides: Pair = (1, 1)
    dilations: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    groups: int = 1

    def check(self, checker: Checker) -> None:
        check_filters_of_floats(checker, self.weight, self.bias, self.groups)
        checker.floats(self.x, self.y)
        check_window(checker, self.x, self.y, (*self.strides, *self.dilations), self.pads)

    def output_shape(self, sizes: Sizes) -> Shape:
        x, (out, kernel_h, kernel_w, depth) = sizes.of(self.x), sizes.of(self.weight)
        if x[1] != depth * self.groups:
            raise mismatch(self.x, f"{x[1]} channels", f"{depth * self.groups}, as its weight has")
        windows = positions(x, (kernel_h, kernel_w), self.strides, self.dilations, self.pads)
        return x[0], out, *windows

    def evaluate(self, run: Run) -> None:
        y = numerics.float_conv(
            run.array(self.x), np.moveaxis(run.array(self.weight), -1, 1),
            run.array(self.bias) if self.bias else None,
            stride=self.strides, padding=by_axis(self.pads), dilation=self.dilations, groups=self.groups,
        )  # fmt: skip
        run.bind(self.y, y)

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * prod(shape_of(self.weight)[1:])
