"""Transposed convolutions of float32, as one convolution for each phase of their strides. NORMATIVE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.floats.float_conv import float_conv
from intact.numerics.grids.affine import to_float32

Reals = NDArray[np.float32]


@dataclass(frozen=True)
class Phase:
    """Every stride-th output of a transposed convolution along one axis, as a convolution of stride 1.

    Attributes:
        first: The index of the first of these outputs.
        taps: The taps of the kernel that reach them, in the order of the inputs that they read; may be empty.
        origin: The input under the first of these taps at output `first`.
        dilation: The distance between neighbouring taps, in inputs.
    """

    first: int
    taps: tuple[int, ...]
    origin: int
    dilation: int

    @property
    def window(self) -> tuple[int, int, int]:
        """The inputs that an output reads, relative to it: origin, number and dilation."""
        return self.origin, len(self.taps), self.dilation


def phases(taps: int, stride: int, dilation: int, pad: int) -> list[Phase]:
    """Split a transposed convolution along one axis into phases, one for each remainder modulo the stride.

    Output o reads input (o + pad - k * dilation) / stride under tap k, where that is a whole number.

    Args:
        taps: Size of the kernel.
        stride, dilation, pad: Of the transposed convolution; `pad` is that before the first output.
    """
    distance = dilation // gcd(stride, dilation)
    phase_list = []
    for first in range(stride):
        reach = [k for k in reversed(range(taps)) if (first + pad - k * dilation) % stride == 0]
        origin = (first + pad - reach[0] * dilation) // stride if reach else 0
        phase_list.append(Phase(first, tuple(reach), origin, distance))
    return phase_list


def float_conv_transpose(
    x: ArrayLike,
    w: ArrayLike,
    start: ArrayLike | None = None,
    *,
    stride: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    output_padding: Sequence[int],
    groups: int = 1,
) -> Reals:
    """Compute each output as `float_conv` over the taps that reach it. NORMATIVE.

    Beyond the ends x reads as +0, which is multiplied. An output that no tap reaches is its start.

    Args:
        x: Reals [n, channels, *sizes].
        w: Reals [out_channels, channels / groups, *kernel], not flipped.
        start: Reals [out_channels]; +0 where there is none.
        stride, padding, dilation, output_padding: One entry per spatial axis.
        groups: The number of groups of channels.
    Returns:
        float32 [n, out_channels, *sizes].
    Raises:
        QuantValueError: Shapes do not fit.
    Source: ONNX ConvTranspose.

    Rule N51.
    """
    x, w = to_float32(x), to_float32(w)
    axes = list(zip(x.shape[2:], w.shape[2:], stride, dilation, output_padding, padding, strict=True))
    sizes = [(n - 1) * s + (k - 1) * d + 1 + more - sum(pad) for n, k, s, d, more, pad in axes]
    if min(sizes) < 0:
        raise QuantValueError("padding", str(padding), "pads that leave something", "check the layout")
    begin = np.zeros(w.shape[0], np.float32) if start is None else to_float32(start)
    y = np.empty((x.shape[0], w.shape[0], *sizes), np.float32)
    y[:] = begin.reshape(-1, *[1] * len(sizes))
    axis_phases = [phases(k, s, d, pad[0]) for _, k, s, d, _, pad in axes]
    for combination in product(*axis_phases):
        counts = [
            len(range(phase.first, size, s))
            for phase, size, s in zip(combination, sizes, stride, strict=True)
        ]
        if not all(phase.taps for phase in combination) or 0 in counts:
            continue
        inputs, taps = x, w
        for axis, (phase, count) in enumerate(zip(combination, counts, strict=True), start=2):
            reach = (len(phase.taps) - 1) * phase.dilation
            inputs = _slice_with_zeros(inputs, axis, phase.origin, phase.origin + count + reach)
            taps = np.take(taps, phase.taps, axis)
        dilations = [phase.dilation for phase in combination]
        outputs = float_conv(inputs, taps, begin, dilation=dilations, groups=groups)
        places = [slice(phase.first, None, s) for phase, s in zip(combination, stride, strict=True)]
        y[(slice(None), slice(None), *places)] = outputs
    return y


def _slice_with_zeros(x: Reals, axis: int, first: int, end: int) -> Reals:
    """Slice x from `first` to `end` along an axis, with +0 beyond its ends."""
    size = x.shape[axis]
    inside = np.take(x, np.arange(max(first, 0), max(min(end, size), max(first, 0))), axis)
    pads = [(0, 0)] * x.ndim
    before = min(max(-first, 0), end - first)
    pads[axis] = (before, end - first - before - inside.shape[axis])
    return np.pad(inside, pads)
