"""The ends of every channel of a tensor, over all calibration data: what smoothing divides channels by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ChannelEnds:
    """Smallest and largest value of every channel, float64 [channels]."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(cls, array: NDArray, axis: int) -> ChannelEnds:
        """Those of `array`, which is not empty, along `axis`."""
        others = tuple(i for i in range(array.ndim) if i != axis % array.ndim)
        low, high = array.min(axis=others), array.max(axis=others)
        return cls(low.astype(np.float64), high.astype(np.float64))

    def __or__(self, other: ChannelEnds) -> ChannelEnds:
        """Of both."""
        return ChannelEnds(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    @property
    def largest(self) -> NDArray[np.float64]:
        """The largest magnitude of every channel."""
        return np.maximum(self.high, -self.low)
