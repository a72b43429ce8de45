"""Pairs of TensorRT's domain, as ModelOpt writes them: what they become, and what they compute."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

import intact
from intact.graph import load, normalize

TRT = {"trt": 1}


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def on_fp8(x: np.ndarray, scale: float) -> np.ndarray:
    return (x / np.float32(scale)).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * np.float32(scale)


@pytest.mark.parametrize(
    ("quantize", "attributes"),
    [("TRT_FP8QuantizeLinear", {}), ("QuantizeLinear", {"saturate": 1}),
     ("QuantizeLinear", {"output_dtype": TensorProto.FLOAT8E4M3FN})],
)  # fmt: skip
def test_pairs_of_fp8_become_onnxs(quantize: str, attributes: dict[str, int]) -> None:
    nodes = [
        helper.make_node(quantize, ["x", "s"], ["q"], domain="trt", **attributes),
        helper.make_node(quantize.replace("Quan", "Dequan"), ["q", "s"], ["y"], domain="trt"),
    ]
    scale = {"s": np.array(0.01, np.float32)}
    model = onnx_model(nodes, {"x": [2, 4]}, {"y": [2, 4]}, scale, domains=TRT)
    x = np.array([[-30, -0.011, 0, 0.0004], [0.33, 4.4, 4.49, 1e9]], np.float32)
    np.testing.assert_array_equal(intact.compile(model)(x), on_fp8(np.clip(x, -4.48, 4.48), 0.01))
    loaded = load(model)
    normalize(loaded)
    assert [(node.domain, node.op_type) for node in loaded.graph] == [
        ("", "QuantizeLinear"), ("", "DequantizeLinear"),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [TensorProto.UINT8, TensorProto.FLOAT8E4M3FN])
def test_stored_fp8_weights_may_be_bytes(kind: int) -> None:
    w, x = random(8, 16).astype(np.float16), random(2, 16, seed=1).astype(np.float16)
    scale = np.float16(np.abs(w).max() / 448)
    codes = (w.astype(np.float32) / np.float32(scale)).astype(ml_dtypes.float8_e4m3fn)
    nodes = [
        helper.make_node("TRT_FP8QuantizeLinear", ["x", "sx"], ["q"], domain="trt"),
        helper.make_node("TRT_FP8DequantizeLinear", ["q", "sx"], ["d"], domain="trt"),
        helper.make_node("TRT_FP8DequantizeLinear", ["w", "sw"], ["v"], domain="trt"),
        helper.make_node("Transpose", ["v"], ["t"]), helper.make_node("MatMul", ["d", "t"], ["y"]),
    ]  # fmt: skip
    stored = helper.make_tensor("w", kind, [8, 16], codes.view(np.uint8).tobytes(), raw=True)
    scales = [numpy_helper.from_array(np.array(v, np.float16), n) for n, v in (("sw", scale), ("sx", 0.01))]
    model = onnx_model(
        nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [2, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [2, 8])], [stored, *scales], domains=TRT,
        values=[helper.make_tensor_value_info("q", TensorProto.UINT8, [2, 16])],
    )  # fmt: skip
    weights = codes.astype(np.float32) * np.float32(scale)
    want = on_fp8(x.astype(np.float32), float(np.float16(0.01))) @ weights.T
    np.testing.assert_allclose(intact.compile(model)(x), want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("op", ["TRT_INT4DequantizeLinear", "DequantizeLinear"])
def test_int4_weights_in_blocks(op: str) -> None:
    codes, x = np.random.default_rng(0).integers(-8, 8, (8, 64)), random(2, 64)
    scale = np.abs(random(8, 4, seed=1)) + np.float32(0.1)
    nodes = [
        helper.make_node(op, ["w", "s"], ["v"], domain="trt", axis=1, block_size=16),
        helper.make_node("Transpose", ["v"], ["t"]), helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]  # fmt: skip
    stored = helper.make_tensor("w", TensorProto.INT4, [8, 64], codes.flatten())
    model = onnx_model(
        nodes, {"x": [2, 64]}, {"y": [2, 8]}, [stored, numpy_helper.from_array(scale, "s")], opset=20,
        domains=TRT,
    )  # fmt: skip
    weights = (codes.reshape(8, 4, 16) * scale[..., None]).reshape(8, 64).astype(np.float32)
    np.testing.assert_allclose(intact.compile(model)(x), x @ weights.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("attributes", [{"mode": 1}, {}])
def test_a_quantizer_that_does_not_say_its_type_stays_and_says_why(attributes: dict[str, int]) -> None:
    nodes = [helper.make_node("QuantizeLinear", ["x", "s"], ["y"], domain="trt", **attributes)]
    model = onnx_model(nodes, {"x": [2]}, {"y": None}, {"s": np.array(1, np.float32)}, domains=TRT)
    model.graph.output[0].CopyFrom(onnx.ValueInfoProto(name="y"))
    (note,) = normalize(load(model))
    assert ("mode" if attributes else "its codes are") in note.what
