"""A Relu in front of a Clip is one of its bounds."""

import numpy as np
import pytest


@pytest.mark.parametrize("bounds", [(-1.0, 2.0), (0.5, 2.0), (-2.0, -1.0), ("", 2.0), (-1.0, "")], ids=str)
def test_a_relu_becomes_a_bound(qdq, lowered, bounds):
    g = qdq()
    relu = g.node("Relu", g.conv(g.pair(g.input("x", [1, 3, 6, 6])), 3, 8))
    ends = [end if end == "" else g.constant(np.float32(end)) for end in bounds]
    y = g.quantize(g.node("Clip", relu, *ends), 0.05)
    found = lowered(g, y).agree()
    assert found.kinds == ["quantize", "conv"]
    low = 0.0 if bounds[0] == "" else max(bounds[0], 0.0)
    high = np.inf if bounds[1] == "" else bounds[1]
    values = found.values[found.plan.outputs[0]]
    assert values.min() >= round(min(low, high) / 0.05)
    assert values.max() <= min(round(high / 0.05) if np.isfinite(high) else 127, 127)


@pytest.mark.parametrize("layer", [True, False])
@pytest.mark.parametrize("codes", [True, False])
def test_of_two_bounds_the_upper_one_wins(qdq, lowered, layer, codes):
    g = qdq()
    x = g.input("x", [1, 3, 6, 6])
    x = g.conv(g.pair(x), 3, 8) if layer else x
    y = g.node("Clip", x, g.constant(np.float32(2)), g.constant(np.float32(1)))
    found = lowered(g, g.quantize(y, 0.05) if codes else y).agree()
    assert np.unique(found.values[found.plan.outputs[0]]) == (20 if codes else 1)


def test_a_relu_that_others_read_stays(qdq, lowered):
    g = qdq()
    relu = g.node("Relu", g.input("x", [4, 5]))
    clip = g.node("Clip", relu, g.constant(np.float32(-1)), g.constant(np.float32(0.5)))
    assert lowered(g, relu, clip).agree().kinds == ["function", "clip"]


def test_bounds_that_are_computed_stay(qdq, lowered):
    g = qdq()
    relu = g.node("Relu", g.input("x", [4, 5]))
    clip = g.node("Clip", relu, g.input("low", []), g.constant(np.float32(2)))
    assert lowered(g, clip).agree().kinds == ["function", "binary", "binary"]
