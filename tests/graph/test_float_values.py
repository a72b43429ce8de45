"""Constants of floats have the bits of the steps that an engine would compute them with."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

from intact import graph, numerics

X = (np.random.default_rng(0).standard_normal((40, 70)) * 3).astype(np.float32)

NODES: dict[str, tuple[dict[str, Any], list[np.ndarray], np.ndarray]] = {
    "Exp": ({}, [], numerics.exp(X)),
    "Tanh": ({}, [], numerics.FUNCTIONS["tanh"](X)),
    "Sigmoid": ({}, [], numerics.FUNCTIONS["sigmoid"](X)),
    "Softmax": ({"axis": 1}, [], numerics.softmax(X, 1)),
    "MatMul": ({}, [X.T.copy()], numerics.float_product(X, X.T)),
    "Pow": ({}, [np.array(3.0, np.float32)], X * X * X),
    "ReduceSum": ({"keepdims": 0}, [np.array([1])], numerics.sum_over(X, (1,))),
    "ReduceMean": ({"keepdims": 1}, [np.array([-1])], numerics.mean_over(X, (1,), True)),
}  # fmt: skip


@pytest.mark.rule("N66")
@pytest.mark.parametrize("op_type", NODES)
def test_constants_have_the_bits_of_steps(op_type: str) -> None:
    attributes, operands, want = NODES[op_type]
    initializers = [numpy_helper.from_array(x, f"c{i}") for i, x in enumerate([X, *operands])]
    node = helper.make_node(op_type, [x.name for x in initializers], ["y"], **attributes)
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, want.shape)]
    model = graph.load(onnx_model([node], (), outputs, initializers, opset=18))
    value = graph.Constants(model.graph)(model.graph.outputs[0])
    assert value is not None
    assert value.tobytes() == np.ascontiguousarray(want, np.float32).tobytes()


@pytest.mark.parametrize("first", [True, False])
def test_a_product_begins_at_the_bias_behind_it(first: bool) -> None:
    bias = X[0, :40].copy()
    add = helper.make_node("Add", ["p", "bias"] if first else ["bias", "p"], ["y"])
    initializers = [
        numpy_helper.from_array(x, name) for name, x in (("a", X), ("b", X.T.copy()), ("bias", bias))
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, (40, 40))]
    model = graph.load(
        onnx_model([helper.make_node("MatMul", ["a", "b"], ["p"]), add], (), outputs, initializers, opset=18)
    )
    value = graph.Constants(model.graph)(model.graph.outputs[0])
    assert value is not None
    assert np.array_equal(value, numerics.float_product(X, X.T, bias))
    assert not np.array_equal(value, numerics.float_product(X, X.T) + bias)


def test_others_are_left_to_the_reference() -> None:
    assert graph.float_value("Add", {}, [X, X]) is None
    assert graph.float_value("Exp", {}, [X.astype(np.float64)]) is None
    assert onnx.__version__
