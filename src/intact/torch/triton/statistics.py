"""What calibration asks of every tensor: both ends of its range in one read, and counts in bins."""

# Annotations are values here, that Triton reads: no `from __future__ import annotations`.
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from intact.calib.histogram import BINS
from intact.torch import composed
from intact.torch.triton.formula import NAN, OPTIONS, power_of_two
from intact.torch.triton.layout import layout_of

BLOCK = 4096
TURNS = 16  # blocks that one program counts before it adds its counts to those of all


@triton.jit
def range_kernel(x_ptr, low_ptr, high_ptr, size, parts, granules, inner, BLOCK: tl.constexpr):
    """The ends of one of the parts of one granule: of its `size` values, `inner` lie together."""
    granule, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    at = part * BLOCK + tl.arange(0, BLOCK)
    offset = (at // inner * granules + granule) * inner + at % inner
    first = tl.load(x_ptr + granule * inner)  # stands for what is beyond the end
    x = tl.load(x_ptr + offset, mask=at < size, other=first).to(tl.float32)
    lost = tl.max((x != x).to(tl.int32), 0) > 0
    tl.store(low_ptr + tl.program_id(0), tl.where(lost, NAN, tl.min(x, 0)))
    tl.store(high_ptr + tl.program_id(0), tl.where(lost, NAN, tl.max(x, 0)))


@triton.jit
def count_kernel(
    x_ptr, exponent_ptr, bins_ptr, size, parts,
    TURNS: tl.constexpr, BINS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`on_device.count_pow2` of TURNS blocks of one row."""
    row, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    width = power_of_two(127 - tl.load(exponent_ptr + row))
    counts = tl.zeros([2 * BINS], tl.int32)
    for turn in range(TURNS):
        at = (part * TURNS + turn) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * size + at, mask=at < size, other=0.0).to(tl.float32)
        magnitude = tl.abs(x)
        counted = (at < size) & (magnitude < float("inf"))
        bin = tl.where(counted, magnitude * width, 0.0).to(tl.int32) + tl.where(x < 0, 0, BINS)
        counts += tl.histogram(bin, 2 * BINS, mask=counted)
    index = tl.arange(0, 2 * BINS)
    tl.atomic_add(bins_ptr + row * 2 * BINS + index, counts.to(tl.int64), mask=counts > 0)


def min_max(x: Tensor, kept: Sequence[int]) -> tuple[Tensor, Tensor]:
    """`composed.min_max`, in one read of `x` where its granules lie as the kernel needs them."""
    dense = composed.laid_out_like(x, torch.empty_like(x))
    found = layout_of(dense, kept)
    if found is None or (found.granules > 1 and found.inner < 32):  # neighbours would be read far apart
        return composed.min_max(x, kept)
    size = x.numel() // found.granules
    parts = triton.cdiv(size, BLOCK)
    ends = torch.empty(2, found.granules, parts, dtype=torch.float32, device=x.device)
    with torch.cuda.device_of(x):
        # One axis of programs: the others end at 65535.
        range_kernel[(found.granules * parts,)](dense, *ends, size, parts, *found, BLOCK=BLOCK, **OPTIONS)
    shape = [x.shape[a] for a in kept]
    return ends[0].amin(1).reshape(shape) + 0.0, ends[1].amax(1).reshape(shape) + 0.0


def count_pow2(rows: Tensor, exponent: Tensor, bins: Tensor) -> None:
    """`intact.torch.calib.on_device.count_pow2`, without an index for every value in memory."""
    rows, (count, size) = rows.contiguous(), rows.shape
    parts = triton.cdiv(size, BLOCK * TURNS)
    with torch.cuda.device_of(rows):
        count_kernel[(count * parts,)](
            rows, exponent, bins, size, parts, TURNS=TURNS, BINS=BINS, BLOCK=BLOCK, **OPTIONS
        )
