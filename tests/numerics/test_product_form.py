"""One product and one sum in place of an integer layer's formula: only where no sum gets another code."""

from __future__ import annotations

import numpy as np
import pytest

from intact import numerics as nx
from intact.spec import QuantSpec

S8 = QuantSpec()
REACH = 40_000  # every sum up to here is tried


def codes_of_both_forms(multiplier, bias, y_scale, zero_point, gain=None):
    """Codes of all sums by both forms, or None where there is no product form."""
    steps = S8.qmin - zero_point, S8.qmax - zero_point
    pair = nx.product_form(multiplier, bias, y_scale, steps, REACH, gain=gain)
    if pair is None:
        return None
    acc = np.repeat(np.arange(-REACH, REACH + 1)[:, None], np.size(multiplier), axis=1)
    by_product = nx.requantize_by_product(acc, *pair, zero_point, S8)
    return by_product, nx.requantize(acc, multiplier, bias, y_scale, zero_point, S8, gain=gain)


@pytest.mark.rule("N22")
@pytest.mark.parametrize("zero_point", [0, -128, 77])
@pytest.mark.parametrize("gained", [False, True])
def test_codes_are_equal_for_every_sum(rng, zero_point, gained):
    """Scales of 24 bits and of 4, one channel at a time; most of the first kind have a product form, too."""
    some = 0
    for _ in range(60):
        short = rng.random() < 0.5
        digits = (lambda: rng.integers(8, 16) / 8) if short else (lambda: rng.uniform(1, 2))
        multiplier = np.float32([digits() * digits() * 2.0 ** rng.integers(-14, -8)])
        bias, y_scale = np.float32([rng.normal()]), np.float32(digits() * 2.0**-5)
        gain = nx.Gain(np.float32([rng.normal()]), np.float32([rng.normal()])) if gained else None
        both = codes_of_both_forms(multiplier, bias, y_scale, zero_point, gain)
        if both is not None:
            np.testing.assert_array_equal(*both)
            some += 1
    assert some >= 20


@pytest.mark.rule("N22")
def test_exact_ties_are_tried():
    """acc * 9 / 11 is a tie at odd multiples of 11 / 18: the nearest product takes some to the other side."""
    multiplier, y_scale = np.float32(9 / 64), np.float32(11 / 64 * 18)
    acc = np.arange(-REACH, REACH + 1)[:, None]
    nearest = nx.multipliers(multiplier, 1.0, y_scale)
    plain = nx.requantize_by_product(acc, nearest, 0.0, 0, S8)
    formula = nx.requantize(acc, multiplier, 0.0, y_scale, 0, S8)
    both = codes_of_both_forms(multiplier, 0.0, y_scale, 0)
    if both is None:
        assert (plain != formula).any()
    else:
        np.testing.assert_array_equal(*both)


def test_there_is_none_where_sums_are_finer_than_float32_tells_apart():
    """A step of 2**24 sums: float32 holds none of those around a boundary apart from its neighbours."""
    assert nx.product_form(np.float32(2.0**-30), 0.3, np.float32(2.0**-6), (-128, 127), 2**31 - 1) is None


def test_only_sums_that_occur_count():
    """The boundary between two codes that no sum reaches may lie anywhere."""
    constants = np.float32(1e-5 / 3), np.float32(0.123), np.float32(0.7)
    assert nx.product_form(*constants, (-128, 127), 2**25) is None
    assert nx.product_form(*constants, (-128, 127), 1000) is not None


def test_channels_without_products_have_the_code_of_their_bias():
    both = codes_of_both_forms(np.float32([0.0, 0.0371]), np.float32([0.7, 0.7321]), np.float32(0.1), 3)
    assert both is not None
    np.testing.assert_array_equal(*both)
    assert (both[0][:, 0] == 10).all()
