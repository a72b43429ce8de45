"""Native grid sampling against numerics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intact.kernels import moves
from intact.numerics.grid_sample import grid_sample


@pytest.mark.rule("N59")
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("nearest", [False, True])
def test_images_at_places(runner: Any, nearest: bool, padding: str, align: bool, turned: bool) -> None:
    rng = np.random.default_rng(0)
    order = (0, 2, 3, 1) if turned else None
    for shape, places in [
        ((2, 3, 4, 5), (3, 150)),
        ((1, 9, 1, 7), (2, 3)),
        ((2, 2, 3, 3), (0, 4)),
        ((2, 0, 0, 3), (1, 1)),
    ]:
        x = rng.standard_normal(shape).astype(np.float32)
        x[rng.random(shape) < 0.05] = np.inf
        grid = rng.uniform(-3, 3, (shape[0], *places, 2)).astype(np.float32)
        grid[rng.random(grid.shape) < 0.1] = rng.choice(
            np.float32([np.nan, np.inf, -np.inf, 1e30, -1e30, 1, -1])
        )
        run = runner(2)
        want = grid_sample(x, grid, nearest, padding, align)
        y = run.output(want.shape, np.float32, order=order)
        views = run.input(x, order=order), run.input(grid, order=(0, 3, 1, 2) if turned else None)
        got = run.run(moves.grid_sample(*views, y, nearest=nearest, padding=padding, align_corners=align))
        np.testing.assert_array_equal(got, want, strict=True)
        np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))
