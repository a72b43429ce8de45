"""Sign runs natively."""

import numpy as np
import pytest
from tests.engine.conftest import add_input_x


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
def test_signs(qdq, lower_graph, dtype):
    g = qdq()
    x = np.array([-3, 0, 5, 1, -1]).astype(dtype)
    lowered = lower_graph(g, g.node("Sign", add_input_x(g, x)))
    assert "onnx" not in lowered.exact().kinds
    ((name, want),) = lowered.expected.items()
    np.testing.assert_array_equal(lowered.values[name], want, strict=True)
