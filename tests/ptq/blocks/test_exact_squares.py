"""Sums of squared multiples are taken faster where they are whole numbers, to the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from intact.ptq.blocks import BlockFormat, fit_scales, round_to_nearest


@pytest.mark.parametrize("size", [16, 64, 128])
@pytest.mark.parametrize("number_format", ["int4", "uint4", "int8", "uint8"])
def test_scales_are_those_of_the_weighted_sums(
    number_format: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = np.random.default_rng(size).standard_normal((24, 4 * size)).astype(np.float32)
    grid = BlockFormat(number_format, size)
    fast = round_to_nearest(weight, grid)
    monkeypatch.setattr(fit_scales, "_EXACT", 0)
    weighted = round_to_nearest(weight, grid)
    np.testing.assert_array_equal(fast.scales, weighted.scales)
    np.testing.assert_array_equal(fast.codes, weighted.codes)
