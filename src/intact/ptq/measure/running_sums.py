"""Running sums over inputs: the accumulator of mean inputs, squares of channels and second moments.

Ends of tensors and channels are `intact.calib.Range`, counts of magnitudes `intact.calib.Histogram`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from intact import kernels

Key = TypeVar("Key")


@dataclass(frozen=True)
class RunningSums:
    """Holds sums over a number of inputs; two of them add up to those over the inputs of both.

    Attributes:
        count: The number of inputs.
        totals: One or more sums, float64 of any shapes.
    """

    count: int
    totals: tuple[NDArray[np.float64], ...]

    @classmethod
    def of_mean(cls, mean: NDArray[np.float64], count: int) -> Self:
        """Return the sum over `count` inputs with this mean.

        Args:
            mean: float64, any shape.
            count: The number of inputs.
        """
        return cls(count, (count * mean,))

    def __add__(self, other: Self) -> Self:
        totals = tuple(a + b for a, b in zip(self.totals, other.totals, strict=True))
        return replace(self, count=self.count + other.count, totals=totals)

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean of the first sum."""
        return self.totals[0] / self.count


SumsT = TypeVar("SumsT", bound=RunningSums)


def add_by_name(sums: dict[Key, SumsT], further: Mapping[Key, SumsT]) -> None:
    """Add the sums of `further` to those of the same name, in place.

    Args:
        sums: Changed.
        further: Sums of the same shapes by name.
    """
    for name, values in further.items():
        sums[name] = sums[name] + values if name in sums else values


def means_of(sums: Mapping[Key, RunningSums]) -> dict[Key, NDArray[np.float64]]:
    """Return the means by name; names without inputs are left out."""
    return {name: values.mean for name, values in sums.items() if values.count}


_PLACES = 4096
"""Of a run of an image at which squares are measured, about."""


def channel_squares(array: NDArray, axis: int) -> RunningSums:
    """Sum the squares of every channel, [channels].

    Args:
        array: Not empty; channels lie along its last axis, or along axis 1 of images, which are subsampled.
        axis: 1 for images.
    """
    x = array.reshape(-1, 1, array.shape[-1])
    if axis == 1:
        x = array.reshape(*array.shape[:2], -1).swapaxes(1, 2)
        x = x[:, :: max(1, len(x) * x.shape[1] // _PLACES)]  # [samples, places, channels]
    return RunningSums(x.shape[0] * x.shape[1], (np.einsum("npc,npc->c", x, x, dtype=np.float64),))


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
