"""Running sums over inputs: the accumulator of mean inputs, squares of channels and second moments.

Ends of tensors and channels are `intact.calib.Range`, counts of magnitudes `intact.calib.Histogram`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

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
        """Return the sum over `count` inputs with this mean."""
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
    """Add the sums of `further` to those of the same name, in place."""
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
