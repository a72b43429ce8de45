"""The fused multiply-add against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from intact import numerics

TINY, MOST = 2.0**-149, float(np.finfo(np.float32).max)
SIZES = (
    0.0, TINY, 3 * TINY, 2.0**-126, 2.0**-75, 2.0**-74, 2.0**-24, 1 - 2.0**-24, 1.0, 1 + 2.0**-23,
    2.0**12 + 1, 2.0**64, MOST / 2, MOST, math.inf,
)  # fmt: skip
NASTY = np.float32([*(sign * size for sign in (1, -1) for size in SIZES), math.nan])


def round_float32(exact: Fraction) -> float:
    """To float32, ties to even, from a rational: by integers alone."""
    if exact == 0:
        return 0.0
    size, sign = abs(exact), 1 if exact > 0 else -1
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - 24, -149)
    while size >= Fraction(2) ** (exponent + 24):
        exponent += 1
    value = round(size / Fraction(2) ** exponent) * Fraction(2) ** exponent  # round() ties to even
    return sign * (math.inf if value >= 2**128 else float(value))


def multiply_add(a: float, b: float, c: float) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:  # the sign of the sum of two zeros, or of x and -x
        signs = math.copysign(1, a) * math.copysign(1, b), math.copysign(1, c)
        return -0.0 if (a * b == 0 or c == 0) and a * c == 0 and signs == (-1, -1) else 0.0
    result = round_float32(exact)
    return result if result else math.copysign(0.0, exact)


def same(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    keep = ~np.isnan(want)
    np.testing.assert_array_equal(got[keep].view(np.int32), want[keep].view(np.int32))


@pytest.mark.rule("N51")
@pytest.mark.filterwarnings("ignore:invalid value")
def test_fma_is_rounded_once():
    rng = np.random.default_rng(0)
    grid = [x.ravel() for x in np.meshgrid(NASTY, NASTY, NASTY)]
    # Sums that nearly cancel, ties and what lies next to ties, results without all their bits.
    a, b = (rng.standard_normal(4000).astype(np.float32) for _ in range(2))
    scale = np.float32(2.0) ** rng.integers(-149, 30, 4000).astype(np.float32)
    c = np.float32(-a * b * (1 + rng.integers(-3, 4, 4000) * 2.0**-23))
    ties = np.float32(1 + rng.integers(0, 2**23, 4000) * 2.0**-23)
    few, half = TINY * rng.integers(-4, 5, 4000), np.full(4000, 2.0**-24)
    cases = [
        grid, (a, b, c), (a, b * scale, c * scale), (a * scale, b, ties), (ties, ties, -half * ties),
        (ties, half, ties), (ties * 2.0**-75, ties * 2.0**-74, few),
    ]  # fmt: skip
    for case in cases:
        x, y, z = (np.float32(v) for v in case)
        some = slice(None) if len(x) <= 4000 else rng.permutation(len(x))[:4000]
        want = [multiply_add(*map(float, t)) for t in zip(x[some], y[some], z[some], strict=True)]
        same(numerics.fma(x[some], y[some], z[some]), np.float32(want))
