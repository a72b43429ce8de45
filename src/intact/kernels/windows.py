"""What calibration asks of the windows of convolutions: sums over all places, and what some places hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intact.kernels import _native


def window_sums(x: NDArray[np.float32], taps: Sequence[Sequence[slice]]) -> NDArray[np.float64]:
    """Sums of what each tap of a kernel sees in an image, over samples and places.

    Args:
        x: float32 [samples, channels, *sizes], not empty.
        taps: For each of `sizes`, what each tap along it sees.
    Returns:
        float64 [channels, *taps]. Added in a fixed order, as loops over samples, then over positions of the
        first axis, then of the next one would.
    """
    sizes = x.shape[2:]
    axes = [(size, [one.indices(size) for one in seen]) for size, seen in zip(sizes, taps, strict=True)]
    out = np.empty((x.shape[1], *map(len, taps)))
    _native.window_sums(np.ascontiguousarray(x), x.shape[0], x.shape[1], axes, out)
    return out


def windows(
    x: NDArray[np.float32], at: NDArray[np.int64], groups: range, channels: int
) -> NDArray[np.float32]:
    """Windows of some groups of channels of an image.

    Args:
        x: float32 [samples, channels, *sizes], dense, not empty.
        at: int64 [places, taps], dense: where a pixel of a sample's first channel lies in `x`, flat; -1:
            outside, which is 0.
        groups: Which.
        channels: Of each.
    Returns:
        float32 [groups, places, channels * taps].
    """
    places, taps = at.shape
    out = np.empty((len(groups), places, channels * taps), np.float32)
    pixels = x[0, 0].size
    _native.gather_windows(x, pixels, groups.start * channels, len(groups), channels, at, taps, out)
    return out
