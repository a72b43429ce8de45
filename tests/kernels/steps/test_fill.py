"""Native fills, of views and of halos."""

from __future__ import annotations

from typing import Any

from intact.kernels import moves


def test_fill_and_halo(runner: Any) -> None:
    run = runner()
    y_view = run.output((2, 3, 4, 5), halo=(1, 2, 0, 1))
    y = run.run(moves.fill(y_view, 7), moves.halo(y_view, 9))
    assert (y == 7).all()
    image = run.buffer.reshape(2, 4, 7, 5)
    image[:, 1:, 2:6] = 9
    assert (image == 9).all()
