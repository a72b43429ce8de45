"""Sizes as far as they are known, numbers in vectors, and arithmetic with both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from intact.engine.steps import Dim
from intact.engine.steps.base.dims import expression
from intact.graph import Value

Size = Dim | None
"""A size, its name, or nothing where nobody knows it before a run."""
Sizes = list[Size]
Numbers = NDArray[np.object_]
"""Elements of an integer tensor, a `Size` each."""


class SizeWalk(Protocol):
    """A way through a graph, as far as it has come."""

    def constants(self, value: Value | None) -> NDArray[Any] | None:
        """Return a constant; None for other values."""

    def content(self, value: Value | None) -> Sizes | None:
        """Return the elements of an integer vector or scalar; None where they are not known."""

    def shape(self, value: Value | None) -> Sizes | None:
        """Return the sizes of a tensor; None where its rank is not known."""


def compute_size(function: str, a: Size, b: Size) -> Size:
    """Return an `expression` of sizes, or None where one is not known."""
    return None if a is None or b is None else expression(function, a, b)


def multiply_sizes(sizes: Iterable[Size]) -> Size:
    """Return the product of sizes, numbers last; None where one is not known."""
    product: Size = 1
    for size in sorted(sizes, key=lambda size: isinstance(size, int)):
        product = compute_size("*", product, size)
    return product


def pair_sizes(a: Sizes, b: Sizes) -> list[tuple[Size, Size]] | None:
    """Pair the numbers of two vectors; a vector of one number is broadcast."""
    if not a or not b or (len(a) != len(b) and 1 not in (len(a), len(b))):
        return None
    count = max(len(a), len(b))
    return list(zip(a * count if len(a) == 1 else a, b * count if len(b) == 1 else b, strict=False))
