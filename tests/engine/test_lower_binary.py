"""Arithmetic of two tensors of floats, or of one and a number."""

import numpy as np
import pytest


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("second", ["codes", "real", "vector"])
def test_arithmetic_of_two_tensors(qdq, lower_graph, op_type, second):
    g = qdq()
    a = g.pair(g.input("a", [2, 5, 8]))
    b = g.constant(np.float32(g.rng.uniform(0.5, 2, 8))) if second == "vector" else g.input("b", [2, 1, 8])
    b = g.pair(b, 0.03) if second == "codes" else b
    lowered = lower_graph(g, g.node(op_type, a, b))
    assert lowered.kinds[-1] == "binary" and "onnx" not in lowered.kinds
    got, want = lowered.values[op_type.lower() + str(len(g.nodes) - 1)], next(iter(lowered.expected.values()))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("op_type", ["Neg", "Reciprocal"])
def test_functions_that_are_one_operation_with_a_number(qdq, lower_graph, op_type):
    g = qdq()
    y = g.node(op_type, g.input("x", [3, 50]))
    lowered = lower_graph(g, y)
    assert lowered.kinds == ["binary"]
    np.testing.assert_array_equal(lowered.values[y], lowered.expected[y])
