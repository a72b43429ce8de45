"""Overrides on layers whose pair moved up in front of operators that only move data."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from intact import graph
from intact.engine.lower import lower
from intact.placement import read_placement
from intact.ptq import QuantizedModel, quantize


def quiet(model: Any, data: Any, **options: Any) -> QuantizedModel:
    plain: dict[str, Any] = {"method": "max", "bias_correction": False, "equalization": False}
    return quantize(model, data, progress=False, **plain | options)


def formats(result: QuantizedModel) -> dict[str, int]:
    """Element type of each activation's zero point, by the tensor's name."""
    types = {i.name: i.data_type for i in result.proto.graph.initializer}
    pairs = [node for node in result.proto.graph.node if node.op_type == "QuantizeLinear"]
    return {node.input[0]: types[node.input[2]] for node in pairs}


def reasons(result: QuantizedModel) -> dict[str, tuple[str, str]]:
    return {row["layer"]: (row["precision"], row["reason"]) for row in result.explain()}


@pytest.fixture
def heads(build: Any) -> onnx.ModelProto:
    """Conv-Relu, then a Flatten that two classifiers read."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return (0.2 * rng.standard_normal(shape)).astype(np.float32)

    return build(
        [("Conv", "x w", "c"), ("Relu", "c", "r"), ("Transpose", "r", "t", {"perm": [0, 2, 3, 1]}),
         ("Flatten", "t", "f"), ("Gemm", "f a", "y"), ("Gemm", "f b", "z")],
        {"x": ["N", 3, 8, 8]}, {"y": ["N", 5], "z": ["N", 6]},
        w=normal(4, 3, 3, 3), a=normal(144, 5), b=normal(144, 6),
    )  # fmt: skip


@pytest.mark.parametrize("pattern", ["n_y", "flat"], ids=["layer", "its-input"])
def test_an_override_reaches_a_pair_that_moved_up(
    cnn: onnx.ModelProto, images: np.ndarray, pattern: str
) -> None:
    got = formats(quiet(cnn, images, overrides={pattern: {"activations": "int8"}}))
    assert got == formats(quiet(cnn, images)) | {"pool": TensorProto.INT8}


def test_an_override_for_all_layers_moves_with_them(heads: onnx.ModelProto, images: np.ndarray) -> None:
    got = formats(quiet(heads, images, overrides={"Gemm": {"activations": "int16"}}))
    assert got == {"x": TensorProto.UINT8, "r": TensorProto.INT16}


def test_layers_with_unlike_formats_get_their_own_pairs(heads: onnx.ModelProto, images: np.ndarray) -> None:
    result = quiet(heads, images, overrides={"n_z": {"activations": "int8"}})
    readers: dict[int, set[str]] = {}
    loaded = graph.load(result.proto)
    for node in loaded.graph:
        view = graph.quantization_of(node.inputs[0]) if node.op_type == "Gemm" else None
        if view is not None and view.source is not None:
            readers.setdefault(int(view.codes.dtype or 0), set()).add(f"{node.name} <- {view.source.name}")
    assert readers == {TensorProto.UINT8: {"n_y <- f"}, TensorProto.INT8: {"n_z <- f"}}
    assert {site.value for site in result.placement.sites if site.role == "activation"} == {"x", "f"}
    messages = reasons(result)
    assert messages["n_t"] == messages["n_f"] == (
        "float", "overrides give the layers behind it other formats: their pairs stand behind it"
    )  # fmt: skip
    assert min(result.sqnr.values()) > 30


def test_a_method_for_one_of_two_layers_is_that_of_their_tensor(
    heads: onnx.ModelProto, images: np.ndarray
) -> None:
    result = quiet(heads, images, overrides={"n_z": {"method": "percentile"}})
    assert result.methods == {"x": "max", "r": "percentile"}


def test_explain_says_what_overrides_made_of_a_layer(cnn: onnx.ModelProto, images: np.ndarray) -> None:
    result = quiet(cnn, images, overrides={"n_y": {"format": "int4"}, "n_c2": {"format": "float"}})
    messages = reasons(result)
    assert messages["n_y"] == ("float", "weights alone are quantized (int4), so that it computes in float")
    assert messages["n_c2"] == ("float", "kept in float: the settings for it say so")


@pytest.mark.parametrize(
    "options",
    [
        {"overrides": {"n_c": {"format": "int16"}, "n_z": {"format": "int16"}}},
        {"activations": "int16"},
        {"weights": "int4"},
        {"overrides": {"n_y": {"weights": "int4"}}},
    ],
    ids=["16 bits for layers", "16 bits for all", "4 bits for all weights", "4 bits for a weight"],
)
def test_explain_says_of_other_formats_what_the_file_says(
    heads: onnx.ModelProto, images: np.ndarray, options: dict[str, Any]
) -> None:
    result = quiet(heads, images, **options)
    written = {
        layer.name: (layer.precision, layer.reason)
        for layer in read_placement(graph.load(result.proto)).layers
    }
    for name, output in reasons(result).items():  # what stays in float says why the settings want it
        assert output == written[name] or output[0] == written[name][0] == "float"
    plan = lower(result.proto)
    precisions = {layer.name: layer.precision for layer in plan.layers}
    assert all(
        precisions[name] == reason for name, (reason, _) in reasons(result).items() if name in precisions
    )
    wide = [name for name, (_, reason) in reasons(result).items() if "16" in reason]
    assert bool(wide) == ("int16" in str(options)) == bool(result.bits16)
    assert ("tensors with 16 bits" in repr(result)) == bool(wide)
