"""``intact export --for tensorrt11``: what its parser takes, the same numbers, or each broken rule."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from tests.onnx_models import onnx_model

RNG = np.random.default_rng(0)
WEIGHT = RNG.integers(-127, 127, (8, 4, 3, 3), np.int8)


def write(path: Path, nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], opset: int = 17) -> Path:
    values = [helper.make_tensor_value_info(n, T.FLOAT, s) for n, s in (("x", [1, 4, 6, 6]), ("y", None))]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    model = onnx_model(nodes, values[:1], values[1:], initializers, opset=opset, ir_version=10)
    onnx.save(model, path)
    return path


def conv(zero: np.ndarray, bias: bool = True, axis: int | None = 0) -> tuple[list[onnx.NodeProto], dict]:
    """A convolution of codes around `zero`, with scales for the channels of its weight, and an int32 bias."""
    axes = {} if axis is None else {"axis": axis}
    scale = np.linspace(0.01, 0.02, 8, dtype=np.float32)
    constants = {
        "s": np.float32(0.05), "z": zero, "w": WEIGHT, "ws": scale, "wz": np.zeros(8, np.int8),
        "b": np.arange(8, dtype=np.int32), "bs": np.float32(0.05) * scale, "bz": np.zeros(8, np.int32),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="quantize"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="dequantize"),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], name="weight", **axes),
        helper.make_node("DequantizeLinear", ["b", "bs", "bz"], ["bd"], name="bias", axis=0),
        helper.make_node("Conv", ["d", "wd", *(["bd"] if bias else [])], ["y"], name="conv"),
    ]
    return nodes, constants


def outputs(path: Path, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options).run(None, {"x": x})[0]


@pytest.mark.parametrize("target", ["tensorrt10", "tensorrt11"])
def test_what_changes_no_number_is_rewritten(run, tmp_path: Path, target: str) -> None:
    before = write(tmp_path / "in.onnx", *conv(np.uint8(128)))
    status, shown, err = run("check", before, "--target", target)
    assert status == 1 and "uint8" in shown and "code-type" in shown
    status, shown, err = run("export", before, "--for", target, "-o", tmp_path / "out.onnx")
    assert status == 0, err
    assert "int8 codes around 0" in shown and "the bias 'b' became float" in shown
    status, shown, err = run("check", tmp_path / "out.onnx", "--target", target)
    assert status == 0, shown
    x = RNG.standard_normal((1, 4, 6, 6)).astype(np.float32)
    np.testing.assert_array_equal(outputs(before, x), outputs(tmp_path / "out.onnx", x))


def test_operators_on_codes_become_pairs(run, tmp_path: Path) -> None:
    nodes, constants = conv(np.int8(0))
    constants = {k: v for k, v in constants.items() if k not in ("b", "bs", "bz")} | {"ys": np.float32(0.1)}
    quantize = nodes[0]
    nodes = [
        quantize,
        helper.make_node("QLinearConv", ["q", "s", "z", "w", "ws", "wz", "ys", "z"], ["c"], name="conv"),
        helper.make_node("DequantizeLinear", ["c", "ys", "z"], ["y"], name="last"),
    ]
    before = write(tmp_path / "in.onnx", nodes, constants)
    assert run("check", before, "--target", "tensorrt11")[0] == 1
    assert run("export", before, "--for", "tensorrt11", "-o", tmp_path / "out.onnx")[0] == 0
    kinds = [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node]
    assert "QLinearConv" not in kinds and "Conv" in kinds


def test_an_axis_that_was_left_out_is_written(run, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "ws"], ["wd"], name="weight"),
        helper.make_node("MatMul", ["x", "wd"], ["y"], name="product"),
    ]
    weight = RNG.integers(-127, 127, (6, 8), np.int8)
    before = write(
        tmp_path / "in.onnx", nodes, {"w": weight, "ws": np.linspace(0.1, 0.2, 8, dtype=np.float32)}
    )
    status, shown, _ = run("export", before, "--for", "tensorrt11", "-o", tmp_path / "out.onnx", "--json")
    assert status == 0
    assert any("the axis 1" in note["what"] for note in json.loads(shown)["rewritten"])
    x = RNG.standard_normal((1, 4, 6, 6)).astype(np.float32)
    np.testing.assert_array_equal(outputs(before, x), outputs(tmp_path / "out.onnx", x))


@pytest.mark.parametrize(
    ("nodes_and_constants", "rule"),
    [
        (conv(np.uint8(3), bias=False), "quantize: uint8"),
        (conv(np.int8(3), bias=False), "quantize: zero-point-zero"),
        (([conv(np.int8(0))[0][0], helper.make_node("Cast", ["q"], ["y"], to=1)], conv(np.int8(0))[1]),
         "quantize: unpaired"),
    ],
)  # fmt: skip
def test_what_the_parser_refuses_is_named_with_its_rule_and_nothing_is_written(
    run, tmp_path: Path, nodes_and_constants, rule: str
) -> None:
    before = write(tmp_path / "in.onnx", *nodes_and_constants)
    status, _, err = run("export", before, "--for", "tensorrt11", "-o", tmp_path / "out.onnx")
    assert status == 2 and rule in err
    assert [path.name for path in tmp_path.iterdir()] == ["in.onnx"]


def test_another_engine_is_refused(run, tmp_path: Path) -> None:
    before = write(tmp_path / "in.onnx", *conv(np.int8(0)))
    status, _, err = run("export", before, "--for", "tensorrt9", "-o", tmp_path / "out.onnx")
    assert status == 2 and "tensorrt10 or tensorrt11" in err
