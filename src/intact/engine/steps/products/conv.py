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
from intact.engine.steps.base.sizes import Sizes
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.window import Pads, Pair, by_axis, check_window, positions
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

    def check(self, checker: Checker) -> None:
        check_low(checker, self.x, self.low, self.shift)
        check_filters(checker, self.x, self.weight, self.groups, self.epilogue)
        check_window(checker, self.x, self.y, (*self.strides, *self.dilations), self.pads)

    def output_shape(self, sizes: Sizes) -> Shape:
        x, (out, kernel_h, kernel_w, _) = sizes.of(self.x), sizes.of(self.weight)
        windows = positions(x, (kernel_h, kernel_w), self.strides, self.dilations, self.pads)
        return x[0], out, *windows

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


def check_filters(checker: Checker, x: str, weight: str, groups: int, epilogue: Epilogue) -> None:
    """Refuse weights that are no filters of codes."""
    shape = checker.sizes(weight)
    epilogue.check(checker, shape[0])
    checker.that(min(shape) > 0, shape, "weights that are not empty")
    checker.that(groups > 0 and shape[0] % groups == 0, f"{groups} groups", f"a divisor of {shape[0]}")
    checker.codes(x)


def filters(run: Run, weight: str) -> NDArray[np.int8]:
    """Return the filters [out, in / groups, kernel_h, kernel_w], as `numerics` has them."""
    return np.moveaxis(run.array(weight), -1, 1)
