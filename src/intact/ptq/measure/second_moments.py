"""Second moments of layer inputs, E[x x^T], by which weights are rounded together."""

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
    """Holds sums over the inputs of one layer, by block of columns.

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
        """Compute the moments of `columns`, float32 [groups, rows, columns]."""
        moments = [kernels.moments(columns, block) for block in blocks_of(columns.shape[2])]
        return cls(columns.shape[1], [sums for sums, _ in moments], [products for _, products in moments])

    @classmethod
    def concatenate(cls, groups: Sequence[Moments]) -> Moments:
        """Concatenate the moments of consecutive groups."""
        sums, products = (
            [np.concatenate(blocks) for blocks in zip(*blocks_of_groups, strict=True)]
            for blocks_of_groups in ([group.sums for group in groups], [group.products for group in groups])
        )
        return cls(groups[0].rows, sums, products)

    def __add__(self, other: Moments) -> Moments:
        sums, products = (
            [a + b for a, b in zip(mine, theirs, strict=True)]
            for mine, theirs in ((self.sums, other.sums), (self.products, other.products))
        )
        return Moments(self.rows + other.rows, sums, products)

    def hessians(self, centred: bool) -> list[NDArray[np.float64]]:
        """Return E[x x^T] of each block; with `centred`, the covariance plus a ridge that keeps it
        positive.
        """
        hessians = []
        for total, product in zip(self.sums, self.products, strict=True):
            mean = total / self.rows * centred
            ridge = _RIDGE * np.einsum("gbb->gb", product)[:, :, None] * np.eye(product.shape[1])
            hessians.append((product + ridge) / self.rows - mean[:, :, None] * mean[:, None, :])
        return hessians


def blocks_of(columns: int) -> list[slice]:
    """Divide columns into blocks that are rounded together."""
    return [slice(first, first + _BLOCK) for first in range(0, columns, _BLOCK)]
