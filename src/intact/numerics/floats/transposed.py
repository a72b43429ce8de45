"""Transposed convolutions of float32, as a convolution for each phase of their strides. NORMATIVE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.floats.float_products import float_conv
from intact.numerics.grids.affine import to_float32

Reals = NDArray[np.float32]


@dataclass(frozen=True)
class Phase:
    """Along one axis, every stride-th output of a transposed convolution: a convolution of stride 1.

    Attributes:
        first: The first of these outputs.
        taps: The kernel's taps that reach them, in the order of the inputs that they read; may be empty.
        origin: The input under the first of these taps at output `first`.
        dilation: From tap to tap, in inputs.
    """

    first: int
    taps: tuple[int, ...]
    origin: int
    dilation: int

    @property
    def window(self) -> tuple[int, int, int]:
        """What inputs an output reads, by their places relative to it."""
        return self.origin, len(self.taps), self.dilation


def phases(taps: int, stride: int, dilation: int, pad: int) -> list[Phase]:
    """Output o takes tap k from input (o + pad - k * dilation) / stride, where that is a whole number."""
    apart = dilation // gcd(stride, dilation)
    found = []
    for first in range(stride):
        reach = [k for k in reversed(range(taps)) if (first + pad - k * dilation) % stride == 0]
        origin = (first + pad - reach[0] * dilation) // stride if reach else 0
        found.append(Phase(first, tuple(reach), origin, apart))
    return found


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
    """An output is that of `float_conv` over the taps that reach it, by the inputs that they read. NORMATIVE.

    What lies beyond x is +0 and is multiplied; an output that no tap reaches is its start.

    Args:
        x: Reals [n, channels, *sizes].
        w: Reals [out_channels, channels / groups, *kernel], not turned round.
        start: Reals [out_channels]; +0 where there is none.
        stride, padding, dilation, output_padding: For each spatial axis.
        groups: Of channels.
    Returns:
        float32 [n, out_channels, *sizes].
    Raises:
        QuantValueError: Shapes do not fit.
    Source: ONNX ConvTranspose.
    """
    x, w = to_float32(x), to_float32(w)
    axes = list(zip(x.shape[2:], w.shape[2:], stride, dilation, output_padding, padding, strict=True))
    sizes = [(n - 1) * s + (k - 1) * d + 1 + more - sum(pad) for n, k, s, d, more, pad in axes]
    if min(sizes) < 0:
        raise QuantValueError("padding", str(padding), "pads that leave something", "check the layout")
    begin = np.zeros(w.shape[0], np.float32) if start is None else to_float32(start)
    y = np.empty((x.shape[0], w.shape[0], *sizes), np.float32)
    y[:] = begin.reshape(-1, *[1] * len(sizes))
    every = [phases(k, s, d, pad[0]) for _, k, s, d, _, pad in axes]
    for each in product(*every):
        counts = [len(range(one.first, size, s)) for one, size, s in zip(each, sizes, stride, strict=True)]
        if not all(one.taps for one in each) or 0 in counts:
            continue
        read, taps = x, w
        for axis, (one, count) in enumerate(zip(each, counts, strict=True), start=2):
            read = _rows(read, axis, one.origin, one.origin + count + (len(one.taps) - 1) * one.dilation)
            taps = np.take(taps, one.taps, axis)
        made = float_conv(read, taps, begin, dilation=[one.dilation for one in each], groups=groups)
        places = [slice(one.first, None, s) for one, s in zip(each, stride, strict=True)]
        y[(slice(None), slice(None), *places)] = made
    return y


def _rows(x: Reals, axis: int, first: int, end: int) -> Reals:
    """x from `first` to `end` along an axis, +0 where it has nothing."""
    size = x.shape[axis]
    there = np.take(x, np.arange(max(first, 0), max(min(end, size), max(first, 0))), axis)
    around = [(0, 0)] * x.ndim
    before = min(max(-first, 0), end - first)
    around[axis] = (before, end - first - before - there.shape[axis])
    return np.pad(there, around)
