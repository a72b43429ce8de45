"""Exponentials of float32. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.numerics.floats.elementary import (
    ONE,
    ROUNDER,
    at_most,
    float_function,
    integer_of_bits,
    polynomial,
    power_of_two,
)

Reals = NDArray[np.float32]
LOG2_E = np.float32(1.44269504)
# ln 2 = LN2_HIGH + LN2_LOW; an integer below 2^15 times LN2_HIGH, which has 9 bits, is exact.
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
EXP_LOW, EXP_HIGH = np.float32(-104), np.float32(89)  # beyond these e^x is 0, and infinity
NORMAL_END = np.float32(87)  # e^x is a normal number on [-87, 87]
# Coefficients from the lowest power on. (exp(r) - 1 - r) / r^2 on |r| <= 0.35:
EXP = [np.float32(c) for c in (0.4999999403953552, 0.16666515171527863, 0.04166845977306366,
                               0.008369430899620056, 0.0013813059777021408)]  # fmt: skip
# (2^f - 1) / f on |f| <= 0.5:
EXP2 = [np.float32(c) for c in (0.6931471824645996, 0.24022647738456726, 0.05550331994891167,
                                0.009618439711630344, 0.0013399136951193213,
                                0.00015353165508713573)]  # fmt: skip


@float_function
def exp(x: Reals) -> Reals:
    """Compute e^x within 2 ulp, denormal results too; 0 below -104, infinity where float32 ends.

    ``n = rne(x * log2(e))``, ``r = x - n * LN2_HIGH - n * LN2_LOW``, ``1 + r + r^2 EXP(r)``, times 2^n in two
    exact factors, so that a denormal result is rounded once.

    Rule N37.
    """
    small = x < EXP_LOW
    y, n = _exp_fraction(at_most(np.where(small, np.float32(0), x), EXP_HIGH))
    half = n >> 1
    y = y * power_of_two(half) * power_of_two(n - half)
    return np.where(small, np.float32(0), y)


def exp2(y: Reals) -> Reals:
    """Compute 2^y of -126 <= y <= 127, by ``y - rne(y)``, which is exact, and ``1 + f EXP2(f)``."""
    shifted = y + ROUNDER
    f = y - (shifted - ROUNDER)
    return np.asarray((polynomial(EXP2, f) * f + ONE) * power_of_two(integer_of_bits(shifted)))


def _exp_fraction(x: Reals) -> tuple[Reals, NDArray[np.int32]]:
    """Compute e^x / 2^n, and n, the integer nearest to x * log2(e)."""
    shifted = x * LOG2_E + ROUNDER
    n = shifted - ROUNDER
    r = x - n * LN2_HIGH - n * LN2_LOW
    return polynomial(EXP, r) * (r * r) + r + ONE, integer_of_bits(shifted)


def normal_exp(x: Reals) -> Reals:
    """Compute e^x of -87 <= x <= 87, the same bits as `exp`."""
    y, n = _exp_fraction(x)
    return np.asarray(y * power_of_two(n))
