"""The step for a convolution of codes with constant weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.epilogue import FILED, Epilogue
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.window import Pads, Pair, by_axis
from intact.engine.steps.base.wiring import Const, Read, Write
from intact.engine.steps.elements.split_quantize import check_low

Filters = Annotated[str, Const("int8", 4)]


@dataclass(frozen=True)
class Conv(Step):
    """Convolution of codes with constant int8 weights (N19 to N25).

    Attributes:
        x: Codes, or of codes of 16 bits the high bytes.
        weight: Constant, int8 [out, kernel_h, kernel_w, in / groups], zero points subtracted already.
        pads: (top, left, bottom, right). Padding reads the zero point.
        low: The low bytes, where x is the high ones (N62).
        shift: Their sums are rounded to multiples of 2^shift, in which the output counts.
    """

    kind = "conv"
    x: Read
    y: Write
    weight: Filters
    epilogue: Epilogue = field(metadata=FILED)
    strides: Pair = (1, 1)
    dilations: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    groups: int = 1
    low: Read = ""
    shift: int = 0

    rules = """
        min(weight) > 0 and max(weight) <= 2 ** 24 | weights that are not empty
        groups > 0 and weight[0] % groups == 0 | groups that divide the channels
        codes(x)
        images(x, y, strides, dilations, pads)
        sizes y: [x[0], weight[0], *windows(x, weight[1:3], strides, dilations, pads)]
    """

    def check(self, checker: Checker) -> None:
        check_low(checker, self.x, self.low, self.shift)
        self.epilogue.check(checker, checker.sizes(self.weight)[0])

    def evaluate(self, run: Run) -> None:
        acc = self._sums(run, self.low or self.x, self.epilogue.integer_addends(run))
        if self.low:
            acc = numerics.join_sums(self._sums(run, self.x, None), acc, self.shift)
        self.epilogue.evaluate(run, self.y, acc, axis=1)

    def _sums(self, run: Run, x: str, bias: NDArray[np.int32] | None) -> NDArray[np.int32]:
        return numerics.conv(
            run.array(x), filters(run, self.weight), run.codes(x).zero_point,
            bias=bias, stride=self.strides, padding=by_axis(self.pads),
            dilation=self.dilations, groups=self.groups,
        )  # fmt: skip

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * prod(shape_of(self.weight)[1:])


def filters(run: Run, weight: str) -> NDArray[np.int8]:
    """Return the filters [out, in / groups, kernel_h, kernel_w], as `numerics` has them."""
    return np.moveaxis(run.array(weight), -1, 1)
