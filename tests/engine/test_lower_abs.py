"""Abs of floats."""

import numpy as np


def test_magnitudes(qdq, lower_graph):
    g = qdq()
    y = g.node("Abs", g.input("x", [4, 3]))
    strange = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-45, 3e38, -3e38, 2], np.float32)
    g.feeds = lambda sizes=None: {"x": strange.reshape(4, 3)}
    lowered = lower_graph(g, y)
    assert lowered.kinds == ["binary"] * 3
    np.testing.assert_array_equal(lowered.values[y], np.abs(strange).reshape(4, 3))
    assert not np.signbit(lowered.values[y][~np.isnan(lowered.values[y])]).any()
