"""Max and Min of several tensors."""

import numpy as np
import pytest


@pytest.mark.parametrize("op_type", ["Max", "Min"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_extremes_of_tensors(qdq, lower_graph, op_type, count):
    g = qdq()
    operands = [g.input("x", [2, 5, 8]), g.pair(g.input("z", [5, 1])), g.floats(8), g.floats(1)]
    y = g.node(op_type, *operands[:count])
    lowered = lower_graph(g, y, g.quantize(y, 0.03)).agree()
    assert lowered.kinds == ["quantize"] + ["binary"] * (count - 1) + ["quantize"]
    np.testing.assert_array_equal(lowered.values[y], lowered.expected[y])


@pytest.mark.parametrize("op_type", ["Max", "Min"])
def test_extremes_of_codes_and_numbers_are_tables(qdq, lower_graph, op_type):
    g = qdq()
    y = g.node(op_type, g.constant(np.float32(0.3)), g.pair(g.input("x", [4, 64])), g.constant(np.float32(1)))
    assert lower_graph(g, g.quantize(y, 0.03)).agree().kinds == ["quantize", "table"]
