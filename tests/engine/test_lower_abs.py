"""Abs of floats."""

import numpy as np


def test_magnitudes(qdq, lowered):
    g = qdq()
    y = g.node("Abs", g.input("x", [4, 3]))
    strange = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-45, 3e38, -3e38, 2], np.float32)
    g.feeds = lambda sizes=None: {"x": strange.reshape(4, 3)}
    found = lowered(g, y)
    assert found.kinds == ["binary"] * 3
    np.testing.assert_array_equal(found.values[y], np.abs(strange).reshape(4, 3))
    assert not np.signbit(found.values[y][~np.isnan(found.values[y])]).any()
