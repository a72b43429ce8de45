"""Reductions of floats."""

import numpy as np
import pytest

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.graph import Session


@pytest.mark.rule("N55")
@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[1], [-1, 1], []], ids=str)
@pytest.mark.parametrize(
    "op_type", ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"]
)
def test_other_sums_along_axes(qdq, lower_graph, op_type, axes, keepdims, codes):
    g = qdq()
    x = g.node("Sigmoid", g.input("x", ["n", 5, 7]))
    y = g.node(op_type, x, *[g.constant(np.array(axes))] * bool(axes), keepdims=keepdims)
    lowered = lower_graph(g, g.quantize(y, 0.05) if codes else y, sizes={"n": 3}).agree(1e-5)
    assert "onnx" not in lowered.kinds


@pytest.mark.parametrize("count", [1, 2, 3, 9, 15, 16, 17, 33])
@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"])
def test_few_that_lie_apart_are_folded_in_the_order_of_their_lanes(qdq, lower_graph, op_type, count):
    """Parts of images, channels last: the squares of real and imaginary parts, as front ends of speech."""
    g = qdq()
    x = g.node("Relu", g.conv(g.input("x", [2, 3, 4, 5]), 3, 6 * count))
    parts = g.node("Reshape", x, g.ints(2, count, 6, 20))
    y = g.node(op_type, parts, g.ints(1), keepdims=0)
    assert "reduce" in lower_graph(g, y).agree(1e-4).exact().kinds


ROWS = [
    [np.inf, 1, 2], [-np.inf] * 3, [np.inf, -np.inf, 0], [np.inf, np.inf, 1], [-np.inf, 0, 1],
    [np.nan, 1, np.inf], [3e38, 3e38, 0], [-3e38, -3e38, -3.4e38], [1, 2, 3],
]  # fmt: skip


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_sum_of_exponentials_of_infinities_is_what_onnx_runtime_gives(qdq, backend, keepdims):
    g = qdq()
    y = g.node("ReduceLogSumExp", g.input("x", [len(ROWS), 3]), g.constant(np.array([1])), keepdims=keepdims)
    data, x = g.proto(y).SerializeToString(), np.array(ROWS, np.float32)
    plan = lower(data)
    assert not any(step.kind == "onnx" for step in plan.steps)
    (want,) = Session(data).run({"x": x}).values()
    (got,) = Engine(plan, threads=1, backend=backend).run({"x": x}).values()
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert np.isinf(want).sum() == 4


def test_a_sum_of_exponentials_does_not_overflow(qdq, lower_graph):
    g = qdq()
    x = g.node("Mul", g.input("x", [3, 50]), g.constant(np.float32(1000)))
    both = [g.node("ReduceLogSumExp", x, g.constant(np.array([1]))), g.node("LogSoftmax", x, axis=1)]
    lowered = lower_graph(g, *both).agree(1e-2)
    assert all(np.isfinite(lowered.values[y]).all() for y in both)


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"])
@pytest.mark.parametrize("axes", [(-1,), (1,), (2, 3), (0, -1), ()], ids=str)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_one_number_for_many_reals(qdq, lower_graph, op_type, axes, keepdims):
    g = qdq()
    x = g.input("x", ["n", 3, 5, 6])
    axes_input = [g.ints(*axes)] if axes else []
    lowered = lower_graph(g, g.node(op_type, x, *axes_input, keepdims=keepdims), sizes={"n": 2}).agree(1e-5)
    assert lowered.kinds == ["reduce"]


def test_the_largest_of_an_image_of_reals(qdq, lower_graph):
    g = qdq()
    x = g.input("x", ["n", 20, 5, 6])
    assert lower_graph(g, g.node("GlobalMaxPool", x), sizes={"n": 2}).agree().step("reduce").function == "max"


def test_a_mean_over_no_axes_is_nothing(qdq, lower_graph):
    g = qdq()
    y = g.node("ReduceMean", g.input("x", [2, 5]), noop_with_empty_axes=1)
    assert lower_graph(g, y).agree().step("reduce").axes == ()


@pytest.mark.parametrize("source", ["float_steps", "codes"])
@pytest.mark.parametrize("rank", [3, 4])
def test_global_pools_to_reals(qdq, lower_graph, source, rank):
    g = qdq()
    x = g.input("x", [2, 20, 5, 6][:rank])
    y = g.node("GlobalAveragePool", g.pair(x) if source == "codes" else x)
    assert lower_graph(g, y).agree(1e-5).kinds == ["quantize"] * (source == "codes") + ["reduce"]


def test_the_mean_of_a_layers_images_is_taken_as_they_lie(qdq, lower_graph):
    g = qdq()
    y = g.node("Sigmoid", g.conv(g.pair(g.input("x", [2, 3, 5, 6])), 3, 20))
    y = g.node("ReduceMean", y, g.ints(2, 3), keepdims=0)
    y = g.node("MatMul", g.pair(y, 0.01), g.weight(20, 4, axis=1))
    assert lower_graph(g, g.quantize(y)).agree().kinds == ["quantize", "conv", "reduce", "linear"]


def test_the_mean_of_codes_over_a_sequence(qdq, lower_graph):
    g = qdq()
    y = g.node("ReduceMean", g.pair(g.input("x", [2, 7, 12])), g.ints(1))
    assert lower_graph(g, g.quantize(y, 0.02)).agree().kinds == ["quantize", "reduce"]
