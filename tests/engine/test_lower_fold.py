"""Reductions of integers run natively."""

import pytest
from tests.engine.conftest import add_inputs, exactly, few

from intact.engine.lower import lower


@pytest.mark.rule("N60")
@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd"])
@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("axes", [None, (1,), (-1, 0), (2, 1, 0)], ids=str)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_integers_along_axes(qdq, lower_graph, op_type, dtype, axes, keepdims):
    g = qdq()
    (x,) = add_inputs(g, x=few(dtype, 3, 4, 5, low=-4, high=5))
    y = g.node(op_type, x, *([] if axes is None else [g.ints(*axes)]), keepdims=keepdims)
    exactly(lower_graph(g, y))


@pytest.mark.parametrize("axes", [(1,), (0, 2)], ids=str)
def test_products_of_floats_along_axes(qdq, lower_graph, axes):
    g = qdq()
    y = g.node("ReduceProd", g.input("x", ["n", 4, 5]), g.ints(*axes), keepdims=0)
    lowered = lower_graph(g, y, sizes={"n": 3}).exact().agree(1e-5)
    assert "onnx" not in lowered.kinds


def test_the_length_of_each_sequence_by_its_mask(qdq, lower_graph):
    """As sentence encoders have it, for any batch: a sum of integers, of an axis whose size is not known."""
    g = qdq()
    mask, rows = g.input("mask", ["n", "tokens"], 7), g.input("rows", ["n", "tokens", 4])
    count = g.node("Cast", g.node("ReduceSum", mask, g.ints(1), keepdims=1), to=1)
    total = g.node("ReduceSum", rows, g.ints(1), keepdims=0)
    lowered = lower_graph(g, g.node("Div", total, count), sizes={"n": 2, "tokens": 6})
    assert "onnx" not in lowered.exact().kinds


def test_a_mean_of_as_many_integers_as_are_not_known_waits_for_sizes(qdq):
    g = qdq()
    plan = lower(g.proto(g.node("ReduceMean", g.input("x", ["n", 4], 7), g.ints(0))))
    (step,) = (step for step in plan.steps if step.kind == "onnx")
    assert "as many integers as are not known" in step.reason
