"""Fake-quantization and its gradient, each in one kernel."""

# Annotations are values here, that Triton reads: no `from __future__ import annotations`.
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from intact.spec import QuantSpec
from intact.torch import fake_quantize_formula as formula
from intact.torch.triton.inline_formula import OPTIONS, codes, scale_and_zero_point

LARGEST = 2**31 - 2**16  # elements that 32-bit offsets reach, with room for the last block


def fits(size: int) -> bool:
    """Return whether kernels can index all of so many elements, and there are some."""
    return 0 < size < LARGEST


class GranuleLayout(NamedTuple):
    """The element at offset i belongs to granule ``i // inner % granules``."""

    granules: int
    inner: int


def layout_of(shape: Sequence[int], strides: Sequence[int], axes: Sequence[int]) -> GranuleLayout | None:
    """Return the layout of the granules of kept `axes` (from the front) in a dense tensor.

    None where kept axes are not neighbours in memory, in ascending order, or it is empty or too large.
    """
    order = [d for d in sorted(range(len(shape)), key=lambda d: -strides[d]) if shape[d] > 1]
    kept_dims = [d for d in order if d in axes]
    first = order.index(kept_dims[0]) if kept_dims else 0
    if (
        order[first : first + len(kept_dims)] != kept_dims
        or kept_dims != sorted(kept_dims)
        or not fits(math.prod(shape))
    ):
        return None
    inner = math.prod(shape[d] for d in order[first + len(kept_dims) :])
    return GranuleLayout(math.prod(shape[d] for d in kept_dims), inner)


BLOCK = 1024


@triton.jit
def granules_of_block(granules, inner, BLOCK: tl.constexpr):
    """Return the granule where a block begins, the next, and which elements lie there; inner >= BLOCK."""
    start = tl.program_id(0) * BLOCK
    row = start // inner
    return row % granules, (row + 1) % granules, start - row * inner + tl.arange(0, BLOCK) >= inner


@triton.jit
def grid_at(
    granule, high_ptr, low_ptr, QMIN: tl.constexpr, QMAX: tl.constexpr, SYMMETRIC: tl.constexpr
):  # fmt: skip
    """Scale and zero point of a granule."""
    high = tl.load(high_ptr + granule)
    low = high if SYMMETRIC else tl.load(low_ptr + granule)
    return scale_and_zero_point(high, low, QMIN, QMAX, SYMMETRIC)


@triton.jit
def bounds_at(
    granule, high_ptr, low_ptr, QMIN: tl.constexpr, QMAX: tl.constexpr, SYMMETRIC: tl.constexpr
):  # fmt: skip
    """Compute `formula.bounds` of a granule."""
    if SYMMETRIC:
        high = tl.load(high_ptr + granule)
        return -high, high
    else:
        scale, zero_point = grid_at(granule, high_ptr, low_ptr, QMIN, QMAX, SYMMETRIC)
        return (QMIN - zero_point) * scale, (QMAX - zero_point) * scale


@triton.jit
def forward_kernel(
    x_ptr, high_ptr, low_ptr, out_ptr, size, granules, inner,
    QMIN: tl.constexpr, QMAX: tl.constexpr, SYMMETRIC: tl.constexpr, MANTISSA: tl.constexpr,
    LOWEST: tl.constexpr, ONE: tl.constexpr, LONG: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Run `formula.fake_quantize`; ONE says that there is one range, LONG that a block meets two at most."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    if LONG:  # scales are divided once a block, and no offset is
        first, second, is_second = granules_of_block(granules, inner, BLOCK)
        scale, zero_point = grid_at(first, high_ptr, low_ptr, QMIN, QMAX, SYMMETRIC)
        other_scale, other_zero_point = grid_at(second, high_ptr, low_ptr, QMIN, QMAX, SYMMETRIC)
        scale = tl.where(is_second, other_scale, scale)
        zero_point = tl.where(is_second, other_zero_point, zero_point)
    else:
        granule = tl.program_id(0) * 0 if ONE else at // inner % granules
        scale, zero_point = grid_at(granule, high_ptr, low_ptr, QMIN, QMAX, SYMMETRIC)
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    y = codes(x, scale, zero_point, QMIN, QMAX, MANTISSA, LOWEST) * scale
    y = tl.where(x != x, x, y)
    tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def backward_kernel(
    grad_ptr, x_ptr, high_ptr, low_ptr, out_ptr, size, granules, inner,
    QMIN: tl.constexpr, QMAX: tl.constexpr, SYMMETRIC: tl.constexpr, ONE: tl.constexpr, LONG: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Run `formula.fake_quantize_backward`; ONE and LONG as for `forward_kernel`."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    if LONG:
        first, second, is_second = granules_of_block(granules, inner, BLOCK)
        least, most = bounds_at(first, high_ptr, low_ptr, QMIN, QMAX, SYMMETRIC)
        other_least, other_most = bounds_at(second, high_ptr, low_ptr, QMIN, QMAX, SYMMETRIC)
        least, most = tl.where(is_second, other_least, least), tl.where(is_second, other_most, most)
    else:
        granule = tl.program_id(0) * 0 if ONE else at // inner % granules
        least, most = bounds_at(granule, high_ptr, low_ptr, QMIN, QMAX, SYMMETRIC)
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + at, mask=inside, other=0.0)
    tl.store(out_ptr + at, tl.where((x >= least) & (x <= most), grad, 0.0), mask=inside)


class KernelCall(NamedTuple):
    """Arguments of a kernel call besides its tensors; shared by a quantizer's calls of one shape."""

    spec: QuantSpec
    layout: GranuleLayout | None
    constants: dict[str, Any]
    float_layout: dict[str, int]


def fake_quantize(
    x: Tensor, amax: Tensor, amin: Tensor | None, format: str, axis: Sequence[int] | None, narrow: bool
) -> Tensor:
    """Run `formula.fake_quantize`, by one kernel where the granules lie as it needs them."""
    out = torch.empty_like(x)
    call = _call(out, amax, amin, format, axis, narrow)
    if call.layout is None:
        return formula.fake_quantize(x, amax, amin, format, axis, narrow)
    tensors = formula.with_layout_of(x, out), *_ends(x, amax, amin, call.spec), out
    _launch(forward_kernel, tensors, call, **call.float_layout)
    return out


def fake_quantize_backward(
    grad: Tensor,
    x: Tensor,
    amax: Tensor,
    amin: Tensor | None,
    format: str,
    axis: Sequence[int] | None,
    narrow: bool,
) -> Tensor:
    """Run `formula.fake_quantize_backward`, by one kernel where the granules lie as it needs them."""
    out = torch.empty_like(x, dtype=grad.dtype)
    call = _call(out, amax, amin, format, axis, narrow)
    if call.layout is None:
        return formula.fake_quantize_backward(grad, x, amax, amin, format, axis, narrow)
    read = formula.with_layout_of(grad, out), formula.with_layout_of(x, out)
    _launch(backward_kernel, (*read, *_ends(x, amax, amin, call.spec), out), call)
    return out


def _call(
    out: Tensor, amax: Tensor, amin: Tensor | None, format: str, axis: Sequence[int] | None, narrow: bool
) -> KernelCall:
    grid = amax.numel(), amin is None, format, tuple(axis or ()), narrow
    return _cached_call(tuple(out.shape), out.stride(), *grid)


@lru_cache(4096)  # without it, half of the host's time for a call
def _cached_call(shape: tuple[int, ...], strides: tuple[int, ...], *grid: Any) -> KernelCall:
    spec = formula.spec_of(shape, *grid)
    layout = layout_of(shape, strides, spec.axes)
    constants = {"QMIN": float(spec.qmin), "QMAX": float(spec.qmax), "SYMMETRIC": spec.symmetric}
    if layout is not None:
        constants |= {"ONE": layout.granules == 1, "LONG": layout.granules > 1 and layout.inner >= BLOCK}
    mantissa, lowest = formula.float_layout(spec.format) if spec.format.is_float else (-1, 0)
    return KernelCall(spec, layout, constants, {"MANTISSA": mantissa, "LOWEST": lowest})


def _ends(x: Tensor, amax: Tensor, amin: Tensor | None, spec: QuantSpec) -> tuple[Tensor, Tensor]:
    high = formula.range_on(x, amax, spec).contiguous()
    return high, high if amin is None else formula.range_on(x, amin, spec).contiguous()


def _launch(kernel: Any, tensors: Sequence[Tensor], call: KernelCall, **constants: int) -> None:
    size = tensors[0].numel()
    assert call.layout is not None
    with torch.cuda.device_of(tensors[0]):
        kernel[(triton.cdiv(size, BLOCK),)](
            *tensors, size, *call.layout, BLOCK=BLOCK, **OPTIONS, **call.constants, **constants
        )
