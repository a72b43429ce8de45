"""Stored weights behind a DequantizeLinear and operators that move them are moved when a file is read."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.onnx_models import onnx_model

import intact
from intact.engine.lower import lower
from intact.graph import Constants, load, normalize, quantization_of, strip_qdq

MOVES = {
    "Unsqueeze": ((8, 4, 3), 0, [("Unsqueeze", "d axes", "w", {})]),
    "Reshape that keeps the scales' axis": ((8, 12), 0, [("Reshape", "d sizes", "w", {})]),
    "Reshape of one scale": ((96,), None, [("Reshape", "d sizes", "w", {})]),
    "Squeeze": ((1, 8, 4, 1, 3), 1, [("Squeeze", "d first", "w", {})]),
    "Slice of channels": ((12, 4, 1, 3), 0, [("Slice", "d two ten", "w", {})]),
    "Concat": ((4, 4, 1, 3), 0, [("Concat", "d e", "w", {"axis": 0})]),
    "Concat of other scales": ((4, 4, 1, 3), None, [("Concat", "d e", "w", {"axis": 0})]),
    "Gather": ((8, 4, 1, 3), 0, [("Gather", "d order", "w", {"axis": 0})]),
    "Split": ((16, 4, 1, 3), 0, [("Split", "d", "w rest", {"num_outputs": 2})]),
    "several": ((3, 4, 8), 2, [("Transpose", "d", "t", {"perm": [2, 1, 0]}), ("Identity", "t", "i", {}),
                               ("Unsqueeze", "i axes", "w", {})]),
}  # fmt: skip
STAYS = {"scales spread": ((8, 12), 1, [("Reshape", "d sizes", "w", {})])}


def model(name: str, dtype: str = "int8", zero: int = 0) -> onnx.ModelProto:
    """A convolution whose weight comes through `MOVES[name]`, between pairs."""
    shape, axis, moves = (MOVES | STAYS)[name]
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {
        "s": np.float32(0.03), "z": np.uint8(128), "out": np.float32(0.2), "axes": np.array([2]),
        "sizes": np.array([8, 4, 1, 3]), "first": np.array([0, 3]), "two": np.array([2]),
        "ten": np.array([10]), "order": np.array([3, 1, 0, 2, 7, 6, 5, 4]),
    }  # fmt: skip
    if name == "Squeeze":
        arrays["first"] = np.array([0])
    parts = ["d", "e"] if "Concat" in name else ["d"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
    ]
    count = () if axis is None else (shape[axis],)
    for part in parts:
        arrays[f"{part}_codes"] = rng.integers(*((-127, 128) if dtype == "int8" else (0, 256)), shape).astype(
            dtype
        )
        arrays[f"{part}_scale"] = np.asarray(rng.uniform(0.002, 0.02, count), np.float32)
        arrays[f"{part}_zero"] = np.full(count, zero, dtype)
        inputs = [f"{part}_codes", f"{part}_scale", f"{part}_zero"]
        nodes.append(
            helper.make_node("DequantizeLinear", inputs, [part], **({} if axis is None else {"axis": axis}))
        )
    nodes += [helper.make_node(op, i.split(), o.split(), **a) for op, i, o, a in moves]
    nodes += [
        helper.make_node("Conv", ["xd", "w"], ["c"], name="conv", pads=[0, 1, 0, 1]),
        helper.make_node("QuantizeLinear", ["c", "out", "z"], ["y"]),
    ]
    return onnx_model(nodes, {"x": [2, 4, 1, 20]}, {"y": (2, None)}, arrays, opset=18)


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 0), ("uint8", 128), ("int8", 3)])
@pytest.mark.parametrize("name", MOVES)
def test_the_layer_runs_in_int8_with_the_same_floats(name, dtype, zero):
    proto = model(name, dtype, zero)
    before = load(proto)
    floats = Constants(before.graph)(next(v for n in before.graph for v in n.outputs if v.name == "w"))
    loaded = load(proto)
    normalize(loaded)
    conv = next(node for node in loaded.graph if node.op_type == "Conv")
    view = quantization_of(conv.inputs[1])
    assert view is not None and view.constant
    np.testing.assert_array_equal(Constants(loaded.graph)(conv.inputs[1]), floats)
    assert {step.kind for step in lower(proto).steps} <= {"quantize", "concat", "gather", "conv"}
    x = np.random.default_rng(1).standard_normal((2, 4, 1, 20)).astype(np.float32)
    runs = [intact.compile(proto, backend=backend).run({"x": x})["y"] for backend in ("cpu", "reference")]
    np.testing.assert_array_equal(*runs)


def test_scales_that_a_reshape_spreads_over_two_axes_stay():
    loaded = load(model("scales spread"))
    normalize(loaded)
    assert "Reshape" in {node.op_type for node in loaded.graph}
    assert {step.kind for step in lower(model("scales spread")).steps} >= {"float_conv"}


def test_strip_leaves_the_floats_of_moved_weights():
    loaded = load(model("Unsqueeze"))
    normalize(loaded)
    strip_qdq(loaded)
    assert [node.op_type for node in loaded.graph] == ["Conv", "QuantizeLinear"]
