"""The step for a convolution of floats with constant weights."""

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
from intact.engine.steps.base.wiring import Const, Read, Write


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

    rules = """
        min(weight) > 0 and max(weight) <= 2 ** 24 | weights that are not empty
        groups > 0 and weight[0] % groups == 0 | groups that divide the channels
        not bias or bias[0] == weight[0] | one number of a bias for each channel
        floats(x, y)
        images(x, y, strides, dilations, pads)
        fits x: x[1] == weight[3] * groups | as many channels as its weight has
        sizes y: [x[0], weight[0], *windows(x, weight[1:3], strides, dilations, pads)]
    """

    def evaluate(self, run: Run) -> None:
        y = numerics.float_conv(
            run.array(self.x), np.moveaxis(run.array(self.weight), -1, 1),
            run.array(self.bias) if self.bias else None,
            stride=self.strides, padding=by_axis(self.pads), dilation=self.dilations, groups=self.groups,
        )  # fmt: skip
        run.bind(self.y, y)

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * prod(shape_of(self.weight)[1:])
