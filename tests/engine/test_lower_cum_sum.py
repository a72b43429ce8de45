"""CumSum runs natively, as ONNX Runtime has it."""

import numpy as np
import pytest
from tests.engine.conftest import add_inputs, exactly, few


@pytest.mark.parametrize("dtype", ["int64", "int32", "float32"])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
def test_running_sums(qdq, lower_graph, dtype, exclusive, reverse, axis):
    g = qdq()
    (x,) = add_inputs(g, x=few(dtype, 3, 4, 5, high=5) * np.array(2.7, dtype))
    y = g.node("CumSum", x, g.constant(np.array(axis)), exclusive=exclusive, reverse=reverse)
    assert exactly(lower_graph(g, y)).kinds == ["cum_sum"]
