"""Windows of convolutions, for calibration: sums over all positions, and the values of some windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from intact.kernels import _native


def window_sums(x: NDArray[np.float32], taps: Sequence[Sequence[slice]]) -> NDArray[np.float64]:
    """Sum the elements that each tap of a kernel reads, over samples and positions.

    Args:
        x: float32 [samples, channels, *sizes], not empty.
        taps: For each of `sizes`, the slice that each tap along it reads.
    Returns:
        float64 [channels, *taps]. The order of additions is fixed: samples, then positions of the first axis,
        then of the next.
    """
    sizes = x.shape[2:]
    axes = [
        (size, [tap.indices(size) for tap in axis_taps]) for size, axis_taps in zip(sizes, taps, strict=True)
    ]
    out = np.empty((x.shape[1], *map(len, taps)))
    _native.window_sums(np.ascontiguousarray(x), x.shape[0], x.shape[1], axes, out)
    return out


def windows(
    x: NDArray[np.float32], at: NDArray[np.int64], groups: range, channels: int
) -> NDArray[np.float32]:
    """Copy windows of some groups of channels of an image.

    Args:
        x: float32 [samples, channels, *sizes], dense, not empty.
        at: int64 [places, taps], dense: the flat index in `x` of a pixel in the first channel of a sample;
            -1 for padding, which reads 0.
        groups: The groups.
        channels: Channels of each group.
    Returns:
        float32 [groups, places, channels * taps].
    """
    places, taps = at.shape
    out = np.empty((len(groups), places, channels * taps), np.float32)
    pixels = x[0, 0].size
    _native.gather_windows(x, pixels, groups.start * channels, len(groups), channels, at, taps, out)
    return out
