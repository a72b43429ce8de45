"""A dense tensor as its memory has it: [outer, granules, inner], whatever its axes are called."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

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
