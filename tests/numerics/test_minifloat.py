"""fp8 e4m3 and e5m2, fp4 e2m1: against ml_dtypes and against the grids, enumerated from their definition."""

from __future__ import annotations

import itertools
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from intact import numerics as nx
from intact.spec import Format, QuantSpec

# exponent bits, mantissa bits, bias, codes of the top exponent that are not numbers
LAYOUT = {"fp8e4m3": (4, 3, 7, {7}), "fp8e5m2": (5, 2, 15, {0, 1, 2, 3}), "fp4e2m1": (2, 1, 1, set())}
STORED = {
    "fp8e4m3": ml_dtypes.float8_e4m3fn,
    "fp8e5m2": ml_dtypes.float8_e5m2,
    "fp4e2m1": ml_dtypes.float4_e2m1fn,
}
formats = pytest.mark.parametrize("name", LAYOUT)


def magnitudes(name: str) -> list[Fraction]:
    """The non-negative finite numbers in the order of their codes: index % 2 is the last bit."""
    exponent_bits, mantissa_bits, bias, reserved = LAYOUT[name]
    top, parts = 2**exponent_bits - 1, 2**mantissa_bits
    return [
        Fraction(2) ** (max(e, 1) - bias) * (Fraction(m, parts) + (e > 0))
        for e, m in itertools.product(range(top + 1), range(parts))
        if not (e == top and m in reserved)
    ]


def nearest(x: np.float32, grid: list[Fraction]) -> float:
    """The nearest number of the grid, ties to the even code, saturating."""
    value = abs(Fraction(float(x)))
    code = min(range(len(grid)), key=lambda i: (abs(grid[i] - value), i % 2))
    return float(np.copysign(float(grid[code]), x))


@pytest.mark.rule("N2")
@formats
def test_enumeration_is_the_table_of_ml_dtypes(name):
    codes = np.arange(2 ** (Format.parse(name).bits - 1), dtype=np.uint8)
    values = codes.view(STORED[name]).astype(np.float64)
    assert values[np.isfinite(values)].tolist() == [float(v) for v in magnitudes(name)]


@pytest.mark.rule("N2")
@formats
def test_every_number_every_midpoint_and_their_neighbours(name):
    grid = magnitudes(name)
    points = np.float32([float(v) for v in grid] + [float((a + b) / 2) for a, b in itertools.pairwise(grid)])
    points = np.concatenate(
        [points, np.nextafter(points, np.float32(0)), np.nextafter(points, np.float32(1e9))]
    )
    points = np.concatenate([points, -points])
    got = nx.round_to_format(points, Format.parse(name))
    assert got.tolist() == [nearest(x, grid) for x in points]
    assert (np.signbit(got) == np.signbit(points)).all()


@pytest.mark.rule("N2")
@formats
def test_saturates_before_the_cast(name):
    fmt = Format.parse(name)
    beyond = np.float32([fmt.qmax * 1.03, fmt.qmax * 2, 3e38, np.inf])
    assert (nx.round_to_format(beyond, fmt) == fmt.qmax).all()
    assert (nx.round_to_format(-beyond, fmt) == fmt.qmin).all()


@formats
def test_nan_stays_nan_where_the_format_has_one(name):
    got = nx.round_to_format(np.float32([np.nan]), Format.parse(name))
    assert (got[0] == 0) if name == "fp4e2m1" else np.isnan(got[0])


@formats
def test_quantize_rounds_the_quotient(name, rng):
    grid = magnitudes(name)
    x, scale = rng.standard_normal(200).astype(np.float32) * 50, np.float32(0.37)
    assert nx.quantize(x, scale, 0, QuantSpec(name)).tolist() == [nearest(v, grid) for v in x / scale]
