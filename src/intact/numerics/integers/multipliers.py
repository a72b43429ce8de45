"""The float32 constants of an integer layer. Nothing else in INTact computes a multiplier.

Each is formed in float64 from float32 scales and rounded to float32 once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.grids.affine import positive_scale

MULTIPLIER_LIMIT = 2.0**95
"""An accumulator of at most 2**31 times a multiplier below this, plus a few like it, is finite in float32."""


def multipliers(
    x_scale: ArrayLike, w_scale: ArrayLike, y_scale: ArrayLike = 1.0, *, gain: ArrayLike = 1.0
) -> NDArray[np.float32]:
    """Compute ``M = fl32(s_x * s_w * gain / s_y)``, evaluated from the left in float64. NORMATIVE.

    Args:
        x_scale: Scale of the input codes, float32, one number.
        w_scale: Scale of the weight codes, float32, one number or [channels].
        y_scale: Scale of the output codes; 1 for a float output, and for the scale of an int32 bias.
        gain: Float64 factor, one number or [channels]; may be negative.
    Returns:
        float32, one number or [channels].
    Raises:
        QuantValueError: A scale is not positive and finite, or the result is not below 2**95.

    Rule N21.
    """
    product = _float64(x_scale) * _float64(w_scale) * np.asarray(gain, np.float64)
    return _to_float32(product / _float64(y_scale), "multiplier")


def scale_bias(bias: ArrayLike, y_scale: ArrayLike = 1.0) -> NDArray[np.float32]:
    """Compute ``B = fl32(bias / s_y)``, divided in float64. NORMATIVE.

    Args:
        bias: Real bias, one number or [channels].
        y_scale: Scale of the output codes; 1 for a float output.
    Returns:
        float32, shape of `bias`.
    Raises:
        QuantValueError: The scale is not positive and finite, or the result is not below 2**95.

    Rule N21.
    """
    return _to_float32(np.asarray(bias, np.float64) / _float64(y_scale), "bias")


def ratio(in_scale: ArrayLike, out_scale: ArrayLike, count: ArrayLike = 1) -> NDArray[np.float32]:
    """Compute ``fl32(s_in / (count * s_out))``, in float64: for residuals, Add, Rescale and AvgPool.

    NORMATIVE.

    Args:
        in_scale, out_scale: Scales of the codes read and written, float32.
        count: Number of codes that a mean divides by; any shape.
    Returns:
        float32, the shapes broadcast together.
    Raises:
        QuantValueError: A scale is not positive and finite, or the result is not below 2**95.

    Rule N21.
    """
    return _to_float32(_float64(in_scale) / (np.asarray(count, np.float64) * _float64(out_scale)), "ratio")


def fold_batchnorm(
    gamma: ArrayLike, beta: ArrayLike, mean: ArrayLike, var: ArrayLike, eps: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Compute ``gain = (1 / sqrt(var + eps)) * gamma``, ``shift = beta - mean * gain``, in float32.

    NORMATIVE.

    Each operation is rounded, as ONNX Runtime rounds those of its own: a file has the same codes there.
    Behind quantized weights it never goes into the weights: it is the `Gain` of `requantize`.

    Args:
        gamma, beta, mean, var: Parameters of the BatchNorm, float32 [channels].
        eps: Its epsilon, > 0; rounded to float32.
    Returns:
        (gain, shift), float32 [channels]; a gain may be negative.
    Raises:
        QuantValueError: ``var + eps`` is not positive.

    Rules N29, N44, N47.
    """
    spread = np.asarray(var, np.float32) + np.float32(eps)
    if not (spread > 0).all():
        raise QuantValueError(
            "var + eps",
            str(spread[~(spread > 0)].flat[0]),
            "positive values",
            "repair the BatchNorm's statistics",
        )
    with np.errstate(all="ignore"):
        gain = np.float32(1) / np.sqrt(spread) * np.asarray(gamma, np.float32)
        return gain, np.asarray(beta, np.float32) - np.asarray(mean, np.float32) * gain


def _float64(scale: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(positive_scale(scale).astype(np.float64))


def _to_float32(values: NDArray[np.float64], name: str) -> NDArray[np.float32]:
    good = np.abs(values) < MULTIPLIER_LIMIT  # false for NaN
    if not good.all():
        raise QuantValueError(
            name,
            f"{np.asarray(values)[~good].flat[0]:g}",
            "a magnitude below 2**95",
            "look for a scale or a weight that is far from the others",
        )
    return np.asarray(values, np.float32)
