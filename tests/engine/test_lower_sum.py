"""Sum and Mean of several tensors."""

import pytest


@pytest.mark.rule("N55")
@pytest.mark.parametrize("op_type", ["Sum", "Mean"])
@pytest.mark.parametrize("shapes", [[(3, 4)] * 2, [(3, 4)] * 3, [(4,), (3, 1), (3, 4), (1,)]], ids=str)
@pytest.mark.parametrize("codes", [False, True])
def test_sums_of_many(qdq, lower_graph, op_type, shapes, codes):
    g = qdq()
    xs = [g.input(f"x{i}", shape) for i, shape in enumerate(shapes)]
    y = g.node(op_type, *(g.pair(x) for x in xs) if codes else xs)
    lowered = lower_graph(g, g.quantize(y) if codes else y).agree(1e-6)
    assert "onnx" not in lowered.kinds
