"""Exact rational arithmetic, rounded to binary floats where a test says so, and values to try it on."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st


def round_to_float(value: Fraction, digits: int, least: int) -> Fraction:
    """`value` to a binary float of `digits` bits whose smallest step is 2**least, ties to even."""
    if value == 0:
        return value
    exponent = value.numerator.bit_length() - value.denominator.bit_length() - 1
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    step = Fraction(2) ** max(exponent - digits + 1, least)
    return round(value / step) * step


def sum_in_lanes(values: list[np.float32]) -> np.float32:
    """N39 one addition at a time."""
    lanes = [np.float32(0)] * 16
    for i, value in enumerate(values):
        lanes[i % 16] = lanes[i % 16] + value
    for half in (8, 4, 2, 1):
        lanes = [lanes[i] + lanes[i + half] for i in range(half)]
    return lanes[0]


def fl32(value: Fraction) -> Fraction:
    return round_to_float(value, 24, -149)


def fl64(value: Fraction) -> Fraction:
    return round_to_float(value, 53, -1074)


def exact(value: float) -> Fraction:
    return Fraction(float(value))


def code(steps: Fraction, zero_point: int, low: int, high: int) -> int:
    return min(max(round(steps) + zero_point, low), high)  # Python's round is ties to even, and exact here


scales = st.floats(2.0**-12, 2.0**4, width=32)
zero_points = st.integers(-128, 127)
