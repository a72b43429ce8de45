"""Fake-quantize, its gradients, quantize and dequantize of whole tensors, natively.

Each function equals its namesake in `intact.numerics` bit for bit. It calls that namesake for what native
code does not cover: float grids, codes wider than a byte in `quantize`, and 64-bit gradients.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact import numerics
from intact.kernels import _native
from intact.kernels._arrays import DTYPE_NAMES, dense, empty_like, give, real_array, target, thread_pool_size
from intact.kernels._layout import ParameterLayout, plan
from intact.kernels.registry import kernels_in_use
from intact.numerics import code_zero_point, granule_shape, positive_scale
from intact.spec import QuantSpec

Floats = NDArray[np.float32]


def fake_quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    spec: QuantSpec,
    *,
    out: NDArray[Any] | None = None,
    threads: int = 1,
) -> NDArray[Any]:
    """Compute ``dequantize(quantize(x))`` in the dtype of `x`.

    A NaN stays a NaN. As `numerics.fake_quantize`.

    Args:
        x: Reals of any shape and memory layout: float32, float16, bfloat16 or float64.
        scale: Real size of one step, float32, > 0, granule shape of `spec` (or one number).
        zero_point: The code that means 0.0, shape of `scale` (or one number).
        spec: The target grid and granularity.
        out: The array for the result, with shape and dtype of `x`; may be `x` itself.
        threads: The most threads that work.
    Returns:
        Shape, dtype and memory layout of `x`; `out` when it is given.
    Raises:
        QuantValueError: `scale` is not positive, shapes do not fit, or `out` is not like `x`.
    """
    x = real_array(x)
    grid = _grid(x, scale, zero_point, spec)
    if grid is None:
        return give(numerics.fake_quantize(x, scale, zero_point, spec), out)
    view, scales, low, high = grid
    y, use = target(out, x, view.order, x), kernels_in_use()
    _native.fake_quantize(
        use["fake_quantize"], use["convert"], DTYPE_NAMES[x.dtype], view.layout,
        dense(x, view.order), scales, low, high, dense(y, view.order), thread_pool_size(threads),
    )  # fmt: skip
    return give(y, out)


def fake_quantize_grad(
    grad: ArrayLike,
    x: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    spec: QuantSpec,
    *,
    out: NDArray[Any] | None = None,
    threads: int = 1,
) -> NDArray[Any]:
    """Compute ``grad where low <= x <= high, else 0``. As `numerics.fake_quantize_grad`.

    Args:
        grad: Gradient by the fake-quantized tensor, shape of `x`, any real dtype.
        x: The tensor before fake-quantization.
        low, high: Ends of the range in which the gradient passes, float32, granule shape (or one number).
        spec: Granularity of `low` and `high`.
        out, threads: As for `fake_quantize`; `out` may be `grad`.
    Returns:
        Shape and dtype of `grad`; `out` when it is given.
    Raises:
        QuantValueError: Shapes do not fit, or `out` is not like `grad`.
    """
    grad, x = real_array(grad), real_array(x)
    bounds = np.asarray(low, np.float32), np.asarray(high, np.float32)
    # 64-bit gradients must pass unrounded, but the native loop has 32 bits.
    if grad.dtype == np.float64 or grad.shape != x.shape or x.size == 0:
        return give(numerics.fake_quantize_grad(grad, x, *bounds, spec), out)
    view = plan(x, spec, shared=all(b.size == 1 for b in bounds))
    low_flat, high_flat = (view.params(b) for b in bounds)
    y, use = target(out, grad, view.order, grad, x), kernels_in_use()
    _native.fake_quantize_grad(
        use["fake_quantize_grad"], use["convert"], DTYPE_NAMES[grad.dtype], DTYPE_NAMES[x.dtype],
        view.layout, dense(grad, view.order), dense(x, view.order), low_flat, high_flat, dense(y, view.order),
        thread_pool_size(threads),
    )  # fmt: skip
    return give(y, out)


def learned_range_grad(
    grad: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    spec: QuantSpec,
    *,
    out: NDArray[Any] | None = None,
    threads: int = 1,
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Compute the gradient of a learned range to `x`, and the sums that make those to its ends.

    It equals `numerics.learned_range_grad` in the memory order of `x`, which is dense in any order of axes.

    Args:
        grad, x, y: Real dtypes, with the same shape and memory layout.
        low, high: Ends of the grid, float32, granule shape (or one number).
        spec: Granularity of `low` and `high`; without blocks.
        out, threads: As for `fake_quantize`, like `grad`, which it may be.
    Returns:
        Shape and dtype of `grad`, `out` when it is given; float64 [3, granule shape].
    Raises:
        QuantValueError: Shapes do not fit, or `out` is not like `grad`.
    """
    grad, x, y = real_array(grad), real_array(x), real_array(y)
    bounds = np.asarray(low, np.float32), np.asarray(high, np.float32)
    shape = granule_shape(x.shape, spec)
    view = plan(x, spec, shared=prod(shape) == 1)
    if grad.dtype == np.float64 or view.spread or not grad.shape == x.shape == y.shape or x.size == 0:
        to_x, sums = numerics.learned_range_grad(grad, x, y, *bounds, spec)
        return give(to_x, out), sums
    to_x, use = target(out, grad, view.order, grad), kernels_in_use()
    places = view.params(np.arange(prod(shape)).reshape(shape))  # the position of each granule of the layout
    low_flat, high_flat = (view.params(b) for b in bounds)
    sums = np.empty((len(places), 3))
    _native.learned_range_grad(
        use["fake_quantize_grad"], use["convert"], [DTYPE_NAMES[array.dtype] for array in (grad, x, y)],
        view.layout, dense(grad, view.order), dense(x, view.order), dense(y, view.order), low_flat, high_flat,
        dense(to_x, view.order), sums, thread_pool_size(threads),
    )  # fmt: skip
    by_granule = np.empty((3, len(places)))
    by_granule[:, places] = sums.T
    return give(to_x, out), by_granule.reshape(3, *shape)


def quantize(
    x: ArrayLike, scale: ArrayLike, zero_point: ArrayLike, spec: QuantSpec, *, threads: int = 1
) -> NDArray[Any]:
    """Compute ``q = clamp(rne(x / scale) + zero_point, qmin, qmax)``, narrow; a NaN gives qmin.

    Arguments as for `fake_quantize`.

    Returns:
        Shape of `x`; int8 or uint8 for integer grids of at most 8 bits, else the format's storage dtype.
    Raises:
        QuantValueError: `scale` is not positive, or shapes do not fit.
    """
    x = real_array(x)
    grid = _grid(x, scale, zero_point, spec) if spec.format.bits <= 8 else None
    if grid is None:
        real = numerics.to_float32(x)
        codes = numerics.quantize(np.where(np.isnan(real), -np.inf, real), scale, zero_point, spec)
        return codes.astype(_byte(spec)) if _fits_byte(spec) else numerics.store(codes, spec)
    view, scales, low, high = grid
    q, use = empty_like(x, view.order, _byte(spec)), kernels_in_use()
    _native.quantize(
        use["quantize"], use["convert"], DTYPE_NAMES[x.dtype], view.layout, dense(x, view.order),
        scales, low, high, int(spec.qmin), spec.format.signed, dense(q, view.order),
        thread_pool_size(threads),
    )  # fmt: skip
    return q


def dequantize(
    q: ArrayLike, scale: ArrayLike, zero_point: ArrayLike, spec: QuantSpec, *, threads: int = 1
) -> Floats:
    """Compute ``x = (q - zero_point) * scale`` in float32. As `numerics.dequantize`.

    Args:
        q: Codes of any shape; int8 and uint8 are taken natively.
        scale, zero_point, spec, threads: As for `fake_quantize`.
    Returns:
        float32, shape of `q`.
    Raises:
        QuantValueError: `scale` is not positive, or shapes do not fit.
    """
    q = np.asarray(q)
    native = q.dtype in (np.int8, np.uint8) and (q.dtype == np.int8) == spec.format.signed
    grid = _grid(q, scale, zero_point, spec) if native else None
    if grid is None:
        return numerics.dequantize(q, scale, zero_point, spec)
    view, scales, low, _ = grid
    y = empty_like(q, view.order, np.float32)
    _native.dequantize(
        kernels_in_use()["quantize"], view.layout, dense(q, view.order), scales, low, int(spec.qmin),
        spec.format.signed, dense(y, view.order), thread_pool_size(threads),
    )  # fmt: skip
    return y


def _grid(
    x: NDArray[Any], scale: ArrayLike, zero_point: ArrayLike, spec: QuantSpec
) -> tuple[ParameterLayout, Floats, Floats, Floats] | None:
    """Return layout and flat scale, low, high; None for cases that numerics computes, or refuses."""
    scale, zero_point = np.asarray(scale), np.asarray(zero_point)
    if spec.format.is_float or x.size == 0 or scale.size == 0 or zero_point.size == 0:
        return None
    if scale.size == 1 and zero_point.size == 1:
        return _shared_grid(x, scale.item(), zero_point.item(), spec)
    in_range = (
        zero_point.dtype.kind in "iu" and zero_point.min() >= spec.qmin and zero_point.max() <= spec.qmax
    )
    zero_point = zero_point.astype(np.int32) if in_range else code_zero_point(zero_point, spec)
    scale = positive_scale(scale)
    view = plan(x, spec, shared=False)
    low = (np.int32(spec.qmin) - zero_point).astype(np.float32)
    high = (np.int32(spec.qmax) - zero_point).astype(np.float32)
    return view, view.params(scale), view.params(low), view.params(high)


def _shared_grid(
    x: NDArray[Any], scale: float, zero_point: int, spec: QuantSpec
) -> tuple[ParameterLayout, Floats, Floats, Floats] | None:
    """Return `_grid` for one scale, in Python numbers: NumPy calls take longer than a small tensor."""
    if not spec.qmin <= zero_point <= spec.qmax or zero_point != int(zero_point):
        return None
    with np.errstate(over="ignore"):
        values = np.array((scale, spec.qmin - zero_point, spec.qmax - zero_point), np.float32)
    if not 0 < values[0] < np.inf:
        return None
    return plan(x, spec, shared=True), values[0:1], values[1:2], values[2:3]


def _fits_byte(spec: QuantSpec) -> bool:
    return spec.format.bits <= 8 and not spec.format.is_float


def _byte(spec: QuantSpec) -> type[np.int8] | type[np.uint8]:
    return np.int8 if spec.format.signed else np.uint8
