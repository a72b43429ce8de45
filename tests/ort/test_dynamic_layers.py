"""`quantize_dynamic` of scripts quantizes layers whose inputs get their ranges while the model runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnxruntime import quantization as ort_quantization
from tests.onnx_models import onnx_model

import intact.engine
import intact.ort
from intact.signal_to_noise import signal_to_noise

pytestmark = pytest.mark.usefixtures("quantization")
WIDTH = 64
DYNAMIC_OPERATORS = {"Conv": "ConvInteger", "LSTM": "DynamicQuantizeLSTM", "Attention": "QAttention"}


def save_layer(path: Path, op_type: str) -> None:
    """Write a model of a layer, and of a linear one behind it: [batch, 16, WIDTH] to [batch, 16, WIDTH]."""
    rng = np.random.default_rng(0)
    shapes = {
        "Conv": {"w": (16, 8, 3), "b": (16,), "v": (16, 16, 1)},
        "LSTM": {"w": (1, 4 * WIDTH, WIDTH), "r": (1, 4 * WIDTH, WIDTH)},
        "Attention": {"w": (WIDTH, 3 * WIDTH), "b": (3 * WIDTH,)},
    }[op_type] | {"m": (WIDTH, WIDTH)}  # fmt: skip
    weights = {name: (rng.standard_normal(shape) / 8).astype(np.float32) for name, shape in shapes.items()}
    names, domain = [name for name in weights if name not in ("m", "v")], ""
    outputs, arguments, behind = ["h"], {}, []
    if op_type == "LSTM":
        outputs, arguments = ["states"], {"hidden_size": WIDTH}
        weights["axis"] = np.array([1], np.int64)
        behind = [helper.make_node("Squeeze", ["states", "axis"], ["h"], name="squeeze")]
    elif op_type == "Attention":
        domain, arguments = "com.microsoft", {"num_heads": 4}
    else:
        outputs, arguments = ["images"], {"pads": [1, 1], "group": 2}
        behind = [helper.make_node("Conv", ["images", "v"], ["h"], name="left")]
    layer = helper.make_node(op_type, ["x", *names], outputs, name="layer", domain=domain, **arguments)
    nodes = [layer, *behind, helper.make_node("MatMul", ["h", "m"], ["y"], name="linear")]
    onnx.save(onnx_model(nodes, {"x": ["n", 16, WIDTH]}, {"y": None}, weights), path)


def op_types(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize("op_type", ["Conv", "LSTM", "Attention"])
@pytest.mark.parametrize("requested", [None, ["MatMul"], "its own"])
def test_layers_quantize_their_inputs_as_they_run(
    tmp_path: Path, op_type: str, requested: Any, caplog: Any
) -> None:
    """The engine's answers are those of ONNX Runtime, whose sums of codes are exact, too."""
    files = tmp_path / "float.onnx", tmp_path / "quantized.onnx"
    save_layer(files[0], op_type)
    names = [op_type] if requested == "its own" else requested
    ort_quantization.quantize_dynamic(*files, op_types_to_quantize=names, nodes_to_exclude=["left"])
    types = op_types(files[1])
    is_quantized = requested != ["MatMul"]
    assert (DYNAMIC_OPERATORS[op_type] in types) == is_quantized
    assert (op_type in types) == (op_type == "Conv" or not is_quantized)
    assert ("MatMulNBits" in types) == (requested != "its own")
    x = np.random.default_rng(1).standard_normal((3, 16, WIDTH)).astype(np.float32)
    plain, runtime = (onnxruntime.InferenceSession(path).run(["y"], {"x": x})[0] for path in files)
    assert signal_to_noise(float(np.sum(plain**2)), float(np.sum((plain - runtime) ** 2))) > 30
    answer = intact.engine.compile(files[1]).run({"x": x})["y"]
    np.testing.assert_allclose(answer, runtime, rtol=1e-4, atol=1e-5 * float(np.abs(runtime).max()))
    assert ("1 Conv stay in float" in caplog.text) == (op_type == "Conv" and is_quantized)
