"""Linear biases of attention (ALiBi): what the position of a key adds to its scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float32]


@dataclass(frozen=True)
class LinearBiases:
    """Says how much each head prefers later keys.

    Attributes:
        slopes: Of each head, what one position adds to a score.
        scale: Of all.
        rounds: Slopes and their products with positions are rounded to bfloat16, in front of the scale.

    Source: "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation".
    """

    slopes: tuple[float, ...]
    scale: float = 1.0
    rounds: bool = False

    def table(self, positions: int) -> _Floats:
        """Return what keys add to scores, float32 [positions, heads], up to a number for each query.

        A softmax is the same for scores that all have one more addend, so that positions of keys are enough.
        """
        slopes = np.asarray(self.slopes, np.float32)
        if self.rounds:
            slopes = _round(slopes)
        biases = np.arange(positions, dtype=np.float32)[:, None] * slopes
        if self.rounds:
            biases = _round(biases)
        return np.asarray(biases * np.float32(self.scale), np.float32)


def halving_slopes(heads: int) -> tuple[float, ...]:
    """Return a geometric series for a power of two of heads, and for more heads every second one of the next.

    Args:
        heads: How many.
    Returns:
        The slopes of Bloom and Falcon.
    """
    whole = 2 ** int(math.log2(heads))
    slopes = _series(whole)
    return (*slopes, *_series(2 * whole)[::2][: heads - whole])


def mpt_slopes(heads: int) -> tuple[float, ...]:
    """Return a geometric series for the next power of two, of which every second one comes first.

    Args:
        heads: How many.
    Returns:
        The slopes of MPT.
    """
    whole = 2 ** math.ceil(math.log2(heads))
    slopes = _series(whole)
    return slopes if whole == heads else (*slopes[1::2], *slopes[::2])[:heads]


def _series(count: int) -> tuple[float, ...]:
    return tuple(2.0 ** (-8 * (place + 1) / count) for place in range(count))


def _round(x: _Floats) -> _Floats:
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)
