"""`strip_qdq` where codes pass through operators that only move them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from intact.graph import Session, load, strip_qdq, to_bytes

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
PARTS = """<float s = {0.125}, int8 z = {3}, float t = {0.25}, int64[2] flat = {0, -1},
  int64[8] pads = {0, 0, 1, 0, 0, 0, 0, 2}, int8 five = {5}, int64[2] sizes = {1, 3}>"""

MOVED = {
    "chain": "q = QuantizeLinear(x, s, z) p = MaxPool<kernel_shape = [2, 2]>(q) r = Reshape(p, flat) "
    "y = DequantizeLinear(r, s, z)",
    "pad with a code": "q = QuantizeLinear(x, s, z) p = Pad(q, pads, five) y = DequantizeLinear(p, s, z)",
    "pad with nothing": "q = QuantizeLinear(x, s, z) p = Pad(q, pads) y = DequantizeLinear(p, s, z)",
    "concat": "q = QuantizeLinear(x, s, z) m = Neg(x) k = QuantizeLinear(m, s, z) "
    "c = Concat<axis = 1>(q, k, q) y = DequantizeLinear(c, s, z)",
    "two readers": "q = QuantizeLinear(x, s, z) p = Transpose(q) a = DequantizeLinear(p, s, z) "
    "u = Flatten(p) b = DequantizeLinear(u, s, z) n = Neg(b) f = Flatten(a) y = Add(n, f)",
    "split": "q = QuantizeLinear(x, s, z) a, b = Split<axis = 1>(q, sizes) d = DequantizeLinear(a, s, z) "
    "e = DequantizeLinear(b, s, z) y = Concat<axis = 1>(e, d)",
}


def model(body: str) -> onnx.ModelProto:
    text = f"{HEAD}g (float[2, 4, 5, 6] x) => (float y) {PARTS} {{ {body} }}"
    proto = parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto


@pytest.mark.parametrize("body", MOVED.values(), ids=MOVED)
def test_pairs_around_moving_operators_go(body: str) -> None:
    loaded = load(model(body))
    x = (0.125 * np.random.default_rng(0).integers(-50, 50, (2, 4, 5, 6))).astype(np.float32)
    before = Session(model(body).SerializeToString()).run({"x": x})["y"]
    stripped = strip_qdq(loaded)
    assert not {"QuantizeLinear", "DequantizeLinear"} & {node.op_type for node in loaded.graph}
    assert np.array_equal(Session(to_bytes(loaded)).run({"x": x})["y"], before)
    assert stripped["x"].scale == 0.125 and stripped["x"].zero_point == 3


STAYING = {
    "other scales": "q = QuantizeLinear(x, s, z) p = Flatten(q) a = DequantizeLinear(p, s, z) "
    "b = DequantizeLinear(p, t, z) y = Add(a, b)",
    "codes used": "q = QuantizeLinear(x, s, z) p = Flatten(q) a = DequantizeLinear(p, s, z) "
    "c = Cast<to = 1>(p) y = Add(a, c)",
}


@pytest.mark.parametrize("body", STAYING.values(), ids=STAYING)
def test_codes_that_others_read_stay(body: str) -> None:
    loaded = load(model(body))
    strip_qdq(loaded)
    assert "DequantizeLinear" in {node.op_type for node in loaded.graph}
    x = np.random.default_rng(0).standard_normal((2, 4, 5, 6)).astype(np.float32)
    before = Session(model(body).SerializeToString()).run({"x": x})["y"]
    assert np.array_equal(Session(to_bytes(loaded)).run({"x": x})["y"], before)
