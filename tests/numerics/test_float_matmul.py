"""Products of floats: one chain of fused multiply-adds, and shapes that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

from intact import numerics
from intact.errors import QuantValueError


@pytest.mark.rule("N51")
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


def test_shapes_that_do_not_fit_are_refused():
    matrix = np.ones((2, 3), np.float32)
    for wrong in [(matrix, matrix), (matrix[0], matrix.T), (matrix, matrix.T, np.ones(3))]:
        with pytest.raises(QuantValueError, match="shape"):
            numerics.float_product(*wrong)
    with pytest.raises(QuantValueError, match="shape"):
        numerics.float_conv(np.ones((1, 3, 4)), np.ones((2, 2, 1)))
    with pytest.raises(QuantValueError, match="one start for each"):
        numerics.float_conv(np.ones((1, 2, 4)), np.ones((2, 2, 1)), np.ones(3))
