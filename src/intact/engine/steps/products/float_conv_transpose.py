"""The step for a transposed convolution of floats with constant weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Annotated

import numpy as np

from intact import numerics
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.window import Pads, Pair, by_axis
from intact.engine.steps.base.wiring import Const, Read, Write
from intact.engine.steps.products.conv_transpose import conv_transpose_sizes


@dataclass(frozen=True)
class FloatConvTranspose(Step):
    """Transposed convolution of float32 with constant weights, from the bias [out] on (N51).

    Attributes:
        weight: Constant, float32 [out, kernel_h, kernel_w, in / groups], not turned round.
    """

    kind = "float_conv_transpose"
    x: Read
    y: Write
    weight: Annotated[str, Const("float32", 4)]
    bias: Annotated[str, Const("float32", 1)] = ""
    strides: Pair = (1, 1)
    dilations: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    output_padding: Pair = (0, 0)
    groups: int = 1

    rules = """
        min(weight) > 0 and max(weight) <= 2 ** 24 | weights that are not empty
        groups > 0 and weight[0] % groups == 0 | groups that divide the channels
        not bias or bias[0] == weight[0] | one number of a bias for each channel
        0 <= min(output_padding) and max(output_padding) <= 2 ** 16 | no sizes below 0
        floats(x, y)
        max(strides) <= 2 ** 16 | strides of an image
        images(x, y, strides, dilations, pads)
        fits x: x[1] == weight[3] * groups | as many channels as its weight has
    """

    def output_shape(self, sizes: Sizes) -> Shape:
        x, (out, *kernel, _) = sizes.of(self.x), sizes.of(self.weight)
        return x[0], out, *conv_transpose_sizes(self, x[2:], kernel)

    def evaluate(self, run: Run) -> None:
        conv_transpose_sizes(self, run.array(self.x).shape[2:], run.array(self.weight).shape[1:-1])
        y = numerics.float_conv_transpose(
            run.array(self.x), np.moveaxis(run.array(self.weight), -1, 1),
            run.array(self.bias) if self.bias else None, stride=self.strides, padding=by_axis(self.pads),
            dilation=self.dilations, output_padding=self.output_padding, groups=self.groups,
        )  # fmt: skip
        run.bind(self.y, y)

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        weight = shape_of(self.weight)
        return int(prod(shape_of(self.x)) * prod(weight[1:3]) * weight[0] // self.groups)
