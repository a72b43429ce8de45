"""A dense tensor as its memory has it: [outer, granules, inner], whatever its axes are called."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

LARGEST = 2**31 - 2**16  # elements that 32-bit offsets reach, with room for the last block


def fits(x: Tensor) -> bool:
    """Whether kernels can reach all of `x`, which is not empty."""
    return 0 < x.numel() < LARGEST


class GranuleLayout(NamedTuple):
    """The element at offset i belongs to granule ``i // inner % granules``."""

    granules: int
    inner: int


def layout_of(x: Tensor, axes: Sequence[int]) -> GranuleLayout | None:
    """How the granules of kept `axes` (from the front) lie in a dense `x`.

    None where kept axes are not neighbours in memory, in ascending order, or `x` is empty or too large.
    """
    strides = x.stride()
    order = [d for d in sorted(range(x.dim()), key=lambda d: -strides[d]) if x.shape[d] > 1]
    kept = [d for d in order if d in axes]
    first = order.index(kept[0]) if kept else 0
    if order[first : first + len(kept)] != kept or kept != sorted(kept) or not fits(x):
        return None
    inner = math.prod(x.shape[d] for d in order[first + len(kept) :])
    return GranuleLayout(math.prod(x.shape[d] for d in kept), inner)
