"""Clip, Max, Min and Relu of codes: layers around them are quantized, and `strip_qdq` takes them away."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

import intact
from intact.engine.lower import lower
from intact.graph import Session, load, normalize, strip_qdq, to_bytes

PARTS = """<float s = {0.125}, uint8 z = {64}, uint8 low = {3}, uint8 high = {127}, uint8 none = {0},
  float t = {0.25}, int8 m = {-3}, int8 four = {-8}, int8 seven = {7}>"""

BOUNDED = {
    "both ends": "q = QuantizeLinear(x, s, z) c = Clip(q, low, high) y = DequantizeLinear(c, s, z)",
    "one end": 'q = QuantizeLinear(x, s, z) c = Clip(q, "", high) y = DequantizeLinear(c, s, z)',
    "ends in the wrong order": "q = QuantizeLinear(x, s, z) c = Clip(q, high, low) "
    "y = DequantizeLinear(c, s, z)",
    "maximum and minimum": "q = QuantizeLinear(x, s, z) a = Max(low, q) c = Min(a, high) "
    "y = DequantizeLinear(c, s, z)",
    "relu": "q = QuantizeLinear(x, t, m) c = Relu(q) y = DequantizeLinear(c, t, m)",
    "four bits of eight": "q = QuantizeLinear(x, t, m) c = Clip(q, four, seven) "
    "y = DequantizeLinear(c, t, m)",
    "behind what moves": "q = QuantizeLinear(x, s, z) p = MaxPool<kernel_shape = [2, 2]>(q) "
    "c = Clip(p, low, high) y = DequantizeLinear(c, s, z)",
    "in front of what moves": "q = QuantizeLinear(x, s, z) c = Clip(q, low, high) f = Flatten(c) "
    "y = DequantizeLinear(f, s, z)",
    "constants behind": "q = QuantizeLinear(x, s, z) k = Constant<value = uint8 {90}>() "
    'c = Clip(q, "", k) d = Constant<value = float {0.125}>() y = DequantizeLinear(c, d, z)',
    "no zero point": "q = QuantizeLinear(x, s) c = Clip(q, low, high) y = DequantizeLinear(c, s)",
    "nothing": "q = QuantizeLinear(x, s, z) c = Clip(q, none) y = DequantizeLinear(c, s, z)",
    "also read as they are": "q = QuantizeLinear(x, s, z) c = Clip(q, low, high) "
    "a = DequantizeLinear(q, s, z) b = DequantizeLinear(c, s, z) y = Add(a, b)",
}


def model(body: str) -> onnx.ModelProto:
    head = f'<ir_version: 8, opset_import: ["" : 17]> g (float[2, 4, 6, 6] x) => (float y) {PARTS}'
    proto = parser.parse_model(f"{head} {{ {body} }}")
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


def images() -> np.ndarray:
    return np.random.default_rng(0).normal(0, 9, (2, 4, 6, 6)).astype(np.float32)


@pytest.mark.parametrize("body", BOUNDED.values(), ids=BOUNDED)
def test_bounds_on_codes_become_bounds_on_floats_of_the_same_codes(body: str) -> None:
    loaded, x = load(model(body)), images()
    normalize(loaded)
    integers = [n.op_type for n in loaded.graph if n.outputs[0].dtype is not None]
    bounds = [n for n in loaded.graph if n.op_type in ("Clip", "Max", "Min", "Relu")]
    assert integers and all(n.outputs[0].dtype.name == "FLOAT" for n in bounds)
    want = Session(model(body).SerializeToString()).run({"x": x})["y"]
    assert np.array_equal(Session(to_bytes(loaded)).run({"x": x})["y"], want)


@pytest.mark.parametrize("body", BOUNDED.values(), ids=BOUNDED)
def test_the_engine_runs_them_on_codes(body: str) -> None:
    x = images()
    want = Session(model(body).SerializeToString()).run({"x": x})["y"]
    for backend in ("reference", "cpu"):
        got = intact.compile(model(body), backend=backend).run({"x": x})["y"]
        np.testing.assert_array_equal(got, want)
    assert not {"clip", "onnx"} & {step.kind for step in lower(model(body)).steps}


@pytest.mark.parametrize("body", [text for name, text in BOUNDED.items() if "read" not in name])
def test_strip_takes_the_bounds_away(body: str) -> None:
    loaded = load(model(body))
    stripped = strip_qdq(loaded)
    kinds = {node.op_type for node in loaded.graph}
    assert not {"QuantizeLinear", "DequantizeLinear", "Clip", "Max", "Min", "Relu"} & kinds
    assert stripped["x"].scale in (0.125, 0.25)


def test_strip_says_what_the_bounds_left() -> None:
    loaded = load(model(BOUNDED["both ends"]))
    low, high = strip_qdq(loaded)["x"].range
    assert (float(low), float(high)) == ((3 - 64) * 0.125, (127 - 64) * 0.125)


def test_codes_bounded_by_what_is_computed_stay() -> None:
    body = "q = QuantizeLinear(x, s, z) r = ReduceMax<keepdims = 0>(q) c = Min(q, r) "
    loaded = load(model(body + "y = DequantizeLinear(c, s, z)"))
    normalize(loaded)
    assert "Min" in {node.op_type for node in loaded.graph if node.outputs[0].dtype.name == "UINT8"}
