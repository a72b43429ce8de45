"""ScatterND runs natively, as ONNX Runtime has it."""

import numpy as np
import pytest
from tests.engine.conftest import add_inputs, exactly, few, reason_of_fallback


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
@pytest.mark.parametrize("tuples", [(6, 1), (2, 3, 2), (4, 3), (0, 2)], ids=str)
@pytest.mark.parametrize("how", ["given", "constant"])
def test_scattered_rows(qdq, lower_graph, how, tuples, reduction):
    g = qdq()
    shape = (6, 3, 4)
    count = tuples[-1]
    rows = np.random.default_rng(0).permutation(np.prod(shape[:count]))[: int(np.prod(tuples[:-1]))]
    index = np.stack(np.unravel_index(rows, shape[:count]), axis=-1).reshape(tuples)
    index = index - np.array(shape[:count]) * (how == "constant")  # from the end
    x, u = few("float32", *shape), few("float32", *tuples[:-1], *shape[count:], low=1)
    if how == "given":
        x, index, u = add_inputs(g, x=x, index=index, u=u)
    else:
        (x,), index, u = add_inputs(g, x=x), g.constant(index), g.constant(u)
    exactly(lower_graph(g, g.node("ScatterND", x, index, u, reduction=reduction)))


def test_rows_of_as_many_as_values_say_are_left_to_onnx_runtime(qdq):
    g = qdq()
    index, updates = g.constant(np.zeros((1, 1), np.int64)), g.floats(1, 4, 5, 6)
    x = g.node("Reshape", g.input("x", ["n", 4, 5, 6]), g.input("to", [4], 7))
    y = g.node("ScatterND", x, index, updates)
    assert "the sizes that it indexes are not known" in reason_of_fallback(g, y)
