"""``intact quantize --bits16``: what it is told, what it says, and when it is advised."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from intact.ptq import GOOD_DB, POOR_DB

NET = """<ir_version: 8, opset_import: ["" : 17]>
net (float[n, 32] x) => (float[n, 32] y) {
    wide = MatMul (x, w0)
    even = LayerNormalization (wide, gamma)
    y = MatMul (even, w1)
}"""


@pytest.fixture
def uneven(tmp_path: Path) -> tuple[Path, Path]:
    """A network whose rows are of sizes from 0.1 to 10, and such rows."""
    rng = np.random.default_rng(0)
    model = parser.parse_model(NET)
    arrays = {name: rng.standard_normal((32, 32)).astype(np.float32) / 6 for name in ("w0", "w1")}
    for name, array in (arrays | {"gamma": np.ones(32, np.float32)}).items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.save(model, tmp_path / "uneven.onnx")
    rows = rng.standard_normal((128, 32)) * 10 ** rng.uniform(-1, 1, (128, 1))
    np.save(tmp_path / "rows.npy", rows.astype(np.float32))
    return tmp_path / "uneven.onnx", tmp_path / "rows.npy"


def quantize_words(uneven: tuple[Path, Path], folder: Path) -> tuple[str | Path, ...]:
    return "quantize", uneven[0], "--data", uneven[1], "-o", folder / "out.onnx", "--no-progress"


def test_it_is_advised_where_8_bits_are_poor_and_then_says_what_it_did(
    run, uneven: tuple[Path, Path], tmp_path: Path
) -> None:
    words = (*quantize_words(uneven, tmp_path), "--dynamic-ranges", "off")
    status, shown, _ = run(*words, "--float-budget", "0")
    assert status == 0 and "or a part of one: --bits16 auto gives 16" in " ".join(shown.split())
    assert "tensors with 16 bits" not in shown
    status, shown, _ = run(*words, "--bits16", "auto")
    assert status == 0 and "--bits16 auto" not in shown
    cells = {c[1].strip(): c[2].strip() for c in (s.split("│") for s in shown.splitlines()) if len(c) > 2}
    assert cells["tensors with 16 bits"] == "2 of 2" and cells["layers in int8"] == "2"
    assert "16 bits for x: chosen by bits16='auto': with 8 bits an output has" in " ".join(shown.split())


def test_json_has_all_of_it(run, uneven: tuple[Path, Path], tmp_path: Path) -> None:
    words = (*quantize_words(uneven, tmp_path), "--dynamic-ranges", "off", "--json")
    output = json.loads(run(*words, "--float-budget", "0")[1])
    assert output["sqnr_db"]["y"] < POOR_DB and "--bits16 auto" in output["advice"] and output["bits16"] == {}
    output = json.loads(run(*words, "--bits16", "auto")[1])
    assert (
        output["sqnr_db"]["y"] > GOOD_DB
        and output["advice"] is None
        and list(output["bits16"]) == ["x", "even"]
    )
    output = json.loads(run(*words, "--bits16", "even", "--bits16", "w?de")[1])
    assert output["bits16"] == {"even": "bits16 names it: 'even'"}
    assert output["warnings"][0] == "bits16: 'w?de' fits nothing that is quantized to 8 bits"
    assert ["below 25" in line for line in output["warnings"][1:]] == [True]


def test_the_file_is_verified_and_explained(run, uneven: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    run("quantize", uneven[0], "--data", uneven[1], "-o", out, "--no-progress", "--bits16", "auto")
    status, shown, err = run("verify", out, "--data", uneven[1])
    assert status == 0, shown + err
    layers = {row["op_type"]: row for row in json.loads(run("explain", out, "--json")[1])["layers"]}
    assert layers["MatMul"]["precision"] == "int8"
    assert "codes of 16 bits" in layers["MatMul"]["reason"]


def test_tensorrt_is_not_advised_what_it_refuses(run, uneven: tuple[Path, Path], tmp_path: Path) -> None:
    words = quantize_words(uneven, tmp_path)
    status, shown, _ = run(*words, "--profile", "tensorrt")
    assert status == 0 and "--bits16" not in shown
    status, _, err = run(*words, "--profile", "tensorrt", "--bits16", "auto")
    assert status == 2 and "tensorrt does not read codes of 16 bits" in " ".join(err.split())


def test_auto_among_patterns_is_refused(run, uneven: tuple[Path, Path], tmp_path: Path) -> None:
    words = quantize_words(uneven, tmp_path)
    status, _, err = run(*words, "--bits16", "auto", "--bits16", "x")
    assert status == 2 and "--bits16: got auto, x, want auto, never, or patterns" in " ".join(err.split())
