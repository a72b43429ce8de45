"""Outputs that do not depend on the inputs: stored ones, and ones that others read, too."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

import intact

STORED = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
HELD = numpy_helper.from_array(STORED, "z")
CASES = {
    "stored": ([("Relu", ["x"], "y")], [HELD]),
    "stored and read": ([("Add", ["x", "z"], "y")], [HELD]),
    "made and read": (
        [("Relu", ["w"], "z"), ("Add", ["x", "z"], "y")],
        [numpy_helper.from_array(STORED, "w")],
    ),
    "made": ([("Relu", ["w"], "z"), ("Relu", ["x"], "y")], [numpy_helper.from_array(STORED, "w")]),
}


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("name", CASES)
def test_a_constant_may_be_put_out(name, backend):
    nodes, initializers = CASES[name]
    x, y, z = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", [2, 4, 3]), ("y", [2, 4, 3]), ("z", [2, 1, 3]))
    )
    model = onnx_model(
        [helper.make_node(op, read, [out]) for op, read, out in nodes], [x], [z, y], initializers, opset=18
    )
    feed = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 4, 3)
    got = intact.compile(model, backend=backend).run({"x": feed})
    assert list(got) == ["z", "y"] and np.array_equal(got["z"], STORED)
    assert np.array_equal(got["y"], feed + STORED if "read" in name else np.maximum(feed, 0))
