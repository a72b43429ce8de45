"""MatMulInteger and ConvInteger behind a QuantizeLinear use the zero points that they name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper, parser

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate
from intact.graph import Session

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
LAYERS = {
    "product": ("MatMulInteger", "float[n, 8] x", (8, 5), (5,)),
    "convolution": ("ConvInteger<pads = [1, 1, 1, 1]>", "float[n, 8, 4, 4] x", (5, 8, 3, 3), (1, 5, 1, 1)),
}
ZEROS = {
    "absent": "m = {0}(q, w)",
    "absent beside another": 'm = {0}(q, w, "", wz)',
    "equal": "m = {0}(q, w, z, wz)",
    "different": "m = {0}(q, w, other, wz)",
    "alone": "m = {0}(q, w, other)",
}


def layer_model(layer: str, zeros: str, **more: NDArray[Any]) -> ModelProto:
    """A layer on codes around 90, with a scale for each channel."""
    rng = np.random.default_rng(3)
    op_type, x, shape, factors = LAYERS[layer]
    body = f"q = QuantizeLinear(x, s, z) {ZEROS[zeros].format(op_type)} c = Cast<to = 1>(m) y = Mul(c, f)"
    proto = parser.parse_model(f"{HEAD}g ({x}) => (float y) {{ {body} }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    constants = {
        "s": np.float32(0.05), "z": np.uint8(90), "other": np.uint8(7), "wz": np.uint8(131),
        "w": rng.integers(0, 256, shape).astype(np.uint8),
        "f": rng.uniform(1e-4, 1e-3, factors).astype(np.float32), **more,
    }  # fmt: skip
    used = {name for node in proto.graph.node for name in node.input}
    proto.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items() if name in used
    )
    return proto


def check(proto: ModelProto) -> None:
    """Engine, reference and file agree."""
    plan = lower(proto)
    shape = [2, *(dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim[1:])]
    feeds = {"x": np.random.default_rng(1).normal(0, 3, shape).astype(np.float32)}
    got, want = evaluate(plan, feeds)["y"], Session(proto.SerializeToString()).run(feeds)["y"]
    np.testing.assert_array_equal(Engine(plan).run(feeds)["y"], got)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("zeros", ZEROS)
@pytest.mark.parametrize("layer", LAYERS)
def test_the_zero_point_is_the_layers_own(layer: str, zeros: str) -> None:
    check(layer_model(layer, zeros))


def test_a_zero_point_for_each_row_stays() -> None:
    proto = layer_model("product", "different", other=np.array([3, 200], np.uint8))
    assert "onnx" in [step.kind for step in lower(proto).steps]


@pytest.mark.parametrize("factor", [np.float32(4e-4), np.float32([4e-4])], ids=["number", "vector"])
def test_weights_have_a_zero_point_for_each_column(factor: NDArray[np.float32]) -> None:
    zeros = np.array([0, 255, 3, 128, 77], np.uint8)
    check(layer_model("product", "equal", wz=zeros, f=factor))
