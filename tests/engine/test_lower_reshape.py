"""Changes of shape move nothing where elements lie as they should."""

from __future__ import annotations

import pytest

from intact.engine.engine import Engine


@pytest.mark.parametrize("codes", [True, False])
def test_axes_of_size_1_come_and_go_where_the_elements_lie(qdq, lower_graph, codes):
    """As Keras' layers over sequences are written: images of height 1, turned round in front and behind."""
    g = qdq()
    x = g.node("Unsqueeze", g.node("Transpose", g.input("x", [2, 9, 8]), perm=[0, 2, 1]), g.ints(2))
    w = g.weight(5, 8, 1, 3) if codes else g.floats(5, 8, 1, 3)
    y = g.node("Conv", g.pair(x) if codes else x, w)
    y = g.node("Transpose", g.node("Squeeze", g.pair(y) if codes else y, g.ints(2)), perm=[0, 2, 1])
    lowered = lower_graph(g, g.node("MatMul", y, g.weight(5, 4) if codes else g.floats(5, 4))).agree(1e-4)
    timings = Engine(lowered.plan, threads=1).profile(lowered.feeds, runs=1).timings
    moved = [
        timing.kernels for timing in timings if timing.kind in ("reshape", "transpose") and timing.kernels
    ]
    assert moved == []
