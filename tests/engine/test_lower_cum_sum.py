"""CumSum runs natively, as ONNX Runtime has it."""

import numpy as np
import pytest
from tests.engine.conftest import exactly, few, given


@pytest.mark.parametrize("dtype", ["int64", "int32", "float32"])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
def test_running_sums(qdq, lowered, dtype, exclusive, reverse, axis):
    g = qdq()
    (x,) = given(g, x=few(dtype, 3, 4, 5, high=5) * np.array(2.7, dtype))
    y = g.node("CumSum", x, g.constant(np.array(axis)), exclusive=exclusive, reverse=reverse)
    assert exactly(lowered(g, y)).kinds == ["cum_sum"]
