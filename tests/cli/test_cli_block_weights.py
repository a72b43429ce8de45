"""``intact quantize`` of weights in blocks: with data, without, and beside options for ranges."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.onnx_models import onnx_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    weight = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "linear")
    path = tmp_path / "model.onnx"
    onnx.save(onnx_model([node], {"x": ["n", 64]}, {"y": ["n", 32]}, {"w": weight}), path)
    return path


def test_blocks_need_no_data(run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    status, shown, err = run(
        "quantize", model, "--weights", "int4", "--block", "32", "-o", out, "--no-progress"
    )
    assert (status, err) == (0, "")
    assert "int4 in blocks of 32" in shown and "DequantizeLinear" in shown
    assert {node.op_type for node in onnx.load(out).graph.node} == {"DequantizeLinear", "MatMul"}


def test_dynamic_activations_with_data_as_json(run, model: Path, tmp_path: Path) -> None:
    out, data = tmp_path / "out.onnx", tmp_path / "x.npy"
    np.save(data, np.random.default_rng(1).standard_normal((40, 64)).astype(np.float32))
    status, shown, err = run(
        "quantize", model, "--data", data, "--weights", "int4", "--activations", "dynamic-int8",
        "--method", "gptq", "-o", out, "--no-progress", "--json",
    )  # fmt: skip
    printed = json.loads(shown)
    assert (status, err) == (0, "")
    assert printed["operator"] == "MatMulNBits" and printed["layers"]["linear"]["shape"] == [32, 64]
    assert 0 < printed["layers"]["linear"]["error"] < 0.01
    (node,) = onnx.load(out).graph.node
    assert node.op_type == "MatMulNBits"


@pytest.mark.parametrize(
    "option", [("--opset", "21"), ("--asymmetric",), ("--equalization", "on"), ("--bits16", "auto")]
)
def test_options_for_ranges_are_refused(run, model: Path, tmp_path: Path, option: tuple[str, ...]) -> None:
    status, shown, err = run(
        "quantize", model, "--block", "32", *option, "-o", tmp_path / "out.onnx", "--no-progress"
    )
    assert status != 0 and shown == "" and option[0] in err
    assert not (tmp_path / "out.onnx").exists()
