"""Weights without elements: no native step has them, and nothing ends the process."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact
from intact.errors import FileFormatError

WEIGHTS = [
    ("Conv", (0, 32, 3, 3), (1, 32, 8, 8), (1, 0, 6, 6)),
    ("Conv", (8, 0, 3, 3), (1, 0, 8, 8), (1, 8, 6, 6)),
    ("Conv", (0, 0, 1, 1), (1, 0, 8, 8), (1, 0, 8, 8)),
    ("ConvTranspose", (4, 0, 3, 3), (1, 4, 8, 8), (1, 0, 10, 10)),
    ("ConvTranspose", (0, 4, 3, 3), (1, 0, 8, 8), (1, 4, 10, 10)),
    ("MatMul", (4, 0), (2, 4), (2, 0)),
    ("MatMul", (0, 4), (2, 0), (2, 4)),
    ("Gemm", (4, 0), (2, 4), (2, 0)),
    ("Gemm", (0, 0), (2, 0), (2, 0)),
]


def model(op_type: str, weight: tuple, x: tuple, **attributes: object) -> bytes:
    constants = {"s": np.float32(0.1), "z": np.int8(0), "w": np.zeros(weight, np.int8)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wd"]),
        helper.make_node(op_type, ["d", "wd"], ["y"], name="layer", **attributes),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", x), ("y", None))]
    proto = onnx_model(nodes, ends[:1], ends[1:], constants)
    return bytes(proto.SerializeToString())


@pytest.mark.parametrize(("op_type", "weight", "x", "y"), WEIGHTS, ids=str)
def test_a_layer_of_empty_weights_gives_what_onnx_runtime_gives(op_type, weight, x, y, tmp_path):
    """Sums of nothing are 0; convolutions of ONNX Runtime, up to 1.28 at least, leave what memory held."""
    engine = intact.compile(model(op_type, weight, x), threads=1)
    engine.save(tmp_path / "model.plan")
    for runs in (engine, intact.load(tmp_path / "model.plan", threads=1)):
        got = runs(np.ones(x, np.float32))
        assert got.shape == y
        assert op_type in ("Conv", "ConvTranspose") or not got.any()


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize(
    "attributes",
    [{"group": 0}, {"group": -1}, {"strides": [0, 1]}, {"dilations": [1, 0]}, {"kernel_shape": [0, 3]}],
    ids=str,
)
def test_windows_that_count_to_nothing_are_refused(op_type, attributes):
    """ONNX Runtime divides by some of these, and takes the process with it."""
    for weight in ((4, 4, 3, 3), (0, 1, 3, 3)):
        with pytest.raises(FileFormatError, match="layer"):
            intact.compile(model(op_type, weight, (1, 4, 8, 8), **attributes), threads=1)
