"""ArgMax and ArgMin run natively, as ONNX Runtime has them."""

import pytest
from tests.engine.conftest import exactly, few, given


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_places(qdq, lowered, op_type, keepdims, last, dtype):
    g = qdq()
    (x,) = given(g, x=few(dtype, 3, 4, 5, high=5))
    y = g.node(op_type, x, axis=-2, keepdims=keepdims, select_last_index=last)
    exactly(lowered(g, y))


def test_the_class_of_each_pixel(qdq, lowered):
    """Behind codes: dequantized, they are ordered as they are."""
    g = qdq()
    x = g.pair(g.input("x", ["n", 4, 6, 6]))
    y = g.node("ArgMax", g.conv(x, 4, 7), axis=1, keepdims=0)
    found = lowered(g, y, sizes={"n": 2})
    assert "onnx" not in found.exact().kinds and found.values[y].shape == (2, 6, 6)
