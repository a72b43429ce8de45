"""LogSoftmax runs natively."""

import pytest


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_logarithms_of_a_softmax(qdq, lower_graph, axis):
    g = qdq()
    lowered = lower_graph(
        g, g.node("LogSoftmax", g.input("x", ["n", 5, 7]), axis=axis), sizes={"n": 2}
    ).agree(1e-5)
    assert lowered.kinds == ["reduce", "binary", "function", "reduce", "function", "binary"]
