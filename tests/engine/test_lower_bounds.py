"""A Relu in front of a Clip is one of its bounds."""

import numpy as np
import pytest


@pytest.mark.parametrize("bounds", [(-1.0, 2.0), (0.5, 2.0), (-2.0, -1.0), ("", 2.0), (-1.0, "")], ids=str)
def test_a_relu_becomes_a_bound(qdq, lower_graph, bounds):
    g = qdq()
    relu = g.node("Relu", g.conv(g.pair(g.input("x", [1, 3, 6, 6])), 3, 8))
    ends = [end if end == "" else g.constant(np.float32(end)) for end in bounds]
    y = g.quantize(g.node("Clip", relu, *ends), 0.05)
    lowered = lower_graph(g, y).agree()
    assert lowered.kinds == ["quantize", "conv"]
    low = 0.0 if bounds[0] == "" else max(bounds[0], 0.0)
    high = np.inf if bounds[1] == "" else bounds[1]
    values = lowered.values[lowered.plan.outputs[0]]
    assert values.min() >= round(min(low, high) / 0.05)
    assert values.max() <= min(round(high / 0.05) if np.isfinite(high) else 127, 127)


@pytest.mark.parametrize("layer", [True, False])
@pytest.mark.parametrize("codes", [True, False])
def test_of_two_bounds_the_upper_one_wins(qdq, lower_graph, layer, codes):
    g = qdq()
    x = g.input("x", [1, 3, 6, 6])
    x = g.conv(g.pair(x), 3, 8) if layer else x
    y = g.node("Clip", x, g.constant(np.float32(2)), g.constant(np.float32(1)))
    lowered = lower_graph(g, g.quantize(y, 0.05) if codes else y).agree()
    assert np.unique(lowered.values[lowered.plan.outputs[0]]) == (20 if codes else 1)


def test_a_relu_that_others_read_stays(qdq, lower_graph):
    g = qdq()
    relu = g.node("Relu", g.input("x", [4, 5]))
    clip = g.node("Clip", relu, g.constant(np.float32(-1)), g.constant(np.float32(0.5)))
    assert lower_graph(g, relu, clip).agree().kinds == ["function", "clip"]


def test_bounds_that_are_computed_stay(qdq, lower_graph):
    g = qdq()
    relu = g.node("Relu", g.input("x", [4, 5]))
    clip = g.node("Clip", relu, g.input("low", []), g.constant(np.float32(2)))
    assert lower_graph(g, clip).agree().kinds == ["function", "binary", "binary"]


def seven_bit_pair(g, x, *, clips, scale=0.05, zero=64):
    """A pair of uint8 of which a Clip leaves 7 bits, as PyTorch writes them."""
    parameters = [g.constant(np.float32(scale)), g.constant(np.uint8(zero))]
    codes = g.node("QuantizeLinear", x, *parameters)
    if clips:
        codes = g.node("Clip", codes, g.constant(np.uint8(0)), g.constant(np.uint8(127)))
    return g.node("DequantizeLinear", codes, *parameters)


@pytest.mark.parametrize("behind", ["conv", "relu", "add", "pool", "concat"])
def test_bounds_on_codes_are_the_bounds_of_the_layer_in_front(qdq, lower_graph, behind):
    kinds = {}
    for clips in (False, True):
        g = qdq()
        x = g.pair(g.input("x", [1, 4, 6, 6]))
        y = seven_bit_pair(g, g.conv(x, 4, 4), clips=clips)
        if behind == "relu":
            y = seven_bit_pair(g, g.node("Relu", g.conv(y, 4, 4)), clips=clips, zero=0)
        elif behind == "add":
            y = seven_bit_pair(g, g.node("Add", y, x), clips=clips)
        elif behind == "pool":
            y = seven_bit_pair(g, g.node("MaxPool", y, kernel_shape=[2, 2]), clips=clips)
        elif behind == "concat":
            y = seven_bit_pair(g, g.node("Concat", y, y, axis=1), clips=clips)
        channels = 8 if behind == "concat" else 4
        kinds[clips] = lower_graph(g, g.quantize(g.conv(y, channels, 4))).exact().kinds
    assert [kind for kind in kinds[True] if kind != "reinterpret"] == kinds[False]
