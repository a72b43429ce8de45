"""``intact explain``: a table and JSON of what runs in int8, and why not."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

FUSED = {
    "/conv1": "Conv+Relu", "/pool1": "MaxPool", "/conv2": "Conv+Add+Relu", "/gap": "GlobalAveragePool",
    "/flatten": "Flatten", "/fc": "Gemm", "/softmax": "Softmax",
}  # fmt: skip


@pytest.mark.parametrize("file", ["net", "int8"])
def test_a_float_file_and_its_int8_file_say_the_same(run, request: pytest.FixtureRequest, file: str) -> None:
    path = request.getfixturevalue(file)
    status, shown, err = run("explain", path, "--json")
    output = json.loads(shown)
    assert (status, err) == (0, "")
    assert (
        output["file"] == str(path)
        and output["profile"] == "intact"
        and output["quantized"] is (file == "int8")
    )
    assert {row["layer"]: row["fused"] for row in output["layers"]} == FUSED
    assert [row["layer"] for row in output["layers"] if row["precision"] == "float"] == ["/softmax"]
    assert all(row["reason"] for row in output["layers"])


def test_the_table_shows_layers_and_reasons(run, net: Path) -> None:
    status, shown, _ = run("explain", net)
    assert status == 0
    line = next(line for line in shown.splitlines() if "/conv2" in line)
    assert "int8" in line and "Conv+Add+Relu" in line
    assert shown.splitlines()[-1] == "6 layers in int8, 1 in float, for intact"


def test_only_what_did_not_make_it(run, net: Path) -> None:
    _, shown, _ = run("explain", net, "--precision", "float", "--exclude", "/fc", "--profile", "tensorrt")
    body = [line for line in shown.splitlines() if line.startswith("│")]
    assert "/softmax" in body[-1] and any("/fc" in line and "exclude" in line for line in body)
    assert not any("/conv1" in line for line in body)
    assert shown.splitlines()[-1].endswith("for tensorrt")


def test_names_with_brackets_are_shown_as_they_are(run, net_proto: onnx.ModelProto, tmp_path: Path) -> None:
    proto = onnx.ModelProto.FromString(net_proto.SerializeToString())
    proto.graph.node[0].name = "(Unnamed Layer* 0) [Convolution]"
    onnx.save(proto, tmp_path / "odd.onnx")
    assert "(Unnamed Layer* 0) [Convolution]" in run("explain", tmp_path / "odd.onnx")[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("{int8}", "--exclude", "/fc"),
            "intact: include, exclude: got patterns for a file that has",
        ),
        (("{net}", "--profile", "tpu"), "intact: profile: got 'tpu'"),
        (("{net}", "--precision", "int4"), "intact: --precision: got 'int4', want int8 or float"),
        (("{text}",), "intact: {text}: got "),
    ],
    ids=["patterns", "profile", "precision", "no-model"],
)
def test_a_mistake_is_one_line_and_status_2(
    run, net: Path, int8: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    files = {"net": net, "int8": int8, "text": tmp_path / "text.onnx"}
    files["text"].write_text("no model")
    status, _, err = run("explain", *(word.format(**files) for word in words))
    assert status == 2
    assert err.startswith(message.format(**files)) and err.count("\n") == 1


def test_a_file_that_is_not_there_is_status_2(run, tmp_path: Path) -> None:
    status, _, err = run("explain", tmp_path / "nowhere.onnx")
    assert status == 2 and "does not exist" in err and "Traceback" not in err
