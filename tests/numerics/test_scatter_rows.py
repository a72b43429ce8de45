"""Scattered rows against a loop in Python."""

from __future__ import annotations

import numpy as np
import pytest

from intact.numerics.scatter_elements import SCATTER_REDUCTIONS
from intact.numerics.scatter_rows import row_numbers, scatter_rows


def _combine(reduction, there, update):
    if reduction == "none":
        return update
    return {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction](there, update)


@pytest.mark.rule("N58")
@pytest.mark.parametrize("reduction", SCATTER_REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_scattered_rows_one_after_the_other(dtype, reduction):
    rng = np.random.default_rng(0)
    x, updates = ((rng.standard_normal((n, 5)) * 3).astype(dtype) for n in (12, 30))
    index = np.stack([rng.integers(-3, 3, 30), rng.integers(-4, 4, 30)], axis=1)
    want = x.copy()
    for (i, j), update in zip(index, updates, strict=True):
        row = np.arange(12).reshape(3, 4)[i, j]
        want[row] = _combine(reduction, want[row], update)
    np.testing.assert_array_equal(scatter_rows(x, index, updates, (3, 4), reduction), want, strict=True)
    assert (
        row_numbers(index, (3, 4)).tolist() == np.arange(12).reshape(3, 4)[index[:, 0], index[:, 1]].tolist()
    )
