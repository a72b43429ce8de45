"""The epilogue of an integer layer: codes of the next grid, or floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.floats.binary import apply_slope
from intact.numerics.grids.affine import code_zero_point, positive_scale, quantize, round_and_clamp
from intact.numerics.integers.accumulator import subtract_zero_point
from intact.spec import QuantSpec

Bounds = tuple[int, int]
NO_OFFSET = -0.0
"""Stands where there is no shift: adding it changes no number (N44)."""


@dataclass(frozen=True)
class Residual:
    """The other operand of an Add that is fused into a layer.

    Attributes:
        codes: Integers, shape of the accumulator (or one that broadcasts to it).
        scale: float32, one number: that of the codes.
        zero_point: The code that means 0.0.
    """

    codes: ArrayLike
    scale: ArrayLike
    zero_point: int = 0


@dataclass(frozen=True)
class Gain:
    """A BatchNorm behind a layer, or a factor and an offset: ``fl32(fl32(x * factor) + offset)``.

    Attributes:
        factor, offset: float32, one number or [channels]. Adding -0 changes no number, and no zero's sign.

    Rules N29, N44.
    """

    factor: ArrayLike
    offset: ArrayLike = NO_OFFSET


def requantize(
    acc: ArrayLike,
    multiplier: ArrayLike,
    bias: ArrayLike,
    y_scale: ArrayLike,
    zero_point: int,
    spec: QuantSpec,
    *,
    gain: Gain | None = None,
    quotient: ArrayLike = 1.0,
    residual: Residual | None = None,
    slope: ArrayLike | None = None,
    bounds: Bounds | None = None,
    axis: int = 1,
) -> NDArray[np.int32]:
    """Compute ``y = clamp(rne(fl32(real / s_y)) + z_y, low, high)``, `real` being that of `to_real`.

    NORMATIVE.

    Args:
        acc: int32 sums from `linear`, `conv` or `matmul`, any shape.
        multiplier: ``fl32(s_x * s_w)`` from `multipliers`, float32, one number or [channels] along `axis`.
        bias: float32, one number or [channels] along `axis`.
        y_scale: Scale of the output codes, float32, one number.
        zero_point: Output zero point, a code of `spec`.
        spec: The output grid, an integer format, per-tensor.
        gain, quotient, residual, slope: As for `to_real`.
        bounds: (low, high) codes from `activation_bounds`, for Relu and Clip; the grid's ends otherwise.
        axis: The channel axis of `acc`.
    Returns:
        int32 codes, shape of `acc`.
    Raises:
        QuantValueError: The channels do not fit, or `zero_point` is no code.
    Numerics: separate float32 operations, from left to right, never fused; a true division; ties to even;
        clamp before cast.
    Source: ONNX DequantizeLinear, Conv (Gemm, MatMul), Add and QuantizeLinear, in float32.

    Rules N22, N23, N32, N33, N47, N48.
    """
    epilogue: dict[str, Any] = {"gain": gain, "quotient": quotient, "residual": residual, "slope": slope}
    real = to_real(acc, multiplier, bias, axis=axis, **epilogue)
    return to_codes(real / positive_scale(y_scale), zero_point, spec, bounds)


def requantize_by_product(
    acc: ArrayLike,
    multiplier: ArrayLike,
    bias: ArrayLike,
    zero_point: int,
    spec: QuantSpec,
    *,
    bounds: Bounds | None = None,
    axis: int = 1,
) -> NDArray[np.int32]:
    """Compute ``y = clamp(rne(fl32(fl32(acc) * M) + B) + z_y, low, high)``: a cheap `requantize`. NORMATIVE.

    Args:
        acc, zero_point, spec, bounds, axis: As for `requantize`.
        multiplier, bias: M and B from `product_form`, which proves that both forms give the same codes.
    Returns:
        int32 codes, shape of `acc`.

    Rule N22.
    """
    return to_codes(to_real(acc, multiplier, bias, axis=axis), zero_point, spec, bounds)


def to_real(
    acc: ArrayLike,
    multiplier: ArrayLike,
    bias: ArrayLike,
    *,
    gain: Gain | None = None,
    quotient: ArrayLike = 1.0,
    residual: Residual | None = None,
    slope: ArrayLike | None = None,
    axis: int = 1,
) -> NDArray[np.float32]:
    """Compute ``fl32(fl32(acc) * M) + B``, with gain, residual and slope: a float output such as logits.

    NORMATIVE.

    Args:
        acc: int32 sums, any shape.
        multiplier: ``fl32(s_x * s_w)`` from `multipliers`, float32, one number or [channels].
        bias: float32, one number or [channels] along `axis`.
        gain: The factor and offset that follow.
        quotient: float32, one number that divides the result of the gain; 1 changes nothing.
        residual: An operand added next, ``fl32(fl32(r - z_r) * s_r)``.
        slope: float32, one number or [channels] along `axis`, which multiplies negative results last
            (`apply_slope`): LeakyRelu and PRelu.
        axis: The channel axis of `acc`.
    Returns:
        float32, shape of `acc`.
    Raises:
        QuantValueError: The channels do not fit.

    Rules N23, N25, N44.
    """
    acc = np.asarray(acc)
    product = acc.astype(np.float32) * _per_channel(multiplier, acc.shape, axis, "multiplier")
    real: NDArray[Any] = product + _per_channel(bias, acc.shape, axis, "bias")
    if gain is not None:
        real = real * _per_channel(gain.factor, acc.shape, axis, "gain")
        real = real + _per_channel(gain.offset, acc.shape, axis, "offset")
    real = real / np.asarray(quotient, np.float32)
    if residual is not None:
        branch = subtract_zero_point(residual.codes, residual.zero_point, "residual").astype(np.float32)
        real = real + branch * np.asarray(residual.scale, np.float32)
    if slope is not None:
        real = apply_slope(real, _per_channel(slope, real.shape, axis, "slope"))
    return np.asarray(real)


def to_codes(
    steps: ArrayLike, zero_point: int, spec: QuantSpec, bounds: Bounds | None = None
) -> NDArray[np.int32]:
    """Compute ``clamp(rne(steps) + z, low, high)``: the last line of every integer layer. NORMATIVE.

    Args:
        steps: float32 multiples of the output scale, any shape, no NaN.
        zero_point, spec, bounds: As for `requantize`.
    Returns:
        int32 codes, shape of `steps`.

    Rule N22.
    """
    if spec.format.is_float:
        raise QuantValueError(
            "format",
            spec.format.name,
            "an integer format behind an integer layer",
            "keep the output in float",
        )
    codes = round_and_clamp(np.asarray(steps, np.float32), code_zero_point(zero_point, spec), spec)
    return codes if bounds is None else np.asarray(np.clip(codes, *bounds))


def activation_bounds(
    lower: float, upper: float, scale: ArrayLike, zero_point: int, spec: QuantSpec
) -> Bounds:
    """Compute ``(quantize(lower), quantize(upper))``: Relu is (0, inf), Clip(0, 6) is (0, 6). NORMATIVE.

    Rounding keeps order, so clamping codes to these equals quantizing the clamped floats.

    Args:
        lower, upper: Bounds of the activation in real units; infinities leave the grid's end.
        scale, zero_point, spec: Output scale (float32), zero point and grid, per-tensor.
    Returns:
        (low, high), codes of `spec`.

    Rule N24.
    """
    return int(quantize(lower, scale, zero_point, spec)), int(quantize(upper, scale, zero_point, spec))


def _per_channel(values: ArrayLike, shape: tuple[int, ...], axis: int, name: str) -> NDArray[np.float32]:
    values = np.asarray(values, np.float32)
    if values.ndim == 0:
        return values
    if not -len(shape) <= axis < len(shape) or values.shape != (shape[axis],):
        raise QuantValueError(
            name,
            f"shape {values.shape} for accumulators of shape {shape}",
            f"one number, or one for each channel of axis {axis}",
            "pass the channel axis: 1 behind conv, -1 behind linear",
        )
    return values.reshape([-1 if a == axis % len(shape) else 1 for a in range(len(shape))])
