"""ArgMax and ArgMin run natively, as ONNX Runtime has them."""

import pytest
from tests.engine.conftest import add_inputs, exactly, few


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_places(qdq, lower_graph, op_type, keepdims, last, dtype):
    g = qdq()
    (x,) = add_inputs(g, x=few(dtype, 3, 4, 5, high=5))
    y = g.node(op_type, x, axis=-2, keepdims=keepdims, select_last_index=last)
    exactly(lower_graph(g, y))


def test_the_class_of_each_pixel(qdq, lower_graph):
    """Behind codes: dequantized, they are ordered as they are."""
    g = qdq()
    x = g.pair(g.input("x", ["n", 4, 6, 6]))
    y = g.node("ArgMax", g.conv(x, 4, 7), axis=1, keepdims=0)
    lowered = lower_graph(g, y, sizes={"n": 2})
    assert "onnx" not in lowered.exact().kinds and lowered.values[y].shape == (2, 6, 6)
