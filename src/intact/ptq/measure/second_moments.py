"""Second moments of layer inputs, E[x x^T], by which weights are rounded together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from intact import kernels
from intact.ptq.measure.running_sums import RunningSums

_BLOCK = 128  # columns rounded with regard to each other: work and memory stay linear in the weights
_RIDGE = 1e-5  # of each column's sum of squares: what float32 sums cannot tell from the mean


class Moments(RunningSums):
    """Holds sums over the inputs of one layer, by block of columns.

    `totals` are the sums of each column, float64 [groups, b] for each block, and behind them the products of
    any two columns, float64 [groups, b, b] for each block.
    """

    @classmethod
    def of(cls, columns: NDArray[np.float32]) -> Moments:
        """Compute the moments of `columns`, float32 [groups, rows, columns]."""
        moments = [kernels.moments(columns, block) for block in blocks_of(columns.shape[2])]
        return cls(columns.shape[1], tuple(chain.from_iterable(zip(*moments, strict=True))))

    @classmethod
    def concatenate(cls, groups: Sequence[Moments]) -> Moments:
        """Concatenate the moments of consecutive groups."""
        totals = zip(*(group.totals for group in groups), strict=True)
        return cls(groups[0].count, tuple(map(np.concatenate, totals)))

    def hessians(self, centred: bool) -> list[NDArray[np.float64]]:
        """Return E[x x^T] of each block; with `centred`, the covariance plus a ridge that keeps it
        positive.
        """
        hessians, blocks = [], len(self.totals) // 2
        for total, product in zip(self.totals[:blocks], self.totals[blocks:], strict=True):
            mean = total / self.count * centred
            ridge = _RIDGE * np.einsum("gbb->gb", product)[:, :, None] * np.eye(product.shape[1])
            hessians.append((product + ridge) / self.count - mean[:, :, None] * mean[:, None, :])
        return hessians


def blocks_of(columns: int) -> list[slice]:
    """Divide columns into blocks that are rounded together."""
    return [slice(first, first + _BLOCK) for first in range(0, columns, _BLOCK)]
