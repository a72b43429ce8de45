"""Codes equal those of ONNX's own reference evaluator, operator by operator."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from tests.onnx_models import onnx_model

from intact import numerics as nx
from intact.spec import QuantSpec

TYPES = {
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int16": TensorProto.INT16,
    "uint16": TensorProto.UINT16,
    "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4,
    "fp8e4m3": TensorProto.FLOAT8E4M3FN,
    "fp8e5m2": TensorProto.FLOAT8E5M2,
}


def evaluate(
    op: str, inputs: dict[str, np.ndarray], types: dict[str, int], out: int, **attributes
) -> np.ndarray:
    """One node in a model of opset 21, run by the reference evaluator."""
    values = [helper.make_tensor_value_info(n, types[n], v.shape) for n, v in inputs.items()]
    node = helper.make_node(op, list(inputs), ["y"], **attributes)
    model = onnx_model([node], values, {"y": (out, None)}, name="one", opset=21)
    return ReferenceEvaluator(model).run(None, inputs)[0]


@pytest.mark.rule("N11", "N12")
@pytest.mark.parametrize("granularity", ["per-tensor", "per-channel", "per-block"])
@pytest.mark.parametrize("name", TYPES)
def test_quantize_and_dequantize(name, granularity, rng):
    layout = {"per-tensor": {}, "per-channel": {"axis": 1}, "per-block": {"axis": 1, "block_size": 2}}[
        granularity
    ]
    spec = QuantSpec(name, **layout, symmetric=name.startswith("fp8"))
    x = (rng.standard_normal((3, 4, 5)) * 40).astype(np.float32)
    x[0, 0] = [0.5, 1.5, -0.5, -2.5, 1e6]
    scale = rng.choice(np.float32([0.25, 0.37, 1.0, 3.0]), nx.granule_shape(x.shape, spec))
    z = np.zeros(scale.shape, int) if spec.symmetric else rng.integers(spec.qmin, spec.qmax + 1, scale.shape)
    inputs = {"x": x, "scale": np.asarray(scale), "z": nx.store(z, spec)}
    types = {"x": TensorProto.FLOAT, "scale": TensorProto.FLOAT, "z": TYPES[name]}
    q = nx.quantize(x, scale, z, spec)
    want = evaluate("QuantizeLinear", inputs, types, TYPES[name], **layout)
    assert (q == np.asarray(want).astype(q.dtype)).all()
    inputs, types = (
        {"x": nx.store(q, spec)} | {k: inputs[k] for k in ("scale", "z")},
        types | {"x": TYPES[name]},
    )
    back = evaluate("DequantizeLinear", inputs, types, TensorProto.FLOAT, **layout)
    assert (nx.dequantize(q, scale, z, spec) == back).all()


@pytest.mark.rule("N19")
def test_linear_is_matmul_integer(rng):
    a, w = rng.integers(0, 256, (3, 7), np.uint8), rng.integers(-128, 128, (4, 7), np.int8)
    inputs = {"a": a, "b": w.T.copy(), "az": np.array(31, np.uint8), "bz": np.array(0, np.int8)}
    types = {"a": TensorProto.UINT8, "b": TensorProto.INT8, "az": TensorProto.UINT8, "bz": TensorProto.INT8}
    assert (nx.linear(a, w, 31) == evaluate("MatMulInteger", inputs, types, TensorProto.INT32)).all()


@pytest.mark.rule("N19")
@pytest.mark.parametrize("kind", ["plain", "strided", "grouped", "dilated"])
def test_conv_is_conv_integer(kind, rng):
    groups = 2 if kind == "grouped" else 1
    x = rng.integers(0, 256, (1, 4, 6, 5), np.uint8)
    w = rng.integers(-128, 128, (4, 4 // groups, 3, 2), np.int8)
    ours = {
        "plain": {"padding": ((1, 1), (0, 1))},
        "strided": {"stride": (2, 1)},
        "grouped": {"groups": 2, "padding": 1},
        "dilated": {"dilation": (2, 2), "padding": 2},
    }[kind]
    theirs = {
        "plain": {"pads": [1, 0, 1, 1]},
        "strided": {"strides": [2, 1]},
        "grouped": {"group": 2, "pads": [1] * 4},
        "dilated": {"dilations": [2, 2], "pads": [2] * 4},
    }[kind]
    inputs = {"x": x, "w": w, "xz": np.array(128, np.uint8), "wz": np.array(0, np.int8)}
    types = {"x": TensorProto.UINT8, "w": TensorProto.INT8, "xz": TensorProto.UINT8, "wz": TensorProto.INT8}
    want = evaluate("ConvInteger", inputs, types, TensorProto.INT32, kernel_shape=[3, 2], **theirs)
    assert (nx.conv(x, w, 128, **ours) == want).all()
