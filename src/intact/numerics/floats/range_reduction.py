"""Angles reduced to quarter turns and a remainder, with the same bits on every machine. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float32]
ROUNDER = np.float32(1.5 * 2**23)
TWO_OVER_PI = np.float32(0.63661975)
# pi / 2 in parts of 8 bits, whose products with integers below 2^16 are exact, and the rest.
QUARTER = [np.float32(c) for c in (1.5703125, 0.0004825592041015625, 1.2665987014770508e-06,
                                   9.92093629470503e-10)]  # fmt: skip
LARGE = np.float32(65536)
# 2 / pi in words of 32 bits, from weight 2^0 downwards; the first word is 0.
WORDS = np.array([0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041], np.uint64)
UNIT = np.float32(1.4629181e-09)  # pi / 2 * 2^-30


def quarter_turns(x: Reals) -> tuple[Reals, NDArray[np.int32]]:
    """Reduce an angle: r and n with ``x = r + n pi / 2`` and ``|r|`` at most a little above pi / 4.

    Up to 65536 ``n = rne(x * fl32(2 / pi))`` and ``r = x - n Q0 - n Q1 - n Q2 - n Q3``, where all but the
    last two differences are exact. Larger angles are reduced in integers: with x = m 2^e, the product of m
    and 64 bits of ``2 / pi * 2^e``, from the bit of weight 2 on, is the angle modulo four quarters. r keeps
    30 bits of the rest.

    Args:
        x: float32, any shape.
    Returns:
        r, float32, and n, int32, of which only the two lower bits are defined.
    Source: W. J. Cody, W. Waite, 1980 (small angles); M. Payne, R. Hanek, 1983 (large ones).
    """
    shifted = x * TWO_OVER_PI + ROUNDER
    whole = shifted - ROUNDER
    r = x
    for part in QUARTER:
        r = r - whole * part
    n = np.asarray(shifted).view(np.int32)
    large = (np.abs(x) > LARGE) & np.isfinite(x)
    if not large.any():
        return np.asarray(r), n
    far, turns = _reduce_large(x[large])
    r, n = np.array(r), np.array(n)
    r[large], n[large] = far, turns
    return r, n


def _reduce_large(x: Reals) -> tuple[Reals, NDArray[np.int32]]:
    bits = np.abs(x).view(np.int32).astype(np.uint64)
    m = (bits & np.uint64(0x7FFFFF)) | np.uint64(0x800000)
    start = (bits >> np.uint64(23)) - np.uint64(120)
    word, shift = (start >> np.uint64(5)).astype(np.int64), start & np.uint64(31)
    high = WORDS[word] << np.uint64(32) | WORDS[word + 1]
    window = high << shift | WORDS[word + 2] >> (np.uint64(32) - shift)
    product = m * window
    turns = (product + np.uint64(1 << 61)) >> np.uint64(62)
    rest = (product - (turns << np.uint64(62))).view(np.int64) >> 32
    r = rest.astype(np.int32).astype(np.float32) * UNIT
    count = turns.astype(np.int32)
    return np.where(x < 0, -r, r), np.where(x < 0, -count, count)
