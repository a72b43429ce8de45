"""ScatterElements runs natively, as ONNX Runtime has it."""

import numpy as np
import pytest
from tests.engine.conftest import add_inputs, exactly, few


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("how", ["given", "constant"])
def test_scattered_elements(qdq, lower_graph, how, axis, dtype, reduction):
    g = qdq()
    rng, shape = np.random.default_rng(0), [2, 3, 4]
    index = np.argsort(rng.random(shape), axis=axis) - (0 if how == "given" else shape[axis])
    x, u = few(dtype, 2, 3, 4), few(dtype, 2, 3, 4, low=1)
    if how == "given":
        x, index, u = add_inputs(g, x=x, index=index, u=u)
    else:
        (x,), index, u = add_inputs(g, x=x), g.constant(index), g.constant(u)
    y = g.node("ScatterElements", x, index, u, axis=axis, reduction=reduction)
    assert exactly(lower_graph(g, y)).kinds == ["scatter_elements"]


def test_codes_are_scattered_onto_codes(qdq, lower_graph):
    g = qdq()
    x, u = (g.quantize(g.input(name, shape)) for name, shape in (("x", [4, 5]), ("u", [2, 5])))
    y = g.node("ScatterElements", x, g.constant(few("int64", 2, 5, high=4)), u, axis=0)
    z = g.node("ScatterND", x, g.constant(np.array([[3], [0]])), u)
    lowered = exactly(lower_graph(g, y, z))
    assert lowered.kinds.count("scatter_elements") == lowered.kinds.count("scatter_rows") == 1
