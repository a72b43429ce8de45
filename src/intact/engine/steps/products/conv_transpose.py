"""The step for a transposed convolution of codes with constant weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.epilogue import FILED, Epilogue
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.window import Pads, Pair
from intact.engine.steps.base.wiring import Read, Write
from intact.engine.steps.products.conv import Filters, filters


@dataclass(frozen=True)
class ConvTranspose(Step):
    """Transposed convolution. `weight` is int8 [out, kernel_h, kernel_w, in / groups], not flipped."""

    kind = "conv_transpose"
    x: Read
    y: Write
    weight: Filters
    epilogue: Epilogue = field(metadata=FILED)
    strides: Pair = (1, 1)
    dilations: Pair = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    output_padding: Pair = (0, 0)
    groups: int = 1

    rules = """
        min(weight) > 0 and max(weight) <= 2 ** 24 | weights that are not empty
        groups > 0 and weight[0] % groups == 0 | groups that divide the channels
        codes(x)
        max(strides) <= 2 ** 16 | strides of an image
        0 <= min(output_padding) and max(output_padding) <= 2 ** 16 | no sizes below 0
        images(x, y, strides, dilations, pads)
    """

    def check(self, checker: Checker) -> None:
        self.epilogue.check(checker, checker.sizes(self.weight)[0])

    def output_shape(self, sizes: Sizes) -> Shape:
        x, (out, *kernel, _) = sizes.of(self.x), sizes.of(self.weight)
        return x[0], out, *conv_transpose_sizes(self, x[2:], kernel)

    def evaluate(self, run: Run) -> None:
        """Convolve x, with zeros between its pixels and around it, with the flipped kernel."""
        zero_point, kernel = run.codes(self.x).zero_point, filters(run, self.weight)
        x = run.array(self.x)
        conv_transpose_sizes(self, x.shape[2:], kernel.shape[2:])
        sizes = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], self.strides, strict=True)]
        x = _spread(x, zero_point, self.strides)
        room = [d * (k - 1) for d, k in zip(self.dilations, kernel.shape[2:], strict=True)]
        top, left, bottom, right = self.pads
        around = [
            (room[0] - top, room[0] - bottom + self.output_padding[0]),
            (room[1] - left, room[1] - right + self.output_padding[1]),
        ]
        # No pixels take up less room than none: the frame is all there is, and by that much smaller.
        around = [
            (a, b) if n > 0 else (max(a + n + b, 0), 0) for n, (a, b) in zip(sizes, around, strict=True)
        ]
        acc = numerics.conv(
            _frame(x, around, zero_point), kernel[:, :, ::-1, ::-1], zero_point,
            bias=self.epilogue.integer_addends(run), dilation=self.dilations, groups=self.groups,
        )  # fmt: skip
        self.epilogue.evaluate(run, self.y, acc, axis=1)

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        weight = shape_of(self.weight)
        return int(prod(shape_of(self.x)) * prod(weight[1:3]) * weight[0] // self.groups)


class _Transposed(Protocol):
    """Window fields that the two kinds of transposed convolution share."""

    @property
    def x(self) -> str: ...
    @property
    def strides(self) -> Pair: ...
    @property
    def dilations(self) -> Pair: ...
    @property
    def pads(self) -> Pads: ...
    @property
    def output_padding(self) -> Pair: ...


def conv_transpose_sizes(step: _Transposed, sizes: Shape, kernel: Sequence[int]) -> Shape:
    """Return height and width of a transposed convolution's output for an image of `sizes`.

    Raises:
        QuantValueError: Its pads leave nothing.
    """
    pads = (step.pads[0] + step.pads[2], step.pads[1] + step.pads[3])
    spatial = tuple(
        (n - 1) * s + (k - 1) * d + 1 + extra - pad
        for n, s, k, d, extra, pad in zip(
            sizes, step.strides, kernel, step.dilations, step.output_padding, pads, strict=True
        )
    )
    if min(spatial) < 1:
        raise mismatch(step.x, f"sizes {sizes}", "sizes of which the pads leave something")
    return spatial


def _spread(x: NDArray[Any], fill: int, strides: Pair) -> NDArray[Any]:
    """Insert strides - 1 codes of real 0 between the pixels of `x`."""
    sizes = [max((n - 1) * s + 1, 0) for n, s in zip(x.shape[2:], strides, strict=True)]
    wide = np.full((*x.shape[:2], *sizes), fill, x.dtype)
    wide[:, :, :: strides[0], :: strides[1]] = x
    return wide


def _frame(x: NDArray[Any], around: list[tuple[int, int]], fill: int) -> NDArray[Any]:
    """Surround `x` with a frame of real 0; a negative width cuts."""
    padded = np.pad(x, ((0, 0), (0, 0), *[(max(a, 0), max(b, 0)) for a, b in around]), constant_values=fill)
    cut = [slice(max(-a, 0), b if b < 0 else None) for a, b in around]
    return padded[:, :, cut[0], cut[1]]
