"""Native gathers of elements against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intact.kernels import moves


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "int64"])
@pytest.mark.parametrize("wide", ["int32", "int64"])
@pytest.mark.parametrize("turned", [False, True])
def test_elements_by_index(runner: Any, dtype: str, wide: str, turned: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 100, (5, 9, 4)).astype(dtype)
    for axis in range(3):
        shape = tuple(7 if a == axis else n - 1 for a, n in enumerate(x.shape))
        index = rng.integers(-x.shape[axis], x.shape[axis], shape).astype(wide)
        within = tuple(slice(None) if a == axis else slice(n) for a, n in enumerate(shape))
        run = runner(2)
        y = run.output(shape, np.dtype(dtype).type, gap=1)
        order = (2, 1, 0) if turned else None
        got = run.run(moves.gather_elements(run.input(x, order=order), run.input(index), y, axis))
        np.testing.assert_array_equal(got, np.take_along_axis(x[within], index.astype(np.int64), axis))
        assert run.only_wrote(y)


def test_an_index_out_of_range_fails(runner: Any) -> None:
    x, index = np.arange(6, dtype=np.int32), np.array([5, -6, 6, -7, 2**62, -(2**63)])
    run = runner()
    with pytest.raises(IndexError, match="gather_elements"):
        run.run(moves.gather_elements(run.input(x), run.input(index), run.output((6,), np.int32), 0))
    assert run.result(0).tolist() == [5, 0, 0, 0, 0, 0]
