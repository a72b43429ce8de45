"""Fake-quantization and its gradient, each in one kernel."""

# Annotations are values here, that Triton reads: no `from __future__ import annotations`.
from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from intact.spec import QuantSpec
from intact.torch import composed
from intact.torch.triton.formula import OPTIONS, codes, scale_and_zero_point
from intact.torch.triton.layout import GranuleLayout, layout_of

BLOCK = 1024


@triton.jit
def forward_kernel(
    x_ptr, high_ptr, low_ptr, out_ptr, size, granules, inner,
    QMIN: tl.constexpr, QMAX: tl.constexpr, SYMMETRIC: tl.constexpr, MANTISSA: tl.constexpr,
    LOWEST: tl.constexpr, ONE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`composed.fake_quantize`; ONE says that there is one range."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    granule = tl.program_id(0) * 0 if ONE else at // inner % granules
    high = tl.load(high_ptr + granule)
    low = high if SYMMETRIC else tl.load(low_ptr + granule)
    scale, zero_point = scale_and_zero_point(high, low, QMIN, QMAX, SYMMETRIC)
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    y = codes(x, scale, zero_point, QMIN, QMAX, MANTISSA, LOWEST) * scale
    y = tl.where(x != x, x, y)
    tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def backward_kernel(
    grad_ptr, x_ptr, high_ptr, low_ptr, out_ptr, size, granules, inner,
    QMIN: tl.constexpr, QMAX: tl.constexpr, SYMMETRIC: tl.constexpr, ONE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`composed.fake_quantize_backward`."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    granule = tl.program_id(0) * 0 if ONE else at // inner % granules
    high = tl.load(high_ptr + granule)
    if SYMMETRIC:
        least, most = -high, high
    else:
        scale, zero_point = scale_and_zero_point(high, tl.load(low_ptr + granule), QMIN, QMAX, SYMMETRIC)
        least, most = (QMIN - zero_point) * scale, (QMAX - zero_point) * scale
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + at, mask=inside, other=0.0)
    tl.store(out_ptr + at, tl.where((x >= least) & (x <= most), grad, 0.0), mask=inside)


def fake_quantize(
    x: Tensor, amax: Tensor, amin: Tensor | None, format: str, axis: Sequence[int] | None, narrow: bool
) -> Tensor:
    """`composed.fake_quantize`, by one kernel where the granules lie as it needs them."""
    spec = composed.spec_of(x.shape, amax.numel(), amin is None, format, axis, narrow)
    out = torch.empty_like(x)
    found = layout_of(out, spec.axes)
    if found is None:
        return composed.fake_quantize(x, amax, amin, format, axis, narrow)
    tensors = composed.laid_out_like(x, out), *_ends(x, amax, amin, spec), out
    mantissa, lowest = composed.float_layout(spec.format) if spec.format.is_float else (-1, 0)
    _launch(forward_kernel, tensors, found, spec, MANTISSA=mantissa, LOWEST=lowest)
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
    """`composed.fake_quantize_backward`, by one kernel where the granules lie as it needs them."""
    spec = composed.spec_of(x.shape, amax.numel(), amin is None, format, axis, narrow)
    out = torch.empty_like(x, dtype=grad.dtype)
    found = layout_of(out, spec.axes)
    if found is None:
        return composed.fake_quantize_backward(grad, x, amax, amin, format, axis, narrow)
    read = composed.laid_out_like(grad, out), composed.laid_out_like(x, out)
    _launch(backward_kernel, (*read, *_ends(x, amax, amin, spec), out), found, spec)
    return out


def _ends(x: Tensor, amax: Tensor, amin: Tensor | None, spec: QuantSpec) -> tuple[Tensor, Tensor]:
    high = composed.range_on(x, amax, spec).contiguous()
    return high, high if amin is None else composed.range_on(x, amin, spec).contiguous()


def _launch(
    kernel: Any, tensors: Sequence[Tensor], found: GranuleLayout, spec: QuantSpec, **constants: int
) -> None:
    size = tensors[0].numel()
    with torch.cuda.device_of(tensors[0]):
        kernel[(triton.cdiv(size, BLOCK),)](
            *tensors, size, *found, QMIN=float(spec.qmin), QMAX=float(spec.qmax), SYMMETRIC=spec.symmetric,
            ONE=found.granules == 1, BLOCK=BLOCK, **OPTIONS, **constants,
        )  # fmt: skip
