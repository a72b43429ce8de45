"""Rescaled codes against exact rational arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tests.numerics.exact import code, exact, fl32, scales, zero_points

from intact import numerics as nx
from intact.spec import QuantSpec

S8, U8 = QuantSpec(), QuantSpec("uint8", symmetric=False)


@pytest.mark.rule("N28")
@given(zero_points, zero_points, zero_points, scales, scales)
def test_rescale_equals_exact_evaluation(q, z_in, z_out, s_in, s_out):
    want = code(fl32(fl32((q - z_in) * exact(s_in)) / exact(s_out)), z_out, -128, 127)
    assert nx.rescale(np.int8(q), (s_in, z_in), (s_out, z_out), S8) == want


@pytest.mark.rule("N28")
def test_rescale_to_the_same_grid_changes_nothing():
    q = np.arange(-128, 128, dtype=np.int8)
    assert (nx.rescale(q, (0.37, -11), (0.37, -11), S8) == q).all()
