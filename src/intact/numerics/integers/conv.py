"""The exact integer sums of a convolution over 1, 2 or 3 spatial axes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.integers.accumulator import (
    accumulator,
    exact_product,
    subtract_weight_zero_points,
    subtract_zero_point,
)
from intact.numerics.windows import Padding, Size, Window


def conv(
    x: ArrayLike,
    w: ArrayLike,
    x_zero_point: int,
    w_zero_point: ArrayLike = 0,
    bias: ArrayLike | None = None,
    *,
    stride: Size = 1,
    padding: Padding = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> NDArray[np.int32]:
    """Compute ``acc[n, o, p] = sum_{c, t} (x[n, c, p * stride + t * dilation] - z_x) * (w[o, c, t] -
    z_w[o])``.

    NORMATIVE. Exact; bias[o] is added exactly too. Padding reads the zero point, that is real 0.

    Args:
        x: Codes [n, channels, *sizes], one to three spatial axes.
        w: Codes [out_channels, channels / groups, *kernel].
        x_zero_point: The code of `x` that means 0.0.
        w_zero_point: The same for `w`, one number or [out_channels].
        bias: A foreign file's int32 bias, whose scale is ``multipliers(s_x, s_w)``, [out_channels].
        stride, dilation: One integer, or one per spatial axis.
        padding: One integer, one per spatial axis, or (before, after) per spatial axis.
        groups: Channels are cut into this many groups, each with its own share of the output channels.
    Returns:
        int32 [n, out_channels, *positions].
    Raises:
        QuantValueError: Codes are not integers, the shapes do not fit, or a sum leaves int32.
    Source: ONNX ConvInteger, Conv.

    Rules N19, N30, N46, N61.
    """
    x, w = subtract_zero_point(x, x_zero_point, "x"), subtract_weight_zero_points(w, w_zero_point)
    _check(x.shape, w.shape, groups)
    rank = x.ndim - 2
    window = Window.of(w.shape[2:], rank, stride, padding, dilation)
    view = window.view(x, fill=0, beyond=0)
    n, _, *positions = view.shape[: 2 + rank]
    taps, outputs, places = math.prod(w.shape[1:]), w.shape[0] // groups, n * math.prod(positions)
    # [n, groups, channels / groups, *positions, *kernel] -> [groups, n * positions, taps]
    patches = view.reshape(n, groups, w.shape[1], *view.shape[2:])
    patches = np.moveaxis(patches, 2, 2 + rank).swapaxes(0, 1).reshape(groups, places, taps)
    filters = w.reshape(groups, outputs, taps).swapaxes(1, 2)
    sums = exact_product(patches, filters).reshape(groups, n, *positions, outputs)
    sums = np.moveaxis(sums, -1, 1).swapaxes(0, 2).swapaxes(1, 2)
    return accumulator(sums.reshape(n, w.shape[0], *positions), bias, axis=1)


def _check(x: tuple[int, ...], w: tuple[int, ...], groups: int) -> None:
    fits = 3 <= len(x) <= 5 and len(w) == len(x) and groups >= 1
    if not fits or x[1] != w[1] * groups or w[0] % groups:
        raise QuantValueError(
            "shape",
            f"x {x} with w {w} in {groups} groups",
            "x [n, channels, *sizes] with w [out, channels / groups, *kernel], 1 to 3 sizes",
            "check the layout; channels and out must be multiples of groups",
        )
