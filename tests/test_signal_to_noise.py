"""The ratio of signal to noise in decibels, also where one of them is missing."""

from __future__ import annotations

from math import inf, isnan, nan

import pytest

from intact.signal_to_noise import signal_to_noise


@pytest.mark.parametrize(
    ("signal", "noise", "expected"),
    [(100.0, 1.0, 20.0), (1.0, 1e3, -30.0), (1.0, 0.0, inf), (0.0, 0.0, inf), (0.0, 2.0, -inf),
     (1e-320, 1e300, -inf), (inf, 1.0, inf), (1.0, inf, -inf)],
)  # fmt: skip
def test_a_ratio_of_squares_is_told_in_decibels(signal: float, noise: float, expected: float) -> None:
    assert signal_to_noise(signal, noise) == expected


def test_what_is_no_number_stays_none() -> None:
    assert isnan(signal_to_noise(nan, 1.0)) and isnan(signal_to_noise(1.0, nan))
