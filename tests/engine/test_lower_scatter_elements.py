"""ScatterElements runs natively, as ONNX Runtime has it."""

import numpy as np
import pytest
from tests.engine.conftest import exactly, few, given


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("how", ["given", "constant"])
def test_scattered_elements(qdq, lowered, how, axis, dtype, reduction):
    g = qdq()
    rng, shape = np.random.default_rng(0), [2, 3, 4]
    index = np.argsort(rng.random(shape), axis=axis) - (0 if how == "given" else shape[axis])
    x, u = few(dtype, 2, 3, 4), few(dtype, 2, 3, 4, low=1)
    if how == "given":
        x, index, u = given(g, x=x, index=index, u=u)
    else:
        (x,), index, u = given(g, x=x), g.constant(index), g.constant(u)
    y = g.node("ScatterElements", x, index, u, axis=axis, reduction=reduction)
    assert exactly(lowered(g, y)).kinds == ["scatter_elements"]


def test_codes_are_scattered_onto_codes(qdq, lowered):
    g = qdq()
    x, u = (g.quantize(g.input(name, shape)) for name, shape in (("x", [4, 5]), ("u", [2, 5])))
    y = g.node("ScatterElements", x, g.constant(few("int64", 2, 5, high=4)), u, axis=0)
    z = g.node("ScatterND", x, g.constant(np.array([[3], [0]])), u)
    found = exactly(lowered(g, y, z))
    assert found.kinds.count("scatter_elements") == found.kinds.count("scatter_rows") == 1
