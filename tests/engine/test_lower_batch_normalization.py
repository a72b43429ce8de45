"""BatchNormalization that no layer takes in."""

import numpy as np
import pytest


@pytest.mark.rule("N47")
@pytest.mark.parametrize("source", ["codes", "float_steps"])
@pytest.mark.parametrize("behind", ["Relu", "LeakyRelu"])
def test_a_batchnorm_that_no_layer_takes_in(qdq, lower_graph, source, behind):
    g = qdq()
    x = g.input("x", ["n", 4, 5, 6])
    x = g.pair(x, 0.05, 5) if source == "codes" else x
    variance = g.constant(np.float32([0.5, 1, 2, 3]))
    y = g.node("BatchNormalization", x, g.floats(4), g.floats(4), g.floats(4), variance)
    y = g.quantize(g.node(behind, y), 0.03)
    lowered = lower_graph(g, y, sizes={"n": 2}).agree()
    assert lowered.kinds == (["quantize", "conv"] if source == "codes" else ["binary", "binary", "function"])


def test_a_batchnorm_over_rows_is_not_one_over_channels(qdq, lower_graph):
    g = qdq()
    y = g.node("MatMul", g.pair(g.input("x", [2, 5, 8])), g.weight(8, 5, axis=1))
    variance = g.constant(np.float32([1, 2, 3, 4, 5]))
    y = g.node("BatchNormalization", y, g.floats(5), g.floats(5), g.floats(5), variance)
    assert lower_graph(g, g.quantize(y)).agree().kinds == ["quantize", "linear", "binary", "binary"]
