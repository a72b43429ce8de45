"""Convolutions of activations that are quantized as they come. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.grids.affine import to_float32
from intact.numerics.integers.conv import conv
from intact.numerics.windows import Padding, Size


def dynamic_conv(
    x: ArrayLike,
    x_scale: ArrayLike,
    x_zero_point: int,
    w: ArrayLike,
    w_scales: ArrayLike,
    w_zero_points: ArrayLike = 0,
    bias: ArrayLike | None = None,
    *,
    stride: Size = 1,
    padding: Padding = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> NDArray[np.float32]:
    """Compute ``y = fl32(+0 + fl32(fl32(acc) * fl32(s_x * s_w[o])))``, then ``fl32(y + bias[o])``. NORMATIVE.

    acc is the exact sum of `conv`: padding reads the zero point.

    Args:
        x: Codes [n, channels, *sizes], one to three spatial axes.
        x_scale: The scale of all of x.
        x_zero_point: The code of `x` that means 0.0.
        w: Codes [out_channels, channels / groups, *kernel].
        w_scales: Reals [out_channels], or one for all.
        w_zero_points: One integer, or [out_channels].
        bias: Reals [out_channels].
        stride, padding, dilation, groups: As for `conv`.
    Returns:
        float32 [n, out_channels, *positions].
    Raises:
        QuantValueError: As for `conv`.
    Source: ONNX ConvInteger, and the Cast, Mul and Add that ONNX Runtime's quantize_dynamic writes behind it.

    Rule N73.
    """
    acc = conv(
        x, w, x_zero_point, w_zero_points,
        stride=stride, padding=padding, dilation=dilation, groups=groups,
    )  # fmt: skip
    by_channel = (-1, *[1] * (acc.ndim - 2))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        scales = to_float32(x_scale) * to_float32(w_scales).reshape(by_channel)
        y = np.float32(0) + acc.astype(np.float32) * scales
        return y if bias is None else np.asarray(y + to_float32(bias).reshape(by_channel))
