"""Weights of recurrent layers are stored as the layers read them, whatever order they were quantized in."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper
from tests.onnx_models import onnx_model

from intact import numerics
from intact.graph import Pair, Session, emit_qdq, parse_model, tidy, to_bytes
from intact.spec import QuantSpec

HIDDEN, INPUTS = 3, 5
ROWS = 4 * HIDDEN
ORDER = np.arange(ROWS).reshape(4, HIDDEN)[[0, 3, 1, 2]].reshape(-1)
X_SHAPE = [4, 2, INPUTS]


def marker(x: str, y: str, *, axis: int | None, amin: bool = False) -> onnx.NodeProto:
    options = {} if axis is None else {"axis": [axis]}
    ends = [x, f"{y}._amax", f"{y}._amin"] if amin else [x, f"{y}._amax"]
    return helper.make_node("FakeQuantize", ends, [y], domain="intact", format="int8", narrow=0, **options)


def emit_lstm(
    nodes: list[onnx.NodeProto], constants: dict[str, Any], *, directions: int, states: tuple[str, ...] = ()
) -> tuple[onnx.ModelProto, list[Pair]]:
    """The model of `nodes` that make W, and an LSTM that reads it, with pairs."""
    rng = np.random.default_rng(1)
    constants = constants | {"r": rng.normal(size=(directions, ROWS, HIDDEN)).astype(np.float32)}
    layer = helper.make_node(
        "LSTM", ["x", "W", "r", "", "", *states], ["y"], name="layer", hidden_size=HIDDEN,
        direction="bidirectional" if directions == 2 else "forward",
    )  # fmt: skip
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, X_SHAPE)
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, directions, 2, HIDDEN])
    proto = onnx_model([*nodes, layer], [x], [y], constants, opset=18, domains={"intact": 1})
    model = parse_model(proto.SerializeToString(), "test")
    pairs = emit_qdq(model, 18)
    tidy(model)
    return onnx.load_from_string(to_bytes(model)), pairs


def answer(model: onnx.ModelProto) -> NDArray:
    x = np.random.default_rng(2).normal(size=X_SHAPE).astype(np.float32)
    return Session(model.SerializeToString()).run({"x": x})["y"]


def of_reals(reals: NDArray, directions: int) -> NDArray:
    """Apply the moves of the layer to a weight of floats."""
    model, _ = emit_lstm([], {"W": reals}, directions=directions)
    return answer(model)


def reorder_gates(stack: str, last: str) -> list[onnx.NodeProto]:
    """From [2, rows, inputs] to `last`, each direction's gates in ONNX's order: as exporters write it."""
    nodes = [helper.make_node("Split", [stack], ["a", "b"], axis=0, num_outputs=2)]
    for part in "ab":
        nodes.append(helper.make_node("Squeeze", [part, "zero"], [f"{part}1"]))
        nodes.append(helper.make_node("Gather", [f"{part}1", "order"], [f"{part}2"], axis=0))
        nodes.append(helper.make_node("Unsqueeze", [f"{part}2", "zero"], [f"{part}3"]))
    return [*nodes, helper.make_node("Concat", ["a3", "b3"], [last], axis=0)]


@pytest.fixture
def weight(rng: np.random.Generator) -> NDArray[np.float32]:
    return rng.normal(size=(2, ROWS, INPUTS)).astype(np.float32)


NUMBERS: dict[str, Any] = {"zero": np.int64([0]), "order": ORDER}


@pytest.mark.parametrize("amin", [False, True])
@pytest.mark.parametrize("axis", [1, None])
def test_scales_and_codes_move_with_the_rows(weight, axis, amin):
    spec = QuantSpec("int8", axis=axis, symmetric=not amin)
    high = np.abs(weight).max((0, 2)) if axis == 1 else np.abs(weight).max()
    ends = {"m._amax": high} | ({"m._amin": -0.5 * high} if amin else {})
    model, (pair,) = emit_lstm(
        [marker("w", "m", axis=axis, amin=amin), *reorder_gates("m", "W")],
        {"w": weight, **ends, **NUMBERS}, directions=2,
    )  # fmt: skip
    assert [node.op_type for node in model.graph.node] == ["DequantizeLinear", "LSTM"]
    if amin:
        scale, zero_point = numerics.affine_from_range(-0.5 * high, high, spec)
    else:
        scale = numerics.scale_from_amax(high, spec)
        zero_point = np.zeros_like(scale, np.int32)
    reals = numerics.dequantize(numerics.quantize(weight, scale, zero_point, spec), scale, zero_point, spec)
    np.testing.assert_array_equal(answer(model), of_reals(reals[:, ORDER], 2))
    assert pair.spec == spec and pair.constant and pair.folded
    np.testing.assert_array_equal(pair.scale, scale)
    np.testing.assert_array_equal(pair.as_in_module(reals[:, ORDER], weight.shape), reals)


def test_scales_of_directions_that_no_axis_tells_apart_stay_where_they_are(weight):
    """[directions * rows, inputs] with a scale for each row: in W they would lie along two axes."""
    flat = weight.reshape(-1, INPUTS)
    high = np.abs(flat).max(1)
    model, _ = emit_lstm(
        [marker("w", "m", axis=0), helper.make_node("Reshape", ["m", "sizes"], ["W"])],
        {"w": flat, "m._amax": high, "sizes": np.int64(weight.shape)}, directions=2,
    )  # fmt: skip
    assert [node.op_type for node in model.graph.node] == ["DequantizeLinear", "Reshape", "LSTM"]
    spec = QuantSpec("int8", axis=0)
    scale = numerics.scale_from_amax(high, spec)
    zero = np.zeros_like(scale, np.int32)
    reals = numerics.dequantize(numerics.quantize(flat, scale, zero, spec), scale, zero, spec)
    np.testing.assert_array_equal(answer(model), of_reals(reals.reshape(weight.shape), 2))


def test_two_quantizers_stay_two(weight):
    nodes = [marker(n, f"{n}m", axis=None) for n in "uv"]
    constants = {"u": weight[:1], "v": weight[1:], "um._amax": np.float32(1), "vm._amax": np.float32(2)}
    joined = helper.make_node("Concat", ["um", "vm"], ["W"], axis=0)
    model, pairs = emit_lstm([*nodes, joined], constants, directions=2)
    assert [node.op_type for node in model.graph.node].count("DequantizeLinear") == 2 == len(pairs)


def test_floats_are_stored_too(weight):
    model, pairs = emit_lstm(reorder_gates("w", "W"), {"w": weight, **NUMBERS}, directions=2)
    assert [node.op_type for node in model.graph.node] == ["LSTM"] and not pairs
    np.testing.assert_array_equal(answer(model), of_reals(weight[:, ORDER], 2))


@pytest.mark.parametrize(("fill", "left"), [(0.0, True), (1.0, False)])
def test_states_of_zeros_are_left_out(weight, fill, left):
    nodes = [
        helper.make_node("Shape", ["x"], ["batch"], start=1, end=2),
        helper.make_node("Concat", ["two", "batch", "hidden"], ["sizes"], axis=0),
        helper.make_node(
            "ConstantOfShape", ["sizes"], ["both"], value=helper.make_tensor("v", 1, [1], [fill])
        ),
        helper.make_node("Slice", ["both", "zero", "one", "zero"], ["h"]),
    ]
    constants = {"zero": 0, "one": 1, "two": 2, "hidden": HIDDEN}
    numbers = {name: np.int64([number]) for name, number in constants.items()}
    model, _ = emit_lstm(nodes, {"W": weight[:1], **numbers}, directions=1, states=("h", "h"))
    assert ([node.op_type for node in model.graph.node] == ["LSTM"]) is left
    weights = {"W": weight[:1], "s": np.full((1, 2, HIDDEN), fill, np.float32)}
    wanted, _ = emit_lstm([], weights, directions=1, states=("s", "s"))
    np.testing.assert_array_equal(answer(model), answer(wanted))
