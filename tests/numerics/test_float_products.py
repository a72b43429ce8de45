"""Fused multiply-adds against exact rationals; products and convolutions against the chain, one by one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from intact import numerics
from intact.errors import QuantValueError

TINY, MOST = 2.0**-149, float(np.finfo(np.float32).max)
SIZES = (
    0.0, TINY, 3 * TINY, 2.0**-126, 2.0**-75, 2.0**-74, 2.0**-24, 1 - 2.0**-24, 1.0, 1 + 2.0**-23,
    2.0**12 + 1, 2.0**64, MOST / 2, MOST, math.inf,
)  # fmt: skip
NASTY = np.float32([*(sign * size for sign in (1, -1) for size in SIZES), math.nan])


def rounded(exact: Fraction) -> float:
    """To float32, ties to even, from a rational: by integers alone."""
    if exact == 0:
        return 0.0
    size, sign = abs(exact), 1 if exact > 0 else -1
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - 24, -149)
    while size >= Fraction(2) ** (exponent + 24):
        exponent += 1
    value = round(size / Fraction(2) ** exponent) * Fraction(2) ** exponent  # round() ties to even
    return sign * (math.inf if value >= 2**128 else float(value))


def fused(a: float, b: float, c: float) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:  # the sign of the sum of two zeros, or of x and -x
        signs = math.copysign(1, a) * math.copysign(1, b), math.copysign(1, c)
        return -0.0 if (a * b == 0 or c == 0) and a * c == 0 and signs == (-1, -1) else 0.0
    result = rounded(exact)
    return result if result else math.copysign(0.0, exact)


def same(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    keep = ~np.isnan(want)
    np.testing.assert_array_equal(got[keep].view(np.int32), want[keep].view(np.int32))


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
        want = [fused(*map(float, t)) for t in zip(x[some], y[some], z[some], strict=True)]
        same(numerics.fma(x[some], y[some], z[some]), np.float32(want))


def test_product_is_one_chain_from_its_start():
    rng = np.random.default_rng(1)
    a = rng.standard_normal((2, 1, 3, 7)).astype(np.float32)
    b, start = rng.standard_normal((5, 7, 4)).astype(np.float32), np.float32([0.0, -0.0, 1e8, np.nan])
    y = numerics.float_product(a, b, start)
    assert y.shape == (2, 5, 3, 4)
    for at in np.ndindex(y.shape):
        n, m, i, j = at
        acc = np.float32(start[j])
        for k in range(7):
            acc = numerics.fma(a[n, 0, i, k], b[m, k, j], acc)
        assert acc == y[at] or np.isnan(acc) == np.isnan(y[at])
    np.testing.assert_allclose(numerics.float_product(a, b), a @ b, rtol=0, atol=1e-5)
    assert not np.signbit(numerics.float_product(np.zeros((1, 0)), np.zeros((0, 1))))


@pytest.mark.parametrize("sizes", [(9,), (6, 7), (3, 4, 5)], ids=len)
@pytest.mark.parametrize("groups", [1, 2])
def test_conv_is_the_product_of_patches_channels_last(sizes, groups):
    rng = np.random.default_rng(2)
    rank, out, depth = len(sizes), 6, 2
    x = rng.standard_normal((2, depth * groups, *sizes)).astype(np.float32)
    w = rng.standard_normal((out, depth, *[2] * rank)).astype(np.float32)
    start, pads = rng.standard_normal(out).astype(np.float32), ((1, 0), (2, 1), (0, 1))[:rank]
    step = {"stride": 2, "dilation": 2}
    y = numerics.float_conv(x, w, start, padding=pads, groups=groups, **step)
    padded = np.pad(x, ((0, 0), (0, 0), *pads))
    for at in np.ndindex(y.shape):
        n, o, *position = at
        taps = tuple(slice(2 * p, 2 * p + 3, 2) for p in position)
        group = o // (out // groups) * depth
        patch = np.moveaxis(padded[(n, slice(group, group + depth), *taps)], 0, -1).reshape(1, -1)
        column = np.moveaxis(w[o], 0, -1).reshape(-1, 1)
        assert numerics.float_product(patch, column, start[o : o + 1]) == y[at]


def test_padding_is_plus_zero_and_is_multiplied():
    w = np.full((1, 1, 3), np.inf, np.float32)
    y = numerics.float_conv(np.ones((1, 1, 3), np.float32), w, padding=1)
    assert np.isnan(y[0, 0, [0, 2]]).all() and y[0, 0, 1] == np.inf


def test_shapes_that_do_not_fit_are_refused():
    one = np.ones((2, 3), np.float32)
    for wrong in [(one, one), (one[0], one.T), (one, one.T, np.ones(3))]:
        with pytest.raises(QuantValueError, match="shape"):
            numerics.float_product(*wrong)
    with pytest.raises(QuantValueError, match="shape"):
        numerics.float_conv(np.ones((1, 3, 4)), np.ones((2, 2, 1)))
    with pytest.raises(QuantValueError, match="one start for each"):
        numerics.float_conv(np.ones((1, 2, 4)), np.ones((2, 2, 1)), np.ones(3))
