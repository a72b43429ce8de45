"""A network whose layers differ in what they cost, and a clock that does not tick."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.onnx_models import onnx_model

WIDTH, LAYERS = 32, 4


@pytest.fixture(scope="session")
def net() -> onnx.ModelProto:
    """Four products with Relus between them; one channel of the second's input is 60 times the others."""
    rng = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for layer in range(LAYERS):
        weight = (rng.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH / 2)).astype(np.float32)
        if layer == 0:
            weight[:, 0] *= 60
        if layer == 1:
            weight[0] /= 60
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        result = "y" if layer == LAYERS - 1 else f"h{layer}"
        nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [result], name=f"/fc{layer}"))
        if result != "y":
            nodes.append(helper.make_node("Relu", [result], [f"r{layer}"], name=f"/relu{layer}"))
        value = f"r{layer}"
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", WIDTH]) for name in "xy")
    return onnx_model(nodes, [x], [y], weights)


@pytest.fixture(scope="session")
def data() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((64, WIDTH)).astype(np.float32)
