"""Sums of 16-bit codes, formed from those of their high and low bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.integers.accumulator import ACCUMULATOR_LIMIT, accumulator


def join_sums(high: ArrayLike, low: ArrayLike, shift: int = 0) -> NDArray[np.int32]:
    """Compute ``floor((256 * high + low) / 2^shift + 1/2)``: the sums of 16-bit codes from those of bytes.

    NORMATIVE.

    Args:
        high, low: int32, one shape: `linear` or `conv` of ``(q - qmin) >> 8`` and of ``(q - qmin) & 255``,
            each with that byte of the zero point. An integer bias is part of `low`.
        shift: 0 to 7, from `shift_of_sums`: the smallest shift for which the result is proved to fit.
    Returns:
        int32, shape of `high`.
    Raises:
        QuantValueError: A sum leaves int32.

    Rule N62.
    """
    half = 1 << shift >> 1
    whole = (256 * np.asarray(high, np.int64) + np.asarray(low, np.int64) + half) >> shift
    return accumulator(np.asarray(whole))


def shift_of_sums(bound: ArrayLike) -> int:
    """Return the smallest shift with which `join_sums` stays in int32. NORMATIVE.

    Args:
        bound: The largest magnitude of the sums, any shape, from `accumulator_bound`.

    Rule N62.
    """
    most, shift = int(np.asarray(bound).max(initial=0)), 0
    while (most >> shift) + 1 >= ACCUMULATOR_LIMIT:
        shift += 1
    return shift
