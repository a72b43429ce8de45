"""Sign runs natively."""

import numpy as np
import pytest
from tests.engine.conftest import given_x


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
def test_signs(qdq, lowered, dtype):
    g = qdq()
    x = np.array([-3, 0, 5, 1, -1]).astype(dtype)
    found = lowered(g, g.node("Sign", given_x(g, x)))
    assert "onnx" not in found.exact().kinds
    ((name, want),) = found.expected.items()
    np.testing.assert_array_equal(found.values[name], want, strict=True)
