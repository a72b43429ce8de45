"""Per-channel statistics for smoothing: ends over all calibration data, squares over hold-out samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ChannelEnds:
    """Holds the smallest and largest value of every channel, float64 [channels]."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(cls, array: NDArray, axis: int) -> ChannelEnds:
        """Return the ends of `array`, which is not empty, along `axis`."""
        other_axes = tuple(i for i in range(array.ndim) if i != axis % array.ndim)
        low, high = array.min(axis=other_axes), array.max(axis=other_axes)
        return cls(low.astype(np.float64), high.astype(np.float64))

    def __or__(self, other: ChannelEnds) -> ChannelEnds:
        """Merge the ends of two sets of values."""
        return ChannelEnds(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    @property
    def largest(self) -> NDArray[np.float64]:
        """The largest magnitude of every channel."""
        return np.maximum(self.high, -self.low)


_PLACES = 4096
"""Of a run of an image at which squares are measured, about."""


@dataclass(frozen=True)
class ChannelSquares:
    """Holds the sum of squares of every channel, float64 [channels], and the number of elements per
    channel.
    """

    sums: NDArray[np.float64]
    count: int

    @classmethod
    def of(cls, array: NDArray, axis: int) -> ChannelSquares:
        """Sum the squares of `array`; channels lie along its last axis, or axis 1 for images, which are
        subsampled.
        """
        x = array.reshape(-1, 1, array.shape[-1])
        if axis == 1:
            x = array.reshape(*array.shape[:2], -1).swapaxes(1, 2)
            x = x[:, :: max(1, len(x) * x.shape[1] // _PLACES)]  # [samples, places, channels]
        return cls(np.einsum("npc,npc->c", x, x, dtype=np.float64), x.shape[0] * x.shape[1])

    def __add__(self, other: ChannelSquares) -> ChannelSquares:
        """Add the sums of two sets of values."""
        return ChannelSquares(self.sums + other.sums, self.count + other.count)
