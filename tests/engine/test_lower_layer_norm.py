"""LayerNormalization, and the residual in front of it."""

import numpy as np
import pytest


def test_layer_norm_takes_the_residual_before_it(qdq, lower_graph):
    g = qdq()
    a, b = g.input("a", [2, 5, 16]), g.pair(g.input("b", [2, 5, 16]))
    y = g.node("LayerNormalization", g.node("Add", a, b), g.floats(16), g.floats(16), axis=-1)
    lowered = lower_graph(g, g.quantize(y)).agree()
    assert lowered.kinds == ["quantize", "layer_norm"]
    assert lowered.step("layer_norm").residual


@pytest.mark.parametrize("square", ["Pow", "Mul"])
@pytest.mark.parametrize("affine", [True, False], ids=["affine", "plain"])
def test_a_layer_norm_in_pieces_is_one(qdq, lower_graph, square, affine):
    g = qdq()
    x = g.input("x", [2, 5, 16])
    d = g.node("Sub", x, g.node("ReduceMean", x, g.ints(-1)))
    power = g.node("Pow", d, g.constant(np.float32(2))) if square == "Pow" else g.node("Mul", d, d)
    spread = g.node("Add", g.node("ReduceMean", power, g.ints(2)), g.constant(np.float32(1e-5)))
    y = g.node("Div", d, g.node("Sqrt", spread))
    if affine:
        y = g.node("Add", g.node("Mul", y, g.floats(16)), g.floats(16))
    assert lower_graph(g, y).agree(1e-5).kinds == ["layer_norm"]


def test_a_constant_in_front_of_a_norm_is_added_by_itself(qdq, lower_graph):
    g = qdq()
    x = g.node("Add", g.input("x", [1, 5, 16]), g.floats(1, 5, 16))
    y = g.node("LayerNormalization", x, g.floats(16), axis=-1)
    assert lower_graph(g, y).agree(1e-5).kinds == ["binary", "layer_norm"]


def test_a_norm_of_a_sum_of_constants_is_one(qdq, lower_graph):
    """As a decoder whose queries begin at zero has it."""
    g = qdq()
    start = g.node("LayerNormalization", g.node("Add", g.floats(5, 16), g.floats(16)), g.floats(16), axis=-1)
    assert lower_graph(g, g.node("Mul", g.input("x", [2, 5, 16]), start)).agree(1e-5).kinds == ["binary"]


@pytest.mark.rule("N41")
@pytest.mark.parametrize("axis", [0, 1, 2, -3])
@pytest.mark.parametrize("weights", ["whole", "of the last axis", "none but a scale"])
@pytest.mark.parametrize("where", ["floats", "codes", "behind an Add"])
def test_a_norm_over_several_axes_is_one_over_a_row(qdq, lower_graph, axis, weights, where):
    g = qdq()
    shape = (2, 3, 4, 5)
    spanned = shape[axis:] if weights != "of the last axis" else shape[-1:]
    x = g.input("x", shape)
    x = g.pair(x) if where == "codes" else x
    x = g.node("Add", g.node("Sigmoid", x), g.input("z", shape)) if where == "behind an Add" else x
    more = [] if weights == "none but a scale" else [g.floats(*spanned)]
    y = g.node("LayerNormalization", x, g.floats(*spanned), *more, axis=axis)
    lowered = lower_graph(g, g.quantize(y) if where == "codes" else y).exact().agree(1e-5)
    assert "onnx" not in lowered.kinds and lowered.kinds.count("layer_norm") == 1


def test_a_norm_over_axes_that_are_not_known_says_so(qdq, lower_graph):
    g = qdq()
    y = g.node("LayerNormalization", g.input("x", [2, "n", 4]), g.floats(4), axis=1)
    lowered = lower_graph(g, y, sizes={"n": 3})
    assert lowered.kinds == ["onnx"] and "whose sizes are not known" in lowered.step("onnx").reason
