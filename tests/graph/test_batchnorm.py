"""BatchNormalization folded into the layer in front of it: the same outputs, or a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

from intact.graph import Model, Session, fold_batchnorm, load, to_bytes

LAYERS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], int, dict[str, Any]]] = {
    "conv": ("Conv", (2, 3, 6, 6), (4, 3, 3, 3), 4, {"pads": [1, 1, 1, 1]}),
    "grouped-conv": ("Conv", (2, 4, 6, 6), (8, 2, 3, 3), 8, {"group": 2}),
    "conv-1d": ("Conv", (2, 3, 9), (4, 3, 3), 4, {}),
    "transposed": ("ConvTranspose", (2, 3, 5, 5), (3, 4, 2, 2), 4, {"strides": [2, 2]}),
    "grouped-transposed": ("ConvTranspose", (2, 4, 5, 5), (4, 3, 2, 2), 6, {"group": 2}),
    "gemm": ("Gemm", (2, 5), (5, 4), 4, {}),
    "gemm-transposed": ("Gemm", (2, 5), (4, 5), 4, {"transB": 1}),
}


def build(op: str, x: tuple[int, ...], w: tuple[int, ...], channels: int, attributes: dict[str, Any],
          *, bias: bool = True, extra: list[onnx.NodeProto] | None = None, norm: dict[str, Any] | None = None,
          outputs: tuple[str, ...] = ("y",)) -> onnx.ModelProto:  # fmt: skip
    rng = np.random.default_rng(0)
    arrays = {"w": rng.normal(size=w), "b": rng.normal(size=channels)}
    arrays |= {name: rng.normal(size=channels) for name in ("gamma", "beta", "mean")}
    arrays["var"] = rng.uniform(0.5, 2, channels)
    inputs = ["x", "w", "b"] if bias else ["x", "w"]
    nodes = [
        helper.make_node(op, inputs, ["h"], name="layer", **attributes),
        helper.make_node("BatchNormalization", ["h", "gamma", "beta", "mean", "var"], ["y"], name="norm",
                         epsilon=1e-3, **(norm or {})),
        *(extra or []),
    ]  # fmt: skip
    return onnx_model(
        nodes,
        {"x": (TensorProto.FLOAT, x)},
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        {n: a.astype(np.float32) for n, a in arrays.items() if bias or n != "b"},
    )


def run(model: Model, shape: tuple[int, ...]) -> np.ndarray:
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    return Session(to_bytes(model)).run({"x": x})["y"]


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_outputs_stay_and_the_node_goes(layer: Any, bias: bool) -> None:
    model = load(build(*layer, bias=bias))
    expected = run(model, layer[1])
    (note,) = fold_batchnorm(model)
    assert (note.node, note.what) == ("norm", f"folded into {layer[0]} 'layer'") and note.changed
    assert [n.op_type for n in model.graph] == [layer[0]]
    assert set(model.graph.initializers) == {"w", "b"} if bias else {"w", "layer.bias.folded"}
    np.testing.assert_allclose(run(model, layer[1]), expected, rtol=1e-4, atol=1e-5)


KEPT = {
    "other-readers": (
        {"extra": [helper.make_node("Relu", ["h"], ["z"])], "outputs": ("y", "z")},
        "not folded: the output of 'layer' has other readers",
    ),
    "graph-output": ({"outputs": ("y", "h")}, "not folded: the output of 'layer' has other readers"),
}


@pytest.mark.parametrize("changes, reason", KEPT.values(), ids=KEPT)
def test_what_cannot_be_folded_says_why(changes: dict[str, Any], reason: str) -> None:
    model = load(build(*LAYERS["conv"], **changes))
    (note,) = fold_batchnorm(model)
    assert (note.what, note.changed) == (reason, False)
    assert sum(n.op_type == "BatchNormalization" for n in model.graph) == 1


def note_after_edit(edit: Any, **arguments: Any) -> str:
    proto = build(*LAYERS["conv"], **arguments)
    edit(proto)
    (note,) = fold_batchnorm(load(proto))
    return note.what


def test_a_computed_weight_is_left() -> None:
    def edit(proto: onnx.ModelProto) -> None:
        weight = proto.graph.initializer[0]
        proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, weight.dims))

    assert note_after_edit(edit) == "not folded: the weight of 'layer' is not constant"


def test_a_normalization_of_the_input_is_left() -> None:
    def edit(proto: onnx.ModelProto) -> None:
        proto.graph.node[0].op_type = "Relu"
        del proto.graph.node[0].input[1:], proto.graph.node[0].attribute[:]
        proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 4

    assert note_after_edit(edit) == (
        "not folded: it normalizes the output of Relu 'layer', and only Conv, ConvTranspose, Gemm have "
        "weights to fold into"
    )


def test_parameters_that_overflow_are_left() -> None:
    def edit(proto: onnx.ModelProto) -> None:
        variance = next(t for t in proto.graph.initializer if t.name == "var")
        variance.CopyFrom(numpy_helper.from_array(np.float32([-1, 1, 1, 1]), "var"))

    assert note_after_edit(edit) == "not folded: its parameters give numbers that are not finite"


def test_a_quantized_weight_is_left() -> None:
    def edit(proto: onnx.ModelProto) -> None:
        codes = numpy_helper.from_array(np.ones((4, 3, 3, 3), np.int8), "codes")
        proto.graph.initializer.extend([codes, numpy_helper.from_array(np.float32(0.1), "s")])
        proto.graph.node[0].input[1] = "real"
        proto.graph.node.insert(0, helper.make_node("DequantizeLinear", ["codes", "s"], ["real"]))

    assert note_after_edit(edit) == "not folded: the weight of 'layer' is quantized already"


def test_two_in_a_row_are_both_folded() -> None:
    second = helper.make_node(
        "BatchNormalization", ["y", "gamma", "beta", "mean", "var"], ["z"], name="second"
    )
    model = build(*LAYERS["conv"], extra=[second], outputs=("z",))
    x = np.random.default_rng(1).normal(size=LAYERS["conv"][1]).astype(np.float32)
    loaded = load(model)
    want = Session(to_bytes(loaded)).run({"x": x})["z"]
    notes = fold_batchnorm(loaded)
    assert [note.changed for note in notes] == [True, True]
    assert [node.op_type for node in loaded.graph] == ["Conv"]
    np.testing.assert_allclose(Session(to_bytes(loaded)).run({"x": x})["z"], want, rtol=1e-4, atol=1e-5)
