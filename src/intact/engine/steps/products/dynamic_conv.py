"""The step for a convolution of codes whose scale and zero point a run says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Annotated

import numpy as np

from intact import numerics
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.window import Pads, Pair, by_axis
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

    rules = """
        min(weight) > 0 | weights that are not empty
        max(weight[1:3]) <= 2 ** 16 | a kernel no wider than an image
        groups > 0 and weight[0] % groups == 0 | groups that divide the outputs
        prod(weight[1:]) <= (2 ** 31 - 1) // 255 ** 2 | sums that fit int32
        scales[0] == weight[0] | a scale for each output
        not zero_points or zero_points[0] == weight[0] | a zero point for each output
        not bias or bias[0] == weight[0] | one number of a bias for each output
        floats(y, x_scale)
        types(x, 'int8', 'uint8')
        not x_zero_point or dtype(x) == dtype(x_zero_point) == 'uint8' | uint8 codes and zero points
        ranks(0, x_scale, x_zero_point)
        images(x, y, strides, dilations, pads)
        fits x: x[1] == weight[3] * groups | as many channels as its weight has
        sizes y: [x[0], weight[0], *windows(x, weight[1:3], strides, dilations, pads)]
    """

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
