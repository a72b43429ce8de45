"""A Q/DQ convolution in ONNX Runtime, optimizations off, against the integer layer: docs/numerics.md, N32."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

from intact import numerics as nx
from intact.spec import QuantSpec

S8, U8 = QuantSpec(), QuantSpec("uint8", symmetric=False)
BOUNDARY = 1e-3


def run_qdq_conv(qx, qw, bias, x_affine, s_w, y_affine, relu, **attributes) -> tuple[np.ndarray, np.ndarray]:
    """Codes and floats of Q(Relu(Conv(DQ(x), DQ(w), bias))) with per-channel weights."""
    constants = {
        "sx": np.float32(x_affine[0]),
        "zx": np.uint8(x_affine[1]),
        "w": qw,
        "sw": s_w,
        "zw": np.zeros(s_w.shape, np.int8),
        "b": bias,
        "sy": np.float32(y_affine[0]),
        "zy": np.uint8(y_affine[1]),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["xr"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["wr"], axis=0),
        helper.make_node("Conv", ["xr", "wr", "b"], ["c"], **attributes),
        helper.make_node("Relu" if relu else "Identity", ["c"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "sy", "zy"], ["y"]),
    ]
    model = onnx_model(
        nodes,
        {"x": (TensorProto.UINT8, qx.shape)},
        {"y": (TensorProto.UINT8, None), "r": None},
        constants,
        name="conv",
        opset=13,
        ir_version=8,
    )
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    y, real = session.run(["y", "r"], {"x": qx})
    return y, real


@pytest.mark.rule("N33")
@pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
@pytest.mark.parametrize("groups", [1, 4, 16], ids=["dense", "groups4", "depthwise"])
def test_codes_differ_by_one_and_only_at_a_boundary(groups, relu, rng):
    x_affine, s_w = (0.021, 117), rng.random(16).astype(np.float32) * np.float32(0.01) + np.float32(0.001)
    qx = rng.integers(0, 256, (4, 16, 14, 13), np.uint8)
    qw = rng.integers(-128, 128, (16, 16 // groups, 3, 3), np.int8)
    bias = rng.standard_normal(16).astype(np.float32)
    acc = nx.conv(qx, qw, 117, stride=(2, 1), padding=((1, 0), (1, 2)), groups=groups)
    s_y, z_y = nx.affine_from_range(*nx.minmax(nx.to_real(acc, nx.multipliers(0.021, s_w), bias)), U8)
    y_affine = (float(s_y), int(z_y))
    bounds = nx.activation_bounds(0.0, np.inf, *y_affine, U8) if relu else None
    exact = nx.requantize(acc, nx.multipliers(0.021, s_w), bias, s_y, int(z_y), U8, bounds=bounds)

    pads = {"strides": [2, 1], "pads": [1, 1, 0, 2], "group": groups}
    theirs, real = run_qdq_conv(qx, qw, bias, x_affine, s_w, y_affine, relu, **pads)
    differs = exact != theirs
    steps = real.astype(np.float64) / s_y
    assert np.abs(exact - theirs.astype(int)).max() <= 1
    assert (np.abs(steps - np.floor(steps) - 0.5)[differs] < BOUNDARY).all()
    assert differs.mean() < BOUNDARY
