"""``intact quantize --float-budget``: what it leaves in float, and what it says about that."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

NET = """<ir_version: 8, opset_import: ["" : 17]>
net (float[n, 8, 12, 12] x) => (float[n, 8, 12, 12] y) {
    wide = Conv <pads = [1, 1, 1, 1]> (x, w0)
    gate = Sigmoid (wide)
    wider = Mul (wide, gate)
    even = Conv (wider, w1)
    positive = Relu (even)
    large = Conv <pads = [1, 1, 1, 1]> (positive, w2)
    y = Conv <pads = [1, 1, 1, 1]> (large, w3)
}"""


@pytest.fixture
def words(tmp_path: Path) -> list[object]:
    """Of quantizing a network that has channels of sizes from 0.001 to 100 in front of a small layer."""
    rng = np.random.default_rng(0)
    sizes = np.logspace(-3, 2, 8).reshape(8, 1, 1, 1)
    model = parser.parse_model(NET)
    for name, shape in {
        "w0": (8, 8, 3, 3),
        "w1": (8, 8, 1, 1),
        "w2": (64, 8, 3, 3),
        "w3": (8, 64, 3, 3),
    }.items():
        array = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        array = (
            array * sizes if name == "w0" else array / sizes.reshape(1, 8, 1, 1) if name == "w1" else array
        )
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    onnx.save(model, tmp_path / "net.onnx")
    np.save(tmp_path / "images.npy", rng.standard_normal((32, 8, 12, 12)).astype(np.float32))
    return [
        "quantize", tmp_path / "net.onnx", "--data", tmp_path / "images.npy", "-o", tmp_path / "out.onnx",
        "--no-progress", "--equalization", "off",
    ]  # fmt: skip


def test_it_says_what_stays_in_float_and_why(run, words: list[object]) -> None:
    status, shown, _ = run(*words)
    assert status == 0 and "in float wider: chosen by the float budget: with 8 bits an output has" in shown
    cells = {c[1].strip(): c[2].strip() for c in (s.split("│") for s in shown.splitlines()) if len(c) > 2}
    assert cells["tensors left in float"].startswith("1 of ")


def test_nothing_stays_without_a_budget(run, words: list[object]) -> None:
    status, shown, _ = run(*words, "--float-budget", "0", "--json")
    assert status == 0 and json.loads(shown)["in_float"] == {}
    status, shown, _ = run(*words, "--json")
    assert status == 0 and list(json.loads(shown)["in_float"]) == ["wider"]


def test_a_budget_below_nothing_is_refused(run, words: list[object]) -> None:
    status, _, output = run(*words, "--float-budget", "-1")
    assert status != 0 and "float_budget" in output
