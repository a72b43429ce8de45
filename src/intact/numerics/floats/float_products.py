"""Products of float32 by fused multiply-adds in one fixed order: matrices and convolutions. NORMATIVE.

NumPy has no fused multiply-add. The product of two float32 is exact in float64; its sum with a third is
rounded to odd there, from which rounding to float32 is rounding once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.grids.affine import to_float32
from intact.numerics.windows import Padding, Size, Window

Reals = NDArray[np.float32]


def fma(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Reals:
    """``fl32(a * b + c)``: one rounding. NORMATIVE.

    Args:
        a, b, c: Reals that broadcast together.
    Returns:
        float32. Of a NaN: that it is one.
    Source: IEEE 754 fusedMultiplyAdd; S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums:
        proved algorithms using rounding to odd", 2008.
    """
    with np.errstate(all="ignore"):
        product = np.asarray(to_float32(a).astype(np.float64) * to_float32(b))
        return _rounded_sum(product, to_float32(c).astype(np.float64))


def _rounded_sum(x: NDArray[np.float64], y: NDArray[np.float64]) -> Reals:
    """``fl32(x + y)``, rounded once. `x` may be overwritten."""
    total = x + y
    # What the sum lost, exactly: TwoSum. Nothing of it overflows; what is not finite has lost a NaN.
    back = total - x
    lost = (x - (total - back)) + (y - back)
    bits = total.view(np.int64)
    inexact = (lost != 0) & np.isfinite(lost) & ((bits & 1) == 0)
    away = (lost > 0) == (total > 0)
    odd = bits + np.where(away, 1, -1) * inexact
    return np.asarray(odd.view(np.float64).astype(np.float32))


def float_product(a: ArrayLike, b: ArrayLike, start: ArrayLike | None = None) -> Reals:
    """``y[..., i, j]`` begins at `start` and takes ``y = fma(a[..., i, k], b[..., k, j], y)``, k ascending.

    NORMATIVE.

    Args:
        a: Reals [..., m, k].
        b: Reals [..., k, n]; leading axes broadcast.
        start: Reals that broadcast to the result, such as a bias [n]; +0 where there is none.
    Returns:
        float32 [..., m, n].
    Raises:
        QuantValueError: Shapes do not fit.
    Source: ONNX MatMul, Gemm.
    """
    left, right = to_float32(a), to_float32(b)
    if left.ndim < 2 or right.ndim < 2 or left.shape[-1] != right.shape[-2]:
        raise _shape_error(left.shape, right.shape, "a [..., m, k] and b [..., k, n]")
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        y = _started(start, (*batch, left.shape[-2], right.shape[-1]))
    except ValueError:
        raise _shape_error(left.shape, right.shape, "leading axes and a start that broadcast") from None
    for k in range(left.shape[-1]):
        y = fma(left[..., k, None], right[..., k, None, :], y)
    return y


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
    """An output begins at its channel's start and takes ``y = fma(x, w, y)`` for each tap. NORMATIVE.

    Taps ascend as they lie in memory, channels last: by kernel axes first, the channels of the group within.
    Padding is +0 and is multiplied as pixels are, so that a weight that is no finite number shows there.

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
    """
    x, w = to_float32(x), to_float32(w)
    fits = 3 <= x.ndim <= 5 and w.ndim == x.ndim and groups >= 1
    if not fits or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise _shape_error(x.shape, w.shape, "x [n, c, *sizes] and w [out, c / groups, *kernel]")
    rank, outputs, depth = x.ndim - 2, w.shape[0] // groups, w.shape[1]
    view = Window.of(w.shape[2:], rank, stride, padding, dilation).view(x, fill=0, beyond=0)
    n, positions, places = x.shape[0], view.shape[2 : 2 + rank], math.prod(view.shape[2 : 2 + rank])
    pixels = view.reshape(n, groups, depth, 1, places, *w.shape[2:])
    filters = w.reshape(groups, outputs, depth, *w.shape[2:])
    begin = np.zeros(w.shape[0], np.float32) if start is None else to_float32(start)
    if begin.shape != w.shape[:1]:
        raise _shape_error(begin.shape, w.shape, "one start for each output channel")
    y = _started(begin.reshape(groups, outputs, 1), (n, groups, outputs, places))
    for tap in np.ndindex(w.shape[2:]):
        for c in range(depth):
            y = fma(pixels[(slice(None), slice(None), c, ..., *tap)], filters[(..., c, *tap)][..., None], y)
    return y.reshape(n, w.shape[0], *positions)


def _started(start: ArrayLike | None, shape: tuple[int, ...]) -> Reals:
    return np.array(np.broadcast_to(to_float32(0 if start is None else start), shape))


def _shape_error(first: tuple[int, ...], second: tuple[int, ...], want: str) -> QuantValueError:
    return QuantValueError("shape", f"{first} with {second}", want, "check the layout")
