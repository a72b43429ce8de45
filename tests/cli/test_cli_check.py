"""``intact check``: findings, their JSON, and the exit status that a script reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

ASYMMETRIC = "TensorRT only supports symmetric quantization. The zero point must be all zeros."


@pytest.fixture
def bad(int8: Path, tmp_path: Path) -> Path:
    """The quantized network with a zero point of 3 in front of its first layer."""
    model = onnx.load(int8)
    quantize = next(node for node in model.graph.node if node.op_type == "QuantizeLinear")
    for tensor in model.graph.initializer:
        if tensor.name == quantize.input[2]:
            tensor.CopyFrom(numpy_helper.from_array(np.int8(3), tensor.name))
    onnx.save(model, tmp_path / "bad.onnx")
    return tmp_path / "bad.onnx"


@pytest.mark.parametrize("file", ["int8", "net"])
def test_what_tensorrt_takes_is_status_0(run, request: pytest.FixtureRequest, file: str) -> None:
    path = request.getfixturevalue(file)
    status, shown, err = run("check", path, "--target", "tensorrt")
    assert (status, err) == (0, "")
    assert shown.splitlines()[-1].startswith(f"{path}: 0 errors, ")


def test_what_its_parser_refuses_is_status_1_in_its_words(run, bad: Path) -> None:
    status, shown, err = run("check", bad)
    assert (status, err) == (1, "")
    assert "error" in shown and " ".join(ASYMMETRIC.split()[:4]) in shown


def test_an_opset_that_its_parser_does_not_read_is_one_of_them(run, net: Path, tmp_path: Path) -> None:
    model = onnx.load(net)
    del model.graph.node[:]
    model.graph.node.append(onnx.helper.make_node("Relu", [model.graph.input[0].name], ["y"]))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None))
    model.opset_import[0].version = 7
    onnx.save(model, tmp_path / "old.onnx")
    status, shown, err = run("check", tmp_path / "old.onnx")
    assert (status, err) == (1, "")
    assert "opset 7" in shown and "1 errors" in shown


def test_json_has_every_finding(run, bad: Path) -> None:
    status, shown, _ = run("check", bad, "--json")
    output = json.loads(shown)
    assert status == 1
    assert output["file"] == str(bad) and output["target"] == "tensorrt"
    errors = [finding for finding in output["findings"] if finding["severity"] == "error"]
    assert output["errors"] == len(errors) > 0 and output["warnings"] == len(output["findings"]) - len(errors)
    assert all(finding.keys() == {"severity", "node", "rule", "message", "fix"} for finding in errors)
    assert any(finding["message"] == ASYMMETRIC and finding["node"] and finding["fix"] for finding in errors)


@pytest.mark.parametrize(
    ("words", "message"),
    [(("{net}", "--target", "tpu"), "intact: target: got 'tpu'"), (("{text}",), "intact: {text}: got ")],
    ids=["target", "no-model"],
)
def test_a_mistake_is_one_line_and_status_2(
    run, net: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    files = {"net": net, "text": tmp_path / "text.onnx"}
    files["text"].write_text("no model")
    status, _, err = run("check", *(word.format(**files) for word in words))
    assert status == 2
    assert err.startswith(message.format(**files)) and err.count("\n") == 1
