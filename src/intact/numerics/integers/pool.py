"""Average and maximum pooling of codes, maximum pooling of floats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.floats.binary import maximum
from intact.numerics.grids.affine import positive_scale
from intact.numerics.integers.accumulator import subtract_zero_point
from intact.numerics.integers.add import Affine
from intact.numerics.integers.requantize import to_codes
from intact.numerics.windows import Padding, Size, Window
from intact.spec import QuantSpec


def avg_pool(
    x: ArrayLike,
    kernel: Size,
    x_affine: Affine,
    y_affine: Affine,
    spec: QuantSpec,
    *,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> NDArray[np.int32]:
    """Compute ``y = clamp(rne(fl32(mean / s_y)) + z_y)``, mean = ``fl32(fl32(sum(q - z_x) * s_x) / n)``.

    NORMATIVE.

    Args:
        x: Codes [n, channels, *sizes].
        kernel: Taps per spatial axis; all sizes for a global pool.
        x_affine, y_affine: (scale, zero_point) of input and output.
        spec: The output grid, an integer format.
        stride: `kernel` when None.
        padding: One integer, one per spatial axis, or (before, after) per spatial axis; reads real 0.
        dilation: Distance between taps.
        ceil_mode: Round the number of positions up; taps beyond the padding never count in n.
        count_include_pad: Count padding in n.
    Returns:
        int32 codes [n, channels, *positions].
    Raises:
        QuantValueError: The shapes do not fit, or a window holds nothing to count.
    Source: ONNX AveragePool, GlobalAveragePool.

    Rule N27.
    """
    q = subtract_zero_point(x, x_affine[1], "x")
    window = _window(q, kernel, stride, padding, dilation, ceil_mode)
    taps = tuple(range(-len(window.kernel), 0))
    count = _count(window, q, int(count_include_pad)).sum(axis=taps)
    sums = window.view(q, fill=0, beyond=0).sum(axis=taps)
    means = sums.astype(np.float32) * positive_scale(x_affine[0]) / count.astype(np.float32)
    return to_codes(means / positive_scale(y_affine[0]), y_affine[1], spec)


def max_pool(
    x: ArrayLike,
    kernel: Size,
    *,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> NDArray[np.int32]:
    """Compute ``y = max(q)`` over each window, in the input's own scale and zero point. NORMATIVE.

    Exact, because dequantization keeps order. Padding never wins.

    Args:
        x: Codes [n, channels, *sizes].
        kernel, stride, padding, dilation, ceil_mode: As for `avg_pool`.
    Returns:
        int32 codes [n, channels, *positions].
    Raises:
        QuantValueError: The shapes do not fit, or a window holds nothing but padding.
    Source: ONNX MaxPool.

    Rule N27.
    """
    q = subtract_zero_point(x, 0, "x")
    window = _window(q, kernel, stride, padding, dilation, ceil_mode)
    _count(window, q, padding_counts=0)
    lowest = np.iinfo(np.int32).min
    view = window.view(q, fill=lowest, beyond=lowest)
    return np.asarray(view.max(axis=tuple(range(-len(window.kernel), 0))).astype(np.int32))


def float_max_pool(
    x: NDArray[np.float32],
    kernel: Size,
    *,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> NDArray[np.float32]:
    """Return the largest float of each window, by `maximum` of tap after tap in row-major order. NORMATIVE.

    Args:
        x: float32 [n, channels, *sizes].
        kernel, stride, padding, dilation, ceil_mode: As for `avg_pool`.
    Returns:
        float32 [n, channels, *positions].
    Raises:
        QuantValueError: The shapes do not fit, or a window holds nothing but padding.
    Source: ONNX MaxPool.

    Rule N27.
    """
    window = _window(x, kernel, stride, padding, dilation, ceil_mode)
    _count(window, x, padding_counts=0)
    view = window.view(x, fill=-np.inf, beyond=-np.inf)
    taps = view.reshape(*view.shape[: x.ndim], math.prod(window.kernel))
    largest = np.full(taps.shape[:-1], -np.inf, np.float32)
    for tap in range(taps.shape[-1]):
        largest = maximum(largest, taps[..., tap])
    return largest


def _window(
    q: NDArray[Any], kernel: Size, stride: Size | None, padding: Padding, dilation: Size, ceil_mode: bool
) -> Window:
    if q.ndim < 3:
        raise QuantValueError(
            "x", f"shape {q.shape}", "[n, channels, *sizes]", "add the batch and channel axes"
        )
    return Window.of(kernel, q.ndim - 2, kernel if stride is None else stride, padding, dilation, ceil_mode)


def _count(window: Window, q: NDArray[Any], padding_counts: int) -> NDArray[np.int64]:
    """Return ones where a window reads an element that counts, else zeros: [1, 1, *positions, *kernel]."""
    ones = np.ones((1, 1, *q.shape[2:]), np.int64)
    counts = window.view(ones, fill=padding_counts, beyond=0)
    if not counts.any(axis=tuple(range(-len(window.kernel), 0))).all():
        raise QuantValueError(
            "padding",
            f"{window.padding} with kernel {window.kernel}",
            "at least one value in every window",
            "pad by less than the kernel",
        )
    return counts
