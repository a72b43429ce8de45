"""Slopes below zero."""

import numpy as np
import pytest


@pytest.mark.rule("N48")
def test_slopes_below_zero(qdq, lower_graph):
    g = qdq()
    x = g.input("x", [2, 4, 5])
    slope = g.constant(np.float32([[0.1], [0.2], [0], [-0.5]]))
    a = g.node("LeakyRelu", x, alpha=0.2)
    b = g.quantize(g.node("PRelu", x, slope), 0.07)
    c = g.quantize(g.node("PRelu", g.pair(g.input("z", [4, 5])), slope), 0.03)
    lowered = lower_graph(g, a, b, c).agree()
    assert sorted(lowered.kinds) == ["binary"] * 3 + ["quantize"]
    np.testing.assert_array_equal(lowered.values[a], lowered.expected[a])
