"""Sums of codes against exact rational arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.numerics.exact import code, exact, fl32, scales

from intact import numerics as nx
from intact.spec import QuantSpec

S8, U8 = QuantSpec(), QuantSpec("uint8", symmetric=False)


@pytest.mark.rule("N26")
@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255), scales, scales, scales)
def test_add_equals_exact_evaluation(a, b, z, s_a, s_b, s_y):
    total = fl32(fl32((a - z) * exact(s_a)) + fl32((b - 3) * exact(s_b)))
    want = code(fl32(total / exact(s_y)), 100, 0, 255)
    assert nx.add(np.uint8(a), np.uint8(b), (s_a, z), (s_b, 3), (s_y, 100), U8) == want


@pytest.mark.rule("N26")
def test_add_broadcasts_and_clamps():
    got = nx.add([[10], [100]], [5, -20], (1.0, 0), (1.0, 0), (1.0, 0), S8, bounds=(0, 90))
    assert got.tolist() == [[15, 0], [90, 80]]
