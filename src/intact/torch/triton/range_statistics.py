"""Triton kernels for calibration: both ends of a tensor's range in one read, and counts in bins."""

# Annotations are values here, that Triton reads: no `from __future__ import annotations`.
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from intact.calib import BINS
from intact.torch import fake_quantize_formula as formula
from intact.torch.triton.elementwise import layout_of
from intact.torch.triton.inline_formula import OPTIONS, power_of_two

BLOCK = 4096
COPIES = 256
"""Histograms that programs share out between them: adding to one address waits for the addition before."""


@triton.jit
def range_kernel(x_ptr, low_ptr, high_ptr, size, parts, granules, inner, BLOCK: tl.constexpr):
    """Compute the ends of one part of one granule: of its `size` values, `inner` lie together."""
    granule, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    at = part * BLOCK + tl.arange(0, BLOCK)
    offset = (at // inner * granules + granule) * inner + at % inner
    first = tl.load(x_ptr + granule * inner)  # stands for what is beyond the end
    x = tl.load(x_ptr + offset, mask=at < size, other=first).to(tl.float32)
    lost = tl.max((x != x).to(tl.int32), 0) > 0
    tl.store(low_ptr + tl.program_id(0), tl.where(lost, float("nan"), tl.min(x, 0)))
    tl.store(high_ptr + tl.program_id(0), tl.where(lost, float("nan"), tl.max(x, 0)))


@triton.jit
def finite_range_kernel(x_ptr, low_ptr, high_ptr, nonfinite_ptr, size, parts, BLOCK: tl.constexpr):
    """Compute the ends of the finite values in one block of one row, and count the others."""
    row, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    at = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * size + at, mask=at < size, other=0.0).to(tl.float32)
    finite = tl.abs(x) < float("inf")  # false for NaN
    counted = finite & (at < size)
    tl.store(low_ptr + tl.program_id(0), tl.min(tl.where(counted, x, float("inf")), 0))
    tl.store(high_ptr + tl.program_id(0), tl.max(tl.where(counted, x, -float("inf")), 0))
    tl.store(nonfinite_ptr + tl.program_id(0), tl.sum(tl.where(finite, 0, 1), 0))


@triton.jit
def count_kernel(
    x_ptr, exponent_ptr, bins_ptr, size, parts, copies, BINS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Add `on_device.count_pow2` of one block of one row to one of the row's copies of its bins."""
    row, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    width = power_of_two(127 - tl.load(exponent_ptr + row))
    at = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * size + at, mask=at < size, other=float("nan")).to(tl.float32)
    magnitude = tl.abs(x)
    bins_ptr += (row * copies + part % copies).to(tl.int64) * (2 * BINS)
    # Zeros, half of what ReLU gives, are summed: all would be added to one address.
    zeros = tl.sum(tl.where(magnitude == 0.0, 1, 0), 0)
    tl.atomic_add(bins_ptr + BINS, zeros.to(bins_ptr.dtype.element_ty), sem="relaxed")
    counted = (magnitude > 0.0) & (magnitude < float("inf"))  # false for NaN
    index = tl.where(counted, magnitude * width, 0.0).to(tl.int32) + tl.where(x < 0, 0, BINS)
    ones = tl.full([BLOCK], 1, bins_ptr.dtype.element_ty)
    tl.atomic_add(bins_ptr + index, ones, mask=counted, sem="relaxed")


@triton.jit
def count_fixed_kernel(
    x_ptr, width_ptr, last_ptr, held_ptr, counts_ptr, size, copies,
    HELD: tl.constexpr, SKIP_ZEROS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add `on_device.count_fixed` of one block: the first HELD bins to one of their copies, others in
    place."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < size, other=0.0).to(tl.float32)
    width, last = tl.zeros_like(x) + tl.load(width_ptr), tl.load(last_ptr).to(tl.float32)
    steps = tl.div_rn(tl.abs(x), width)
    index = tl.minimum(tl.where(steps != steps, 0.0, steps), last).to(tl.int32)  # rounds down
    counted = at < size
    if SKIP_ZEROS:
        counted = counted & (x != 0.0) & (width < float("inf"))
    held_ptr += (tl.program_id(0) % copies).to(tl.int64) * HELD
    first = tl.sum(tl.where(counted & (index == 0), 1, 0), 0)  # zeros: all would be added to one address
    tl.atomic_add(held_ptr, first, sem="relaxed")
    ones = tl.full([BLOCK], 1, tl.int32)
    tl.atomic_add(held_ptr + index, ones, mask=counted & (index > 0) & (index < HELD), sem="relaxed")
    tl.atomic_add(counts_ptr + index, ones.to(tl.int64), mask=counted & (index >= HELD), sem="relaxed")


def min_max(x: Tensor, kept_axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Compute `formula.min_max`, in one read of `x` where its granules lie as the kernel needs them."""
    dense = formula.with_layout_of(x, torch.empty_like(x))
    layout = layout_of(dense.shape, dense.stride(), kept_axes)
    if layout is None or (layout.granules > 1 and layout.inner < 32):  # neighbours would be read far apart
        return formula.min_max(x, kept_axes)
    size = x.numel() // layout.granules
    parts = triton.cdiv(size, BLOCK)
    ends = torch.empty(2, layout.granules, parts, dtype=torch.float32, device=x.device)
    with torch.cuda.device_of(x):
        # One axis of programs: the others end at 65535.
        range_kernel[(layout.granules * parts,)](dense, *ends, size, parts, *layout, BLOCK=BLOCK, **OPTIONS)
    shape = [x.shape[a] for a in kept_axes]
    return ends[0].amin(1).reshape(shape) + 0.0, ends[1].amax(1).reshape(shape) + 0.0


def finite_range(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the ends of each row's finite values (float32), and count the others (int64), in one read.

    A row without finite values has the ends (inf, -inf).
    """
    rows, (count, size) = rows.contiguous(), rows.shape
    parts = triton.cdiv(size, BLOCK)
    ends = torch.empty(2, count, parts, dtype=torch.float32, device=rows.device)
    nonfinite = torch.empty(count, parts, dtype=torch.int32, device=rows.device)
    with torch.cuda.device_of(rows):
        finite_range_kernel[(count * parts,)](rows, *ends, nonfinite, size, parts, BLOCK=BLOCK, **OPTIONS)
    return ends[0].amin(1), ends[1].amax(1), nonfinite.sum(1)


def count_pow2(rows: Tensor, exponent: Tensor, bins: Tensor) -> None:
    """Run `intact.torch.calib.on_device.count_pow2` on any float dtype, without an index for every value."""
    rows, (count, size) = rows.contiguous(), rows.shape
    parts = triton.cdiv(size, BLOCK)
    copies = min(max(COPIES // count, 1), parts)
    # Below 2**31 values, which `fits` holds callers to, 32 bits count.
    partial_counts = torch.zeros(count, copies, *bins.shape[1:], dtype=torch.int32, device=rows.device)
    with torch.cuda.device_of(rows):
        count_kernel[(count * parts,)](
            rows, exponent, partial_counts, size, parts, copies, BINS=BINS, BLOCK=BLOCK, **OPTIONS
        )
    bins += partial_counts.sum(1)


def count_fixed(x: Tensor, width: Tensor, last: Tensor, counts: Tensor, skip_zeros: bool) -> None:
    """Run `intact.torch.calib.on_device.count_fixed`.

    `skip_zeros`: without zeros, and none if `width` is inf.
    """
    x = formula.with_layout_of(x.detach(), torch.empty_like(x))
    blocks, held_bins = triton.cdiv(x.numel(), BLOCK), min(2 * BINS, len(counts))
    partial_counts = torch.zeros(min(COPIES, blocks), held_bins, dtype=torch.int32, device=x.device)
    with torch.cuda.device_of(x):
        count_fixed_kernel[(blocks,)](
            x, width, last, partial_counts, counts, x.numel(), len(partial_counts),
            HELD=held_bins, SKIP_ZEROS=skip_zeros, BLOCK=BLOCK, **OPTIONS,
        )  # fmt: skip
    counts[:held_bins] += partial_counts.sum(0)
