"""TopK runs natively, as ONNX Runtime has it."""

import pytest
from tests.engine.conftest import add_inputs, exactly, few, reason_of_fallback


@pytest.mark.rule("N58")
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("k", [1, 3])
def test_the_largest(qdq, lower_graph, dtype, largest, axis, k):
    g = qdq()
    (x,) = add_inputs(g, x=few(dtype, 3, 4, 50))
    lowered = lower_graph(g, *g.node("TopK", x, g.ints(k), axis=axis, largest=largest, outputs=2))
    assert exactly(lowered).kinds == ["top_k"]


@pytest.mark.parametrize("read", [0, 1])
def test_one_of_both_outputs(qdq, lower_graph, read):
    g = qdq()
    (x,) = add_inputs(g, x=few("float32", 5, 40, high=99))
    exactly(lower_graph(g, g.node("TopK", x, g.ints(7), outputs=2)[read]))


def test_none_at_all(qdq, lower_graph):
    g = qdq()
    (x,) = add_inputs(g, x=few("float32", 5, 4))
    exactly(lower_graph(g, *g.node("TopK", x, g.ints(0), outputs=2)))


def test_the_best_queries_of_a_detector(qdq, lower_graph):
    """As RT-DETR picks them: by the best class, then rows of another tensor. One plan, for any batch."""
    g = qdq()
    scores, memory = g.input("scores", ["n", 40, 6]), g.input("memory", ["n", 40, 8])
    best = g.node("ReduceMax", g.node("Sigmoid", scores), g.ints(-1), keepdims=0)
    places = g.node("TopK", best, g.ints(10), outputs=2)[1]
    index = g.node("Tile", g.node("Unsqueeze", places, g.ints(-1)), g.ints(1, 1, 8))
    lowered = lower_graph(g, g.node("GatherElements", memory, index, axis=1), sizes={"n": 3})
    assert "onnx" not in lowered.agree(1e-6).kinds


def test_a_number_of_elements_that_is_computed_is_left_to_onnx_runtime(qdq):
    g = qdq()
    x, k = g.input("x", ["n", 4, 5, 6]), g.input("k", [1], 7)
    assert "its input 1 is not a constant" in reason_of_fallback(g, g.node("TopK", x, k, outputs=2)[0])
