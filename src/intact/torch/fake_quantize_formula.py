"""Compute fake-quantization by torch operators, for devices without kernels and for compilers, which fuse
them.

The bits are those of `intact.numerics`. Nothing reads a value, so nothing waits for a device. Therefore a
range that numerics refuses (NaN, infinite, negative, ends swapped) cannot raise. Its scale is NaN, and so is
every value that it quantizes.

`work` is the dtype in which quotients and products are computed before they are rounded to float32. Both
dtypes give one result: 53 bits are enough that rounding the exact quotient or product of two 24-bit numbers
twice equals rounding it once. float64 is for compilers of GPU code. These divide float32 approximately, and
fuse a product with the sum behind it, but convert types as written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import ml_dtypes
import torch
from torch import Tensor

from intact import numerics
from intact.errors import QuantValueError
from intact.spec import Format, QuantSpec

Shape = tuple[int, ...]
TINY = float(numerics.ZERO_RANGE)


def spec_of(
    shape: Sequence[int], ranges: int, symmetric: bool, format: str, axis: Sequence[int] | None, narrow: bool
) -> QuantSpec:
    """Return the grid of one call of the operator, for a tensor of `shape` with so many ranges."""
    plain = QuantSpec(Format.parse(format), axis=tuple(axis or ()), symmetric=symmetric, narrow=narrow)
    return plain.with_(axis=() if ranges == 1 else numerics.normalize_axes(tuple(shape), plain))


def granules(shape: Sequence[int], spec: QuantSpec) -> tuple[Shape, Shape]:
    """Return the granule shape of `spec` in a tensor of `shape`, without and with the shared axes,
    of size 1.
    """
    axes = spec.axes
    return tuple(shape[a] for a in axes), tuple(n if a in axes else 1 for a, n in enumerate(shape))


def check_fits(shape: Shape, granule: Shape, keepdims: Shape) -> None:
    """Raise unless there is one range per granule.

    Raises:
        QuantValueError: `shape`, that of the ranges, does not fit.
    """
    size = math.prod(shape)
    fits = size == 1 or shape in (granule, keepdims[-len(shape) :])
    if size != math.prod(granule) or not fits:
        raise QuantValueError(
            "amax",
            f"shape {shape}",
            f"one number, or shape {granule} or {keepdims}",
            "calibrate with the axis that the tensor is quantized with",
        )


def range_on(x: Tensor, end: Tensor, spec: QuantSpec) -> Tensor:
    """Return one end of the range as float32 on the device of `x`, shaped to broadcast to it."""
    granule, keepdims = granules(x.shape, spec)
    check_fits(tuple(end.shape), granule, keepdims)
    return end.detach().to(x.device, torch.float32, non_blocking=True).reshape(keepdims)


def scale_and_zero_point(
    high: Tensor, low: Tensor | None, spec: QuantSpec, work: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Return `numerics.scale_from_amax`, or `affine_from_range` where there is a low end; both float32.

    Args:
        high, low: Ends of each range, float32, as `range_on` gives them.
        spec: The grid.
        work: See this module's description.
    Returns:
        Scale and zero point, shape of `high`; a scale of NaN where numerics would refuse the range.
    """
    if low is None:
        scale = torch.where(high <= TINY, 1.0, _quotient(high, torch.full_like(high, spec.qmax), work))
        return torch.where((high >= 0) & (high < math.inf), scale, math.nan), torch.zeros_like(scale)
    swapped = low > high
    low, high = low.clamp(max=0), high.clamp(min=0)
    width = high - low
    empty = width <= TINY
    scale = torch.where(empty, 1.0, _quotient(width, torch.full_like(width, spec.qmax - spec.qmin), work))
    scale = torch.where(torch.isfinite(width) & ~swapped, scale, math.nan)
    zero_point = (spec.qmax - torch.round(_quotient(high, scale, work))).clamp(spec.qmin, spec.qmax)
    return scale, torch.where(empty, 0.0, zero_point)


def inverse_scale(amax: Tensor, spec: QuantSpec) -> Tensor:
    """Return `numerics.inverse_scale_view`: ``qmax / amax``, float32, and 1 where the range is zero."""
    amax = amax.detach().to(torch.float32)
    return torch.where(amax <= TINY, 1.0, torch.full_like(amax, spec.qmax) / amax)


def codes(
    x: Tensor, scale: Tensor, zero_point: Tensor, spec: QuantSpec, work: torch.dtype = torch.float32
) -> Tensor:
    """Return codes less their zero point, float32; NaN where `x` or `scale` is."""
    steps = _quotient(x.to(torch.float32), scale, work)
    if spec.format.is_float:
        return round_to_format(steps, spec.format)
    low, high = spec.qmin - zero_point, spec.qmax - zero_point
    clamped = torch.minimum(torch.maximum(torch.round(steps), low), high)
    return torch.where(clamped == 0, 0.0, clamped)  # an integer code has no -0.0


def round_to_format(steps: Tensor, format: Format) -> Tensor:
    """Return `numerics.round_to_format` of float32 numbers, except that NaN stays NaN in every format.

    The result is a multiple of the unit in the last place of the format at the number's exponent. Units are
    powers of two, so that only the rounding rounds.
    """
    mantissa, lowest = float_layout(format)
    clamped = steps.clamp(format.qmin, format.qmax)
    exponent = (clamped.view(torch.int32) >> 23 & 0xFF).clamp(min=lowest) - mantissa
    return torch.round(clamped * power_of_two(254 - exponent)) * power_of_two(exponent)


def float_layout(format: Format) -> tuple[int, int]:
    """Return the mantissa bits of a float format, and the exponent field in float32 of its smallest normal
    number.
    """
    info = ml_dtypes.finfo(format.storage_dtype)  # type: ignore[no-untyped-call]
    return int(info.nmant), 127 + int(info.minexp)


def power_of_two(exponent: Tensor) -> Tensor:
    """Return ``2**(exponent - 127)``, float32, from int32 in [1, 254]: the exponent as float32 stores it."""
    return (exponent.to(torch.int32) << 23).view(torch.float32)


def fake_quantize(
    x: Tensor,
    amax: Tensor,
    amin: Tensor | None,
    format: str,
    axis: Sequence[int] | None,
    narrow: bool,
    work: torch.dtype = torch.float32,
) -> Tensor:
    """Compute the operator `intact::fake_quantize`; `numerics.fake_quantize` bit for bit."""
    spec = spec_of(x.shape, amax.numel(), amin is None, format, axis, narrow)
    high, low = range_on(x, amax, spec), None if amin is None else range_on(x, amin, spec)
    scale, zero_point = scale_and_zero_point(high, low, spec, work)
    steps = codes(x, scale, zero_point, spec, work)
    return with_layout_of(
        (steps.to(work) * scale.to(work)).to(torch.float32).to(x.dtype), torch.empty_like(x)
    )


def fake_quantize_backward(
    grad: Tensor,
    x: Tensor,
    amax: Tensor,
    amin: Tensor | None,
    format: str,
    axis: Sequence[int] | None,
    narrow: bool,
    work: torch.dtype = torch.float32,
) -> Tensor:
    """Compute the operator `intact::fake_quantize_backward`; `numerics.fake_quantize_grad` bit for bit."""
    spec = spec_of(x.shape, amax.numel(), amin is None, format, axis, narrow)
    high, low = range_on(x, amax, spec), None if amin is None else range_on(x, amin, spec)
    least, most = bounds(high, low, spec, work)
    x32 = x.to(torch.float32)
    passed = torch.where((x32 >= least) & (x32 <= most), grad, 0)
    return with_layout_of(passed, torch.empty_like(x, dtype=grad.dtype))


def transformable(
    x: Tensor,
    amax: Tensor,
    amin: Tensor | None,
    format: str,
    axis: Sequence[int] | None,
    narrow: bool,
) -> Tensor:
    """Compute `fake_quantize` with its gradient, by operators that `torch.func` can transform in any order.

    An operator of our own would need a rule for each transform, and transforms nest.
    """
    spec = spec_of(x.shape, amax.numel(), amin is None, format, axis, narrow)
    high, low = range_on(x, amax, spec), None if amin is None else range_on(x, amin, spec)
    scale, zero_point = scale_and_zero_point(high, low, spec)
    value = (codes(x.detach(), scale, zero_point, spec) * scale).to(x.dtype)
    least, most = bounds(high, low, spec)
    x32 = x.detach().to(torch.float32)
    passed = torch.where((x32 >= least) & (x32 <= most), x, 0)
    return value + (passed - passed.detach())  # the difference is 0, and carries the gradient


def bounds(
    high: Tensor, low: Tensor | None, spec: QuantSpec, work: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Return the numbers between which the gradient passes: [-amax, amax], or what an asymmetric grid
    reaches.
    """
    if low is None:
        return -high, high
    scale, zero_point = scale_and_zero_point(high, low, spec, work)
    ends = ((spec.qmin - zero_point), (spec.qmax - zero_point))
    least, most = ((end.to(work) * scale.to(work)).to(torch.float32) for end in ends)
    return least, most


def min_max(x: Tensor, kept_axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return `numerics.minmax` of a tensor that is not empty, float32.

    Args:
        x: Any shape and floating dtype.
        kept_axes: Axes that keep a range of their own, from the front.
    """
    x = x.to(torch.float32)
    reduced = [a for a in range(x.dim()) if a not in kept_axes]
    low, high = (x.amin(reduced), x.amax(reduced)) if reduced else (x, x)
    return low + 0.0, high + 0.0


def with_layout_of(x: Tensor, like: Tensor) -> Tensor:
    """Return `x` in the memory order of `like`."""
    return x if x.stride() == like.stride() else torch.empty_like(like, dtype=x.dtype).copy_(x)


def _quotient(a: Tensor, b: Tensor, work: torch.dtype) -> Tensor:
    # By a tensor on the same device: a scalar divisor would become a reciprocal.
    return (a.to(work) / b.to(work)).to(torch.float32)
