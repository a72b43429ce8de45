"""Convolutions of float32, by fused multiply-adds in one fixed order. NORMATIVE."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.floats.float_matmul import shape_error, start_sums
from intact.numerics.floats.fma import fma
from intact.numerics.grids.affine import to_float32
from intact.numerics.windows import Padding, Size, Window

Reals = NDArray[np.float32]


def float_conv(
    x: ArrayLike,
    w: ArrayLike,
    start: ArrayLike | None = None,
    *,
    stride: Size = 1,
    padding: Padding = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Reals:
    """Compute ``y = start``, then ``y = fma(x, w, y)`` for each tap of the kernel. NORMATIVE.

    Taps are in row-major order of the kernel's axes; within a tap the channels of the group ascend. Padding
    is +0 and is multiplied as pixels are: an infinite weight makes a NaN there.

    Args:
        x: Reals [n, channels, *sizes], one to three spatial axes.
        w: Reals [out_channels, channels / groups, *kernel].
        start: Reals [out_channels]; +0 where there is none.
        stride, dilation, padding, groups: As for `intact.numerics.conv`.
    Returns:
        float32 [n, out_channels, *positions].
    Raises:
        QuantValueError: Shapes do not fit.
    Source: ONNX Conv.

    Rules N51, N55, N61.
    """
    x, w = to_float32(x), to_float32(w)
    fits = 3 <= x.ndim <= 5 and w.ndim == x.ndim and groups >= 1
    if not fits or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise shape_error(x.shape, w.shape, "x [n, c, *sizes] and w [out, c / groups, *kernel]")
    rank, outputs, depth = x.ndim - 2, w.shape[0] // groups, w.shape[1]
    view = Window.of(w.shape[2:], rank, stride, padding, dilation).view(x, fill=0, beyond=0)
    n, positions, places = x.shape[0], view.shape[2 : 2 + rank], math.prod(view.shape[2 : 2 + rank])
    pixels = view.reshape(n, groups, depth, 1, places, *w.shape[2:])
    filters = w.reshape(groups, outputs, depth, *w.shape[2:])
    begin = np.zeros(w.shape[0], np.float32) if start is None else to_float32(start)
    if begin.shape != w.shape[:1]:
        raise shape_error(begin.shape, w.shape, "one start for each output channel")
    y = start_sums(begin.reshape(groups, outputs, 1), (n, groups, outputs, places))
    for tap in np.ndindex(w.shape[2:]):
        for c in range(depth):
            y = fma(pixels[(slice(None), slice(None), c, ..., *tap)], filters[(..., c, *tap)][..., None], y)
    return y.reshape(n, w.shape[0], *positions)
