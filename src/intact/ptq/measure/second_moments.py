"""Second moments of what layers read, E[x x^T]: weights are rounded with regard to each other by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from intact import kernels

_BLOCK = 128  # columns rounded with regard to each other: work and memory stay linear in the weights
_RIDGE = 1e-5  # of each column's sum of squares: what float32 sums cannot tell from the mean


@dataclass
class Moments:
    """Sums over inputs of one layer, by block of columns.

    Attributes:
        rows: How many inputs.
        sums: Of each column, float64 [groups, b] for each block.
        products: Of any two columns, float64 [groups, b, b] for each block.
    """

    rows: int
    sums: list[NDArray[np.float64]]
    products: list[NDArray[np.float64]]

    @classmethod
    def of(cls, columns: NDArray[np.float32]) -> Moments:
        """Those of `columns`, float32 [groups, rows, columns]."""
        both = [kernels.moments(columns, block) for block in blocks_of(columns.shape[2])]
        return cls(columns.shape[1], [sums for sums, _ in both], [products for _, products in both])

    @classmethod
    def joined(cls, groups: Sequence[Moments]) -> Moments:
        """Those of some groups after the other."""
        sums, products = (
            [np.concatenate(blocks) for blocks in zip(*both, strict=True)]
            for both in ([one.sums for one in groups], [one.products for one in groups])
        )
        return cls(groups[0].rows, sums, products)

    def __add__(self, other: Moments) -> Moments:
        sums, products = (
            [a + b for a, b in zip(mine, others, strict=True)]
            for mine, others in ((self.sums, other.sums), (self.products, other.products))
        )
        return Moments(self.rows + other.rows, sums, products)

    def hessians(self, centred: bool) -> list[NDArray[np.float64]]:
        """E[x x^T] of each block; `centred`: the covariance, and what keeps it positive in float32 sums."""
        found = []
        for total, product in zip(self.sums, self.products, strict=True):
            mean = total / self.rows * centred
            ridge = _RIDGE * np.einsum("gbb->gb", product)[:, :, None] * np.eye(product.shape[1])
            found.append((product + ridge) / self.rows - mean[:, :, None] * mean[:, None, :])
        return found


def blocks_of(columns: int) -> list[slice]:
    """Columns that are rounded with regard to each other, block by block."""
    return [slice(first, first + _BLOCK) for first in range(0, columns, _BLOCK)]
