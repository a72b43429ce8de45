"""Quantize, dequantize, fake-quantize and its gradient."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.errors import QuantValueError
from intact.numerics.grids.granularity import expand
from intact.spec import Format, QuantSpec


def round_to_format(x: NDArray[np.float32], fmt: Format) -> NDArray[np.float32]:
    """Round to the nearest value of `fmt`, ties to even mantissa, saturating at the largest finite one.

    NORMATIVE.

    Args:
        x: float32, any shape; infinities saturate, a NaN stays a NaN (fp4, which has none, gives 0).
        fmt: A float format.
    Returns:
        float32 values of the grid, shape of `x`.
    Source: OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats 1.0 (e2m1);
        ONNX Cast with saturate = 1.

    Rule N2.
    """
    clamped = np.clip(x, np.float32(fmt.qmin), np.float32(fmt.qmax))
    if fmt.name == "fp4e2m1":
        clamped = np.nan_to_num(clamped, nan=0.0)
    return np.asarray(clamped.astype(fmt.storage_dtype).astype(np.float32))


REAL_DTYPES = ("float32", "float16", "bfloat16", "float64")


def to_float32(x: ArrayLike) -> NDArray[np.float32]:
    """Round `x` to float32, the dtype in which every formula of INTact is evaluated.

    Rule N14.
    """
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite, and saturates
        return np.asarray(x).astype(np.float32, copy=False)


def quantize(x: ArrayLike, scale: ArrayLike, zero_point: ArrayLike, spec: QuantSpec) -> NDArray:
    """Compute ``q = clamp(rne(x / scale) + zero_point, qmin, qmax)``. NORMATIVE.

    Args:
        x: Reals of any shape; float16, bfloat16 and float64 are rounded to float32 first.
        scale: Real size of one step, float32, > 0, granule shape of `spec` (or one number).
        zero_point: The code that means 0.0, integer in [qmin, qmax], granule shape (or one number); 0 for a
            float format.
        spec: The target grid and granularity.
    Returns:
        int32 in [qmin, qmax], shape of `x`; for a float format, float32 values of that grid. `store`
        narrows them to the storage dtype.
    Raises:
        QuantValueError: `x` holds a NaN, `scale` is not positive and finite, `zero_point` is no code, or the
            shapes do not fit.
    Numerics: a true float32 division, ties to even, the zero point added after rounding; infinities saturate.
        Float formats clamp to the largest finite value before the cast.
    Source: ONNX QuantizeLinear (opset 21).

    Rules N11, N15, N16, N17, N45, N62.
    """
    x = to_float32(x)
    _refuse_nan(x)
    return _codes(x, scale, zero_point, spec)


def quantize_reciprocal(x: ArrayLike, scale: ArrayLike, zero_point: ArrayLike, spec: QuantSpec) -> NDArray:
    """Compute ``q = clamp(rne(x * fl32(1 / scale)) + zero_point, qmin, qmax)``: TensorRT's variant of
    `quantize`.

    Differs from `quantize` by one code, and only within a few ulp of a tie: x = 30, scale = 60/127 gives
    63 here and 64 there.

    Args:
        x: Any shape; becomes float32.
        scale, zero_point: Of the granule shape of `spec`.
        spec: The grid.
    Returns:
        Codes of the shape of x, as `quantize` returns them.
    Raises:
        QuantValueError: As for `quantize`, or a scale is 2**-128 or less: its reciprocal is beyond float32.

    Source: TensorRT documentation, quantization schemes ("uses the reciprocal scale").

    Rule N35.
    """
    x = to_float32(x)
    _refuse_nan(x)
    scale = positive_scale(scale)
    with np.errstate(over="ignore"):
        inv_scale = np.float32(1) / scale
        if not np.isfinite(inv_scale).all():
            raise QuantValueError(
                "scale", str(scale.min()), "more than 2**-128, so that 1 / scale is finite", "use quantize"
            )
        steps = x * expand(inv_scale, x.shape, spec)
    return round_and_clamp(steps, expand(code_zero_point(zero_point, spec), x.shape, spec), spec)


def dequantize(q: ArrayLike, scale: ArrayLike, zero_point: ArrayLike, spec: QuantSpec) -> NDArray[np.float32]:
    """Compute ``x = (q - zero_point) * scale`` in float32. NORMATIVE.

    Args:
        q: Codes, any shape: integers, or values of a float grid.
        scale, zero_point: As for `quantize`.
        spec: The grid and granularity of `q`.
    Returns:
        float32, shape of `q`.
    Raises:
        QuantValueError: `scale` is not positive and finite, `zero_point` is no code, or shapes do not fit.
    Source: ONNX DequantizeLinear (opset 21).

    Rules N12, N17, N45.
    """
    q = np.asarray(q)
    scale = expand(positive_scale(scale), q.shape, spec)
    zero_point = expand(code_zero_point(zero_point, spec), q.shape, spec)
    steps = q if spec.format.is_float else q.astype(np.int32) - zero_point
    with np.errstate(over="ignore"):  # at the end of float32, qmax * fl32(amax / qmax) may round to infinity
        return np.asarray(steps.astype(np.float32) * scale)


def fake_quantize(x: ArrayLike, scale: ArrayLike, zero_point: ArrayLike, spec: QuantSpec) -> NDArray:
    """Compute ``dequantize(quantize(x))``, in the dtype of `x`; a NaN stays a NaN. NORMATIVE.

    Args:
        x: Reals of any shape and any of `REAL_DTYPES`.
        scale, zero_point, spec: As for `quantize`.
    Returns:
        Shape and dtype of `x`.
    Raises:
        QuantValueError: `scale` is not positive and finite, `zero_point` is no code, or shapes do not fit.
    Numerics: computed in float32, rounded once to the dtype of `x`.

    Rules N13, N14, N16, N17, N32, N33, N56.
    """
    original = np.asarray(x)
    x = to_float32(original)
    is_nan = np.isnan(x)
    q = _codes(np.where(is_nan, np.float32(0), x), scale, zero_point, spec)
    y = np.where(is_nan, x, dequantize(q, scale, zero_point, spec))
    with np.errstate(over="ignore"):
        return y.astype(original.dtype)


def fake_quantize_grad(
    grad: ArrayLike, x: ArrayLike, low: ArrayLike, high: ArrayLike, spec: QuantSpec
) -> NDArray:
    """Compute ``grad where low <= x <= high, else 0``: the straight-through estimator. NORMATIVE.

    Args:
        grad: Gradient of the loss by the fake-quantized tensor, shape of `x`.
        x: The tensor before fake-quantization.
        low, high: Ends of the range in which the gradient passes, float32, granule shape (or one
            number): -amax and amax for a symmetric grid (an unsigned one too), `representable_range`
            for an asymmetric one.
        spec: Granularity of `low` and `high`.
    Returns:
        Shape and dtype of `grad`; 0 where `x` is NaN.
    Source: Bengio et al. 2013, straight-through estimator; pytorch_quantization's mask |x| <= amax.

    Rule N18.
    """
    grad, x = np.asarray(grad), to_float32(x)
    low, high = expand(to_float32(low), x.shape, spec), expand(to_float32(high), x.shape, spec)
    return np.where((x >= low) & (x <= high), grad, np.zeros((), grad.dtype))


def representable_range(
    scale: ArrayLike, zero_point: ArrayLike, spec: QuantSpec
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Compute ``((qmin - zp) * scale, (qmax - zp) * scale)``: the smallest and largest float of the grid.

    Args:
        scale, zero_point, spec: As for `quantize`; shapes that broadcast.
    Returns:
        Two float32 arrays, the shapes broadcast together.
    Raises:
        QuantValueError: `zero_point` is no code.

    Rule N18.
    """
    scale, zero_point = to_float32(scale), code_zero_point(zero_point, spec)
    low, high = np.int32(spec.qmin) - zero_point, np.int32(spec.qmax) - zero_point
    with np.errstate(over="ignore"):
        return np.asarray(low.astype(np.float32) * scale), np.asarray(high.astype(np.float32) * scale)


def store(q: ArrayLike, spec: QuantSpec) -> NDArray:
    """Convert codes of `quantize` to the storage dtype of their format: int8, uint4, float8_e4m3fn, ...

    Args:
        q: Codes of any shape.
        spec: Their grid.

    Rule N3.
    """
    return np.asarray(q).astype(spec.format.storage_dtype)


def _codes(x: NDArray[np.float32], scale: ArrayLike, zero_point: ArrayLike, spec: QuantSpec) -> NDArray:
    scale = expand(positive_scale(scale), x.shape, spec)
    with np.errstate(over="ignore", under="ignore"):
        steps = x / scale
    return round_and_clamp(steps, expand(code_zero_point(zero_point, spec), x.shape, spec), spec)


def round_and_clamp(steps: NDArray[np.float32], zero_point: NDArray[np.int32], spec: QuantSpec) -> NDArray:
    """Compute ``clamp(rne(steps) + zero_point, qmin, qmax)`` as int32.

    For a float format its nearest values.
    """
    if spec.format.is_float:
        return round_to_format(steps, spec.format)
    # Clamp before the cast, or +-inf and large floats would wrap. The bounds are small integers, so the
    # float32 comparison is exact, and clamping rne(x) to qmin - zp equals clamping the sum to qmin.
    low = (np.int32(spec.qmin) - zero_point).astype(np.float32)
    high = (np.int32(spec.qmax) - zero_point).astype(np.float32)
    return np.asarray(np.clip(np.rint(steps), low, high).astype(np.int32) + zero_point)


def positive_scale(scale: ArrayLike) -> NDArray[np.float32]:
    """Convert `scale` to float32.

    Raises:
        QuantValueError: A scale is not positive and finite.
    """
    scale = to_float32(scale)
    is_good = (scale > 0) & np.isfinite(scale)
    if not is_good.all():
        raise QuantValueError(
            "scale",
            str(scale[~is_good].flat[0]),
            "positive finite float32 values",
            "compute it with scale_from_amax, which maps a range of zero to scale 1",
        )
    return scale


def code_zero_point(zero_point: ArrayLike, spec: QuantSpec) -> NDArray[np.int32]:
    """Convert `zero_point` to int32.

    Raises:
        QuantValueError: A zero point is no code of the grid; a float format has only 0.
    """
    numbers = np.asarray(zero_point).astype(np.float64)  # exact for every integer that could be a code
    low, high = (0, 0) if spec.format.is_float else (int(spec.qmin), int(spec.qmax))
    codes = np.asarray(np.clip(np.nan_to_num(numbers), low, high).astype(np.int32))
    if (codes != numbers).any():
        raise QuantValueError(
            "zero_point",
            f"{numbers[codes != numbers].flat[0]:g}",
            f"integers in [{low}, {high}] for {spec}",
            "compute it with affine_from_range, or use 0 for a symmetric grid",
        )
    return codes


def _refuse_nan(x: NDArray[np.float32]) -> None:
    if count := int(np.isnan(x).sum()):
        raise QuantValueError(
            "x",
            f"{count} NaN in {x.size} values of shape {x.shape}",
            "numbers (infinities saturate)",
            "find the layer that produces NaN in the float model first",
        )
