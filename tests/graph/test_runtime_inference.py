"""Shapes and types of ONNX Runtime's products of codes, which ONNX's inference does not know."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser

import intact
from intact.errors import FileFormatError
from intact.graph import load, refresh_shapes

HEAD = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n'
PRODUCTS = {
    "DynamicQuantizeMatMul": "p = com.microsoft.DynamicQuantizeMatMul(x, w, t)",
    "MatMulIntegerToFloat": "q, s, z = DynamicQuantizeLinear(x) "
    "p = com.microsoft.MatMulIntegerToFloat(q, w, s, t, z)",
}


def product_model(product: str) -> ModelProto:
    proto = parser.parse_model(f"{HEAD}g (float[n, 8] x) => (float y) {{ {PRODUCTS[product]} y = Relu(p) }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    constants = {"w": np.ones((8, 4), np.uint8), "t": np.float32(1)}
    proto.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()
    )
    return proto


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_product_of_codes_makes_floats(product: str) -> None:
    model = load(product_model(product))
    refresh_shapes(model)
    (node,) = (node for node in model.graph if node.op_type == product)
    assert node.outputs[0].dtype is not None and node.outputs[0].dtype.name == "FLOAT"
    assert len(node.inputs) == len(product_model(product).graph.node[-2].input)  # no stand-in is left


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_product_of_codes_has_the_columns_of_its_weights(product: str) -> None:
    model = load(product_model(product))
    refresh_shapes(model)
    for op_type in (product, "Relu"):
        (node,) = (node for node in model.graph if node.op_type == op_type)
        shape = node.outputs[0].shape
        assert shape is not None and [str(dim) for dim in shape] == ["n", "4"]


@pytest.mark.parametrize(
    "call, empty",
    [
        ("SkipLayerNormalization(x, none, gamma)", "[0, 3, 8]"),
        ("SkipSimplifiedLayerNormalization(x, none, gamma)", "[0, 3, 8]"),
        ("MultiHeadAttention <num_heads = 2> (x, x, none)", "[2, 3, 0]"),
    ],
)
def test_an_input_without_elements_beside_rows_is_refused_in_a_loop(call: str, empty: str) -> None:
    """ONNX Runtime's operators divide by its size, and end the process."""
    inputs = f"float[2, 3, 8] x, float{empty} none, float[8] gamma, int64 steps"
    body = f"o = com.microsoft.{call} r = Identity(o) on = Identity(go)"
    loop = f'y = Loop(steps, "") <body = g (int64 step, bool go) => (bool on, r) {{ {body} }}>'
    proto = parser.parse_model(f"{HEAD}g ({inputs}) => (float y) {{ {loop} }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(FileFormatError, match="has no elements"):
        intact.compile(proto)
