"""`intact verify --module`: the module that was exported, its file and the engine, tensor by tensor."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

SOURCE = """
import torch
from intact.torch import nn


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.QuantConv2d(3, 8, 3, padding=1)
        self.conv2 = nn.QuantConv2d(8, 8, 3, padding=1)
        self.residual = nn.TensorQuantizer()
        self.hidden = nn.QuantLinear(8, 8)
        self.fc = nn.QuantLinear(8, 4)

    def forward(self, x):
        x = self.conv1(x).relu_()
        x = (self.conv2(x) + self.residual(x)).relu_()
        return self.fc(self.hidden(x.mean((2, 3))).relu_())


def load_module():
    net = Net()
    net.load_state_dict(torch.load({weights!r}))
    {change}
    return net


quantized = load_module()
"""


@pytest.fixture(scope="module")
def export_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the network as net.onnx, its parameters as net.pt, and data.npy."""
    from intact.torch import calibrate, export

    folder, space = tmp_path_factory.mktemp("exported"), dict[str, Any]()
    exec(SOURCE.partition("def load_module")[0], space)
    torch.manual_seed(0)
    net, data = space["Net"]().eval(), torch.randn(32, 3, 8, 8)
    calibrate(net, [data], method="max")
    export(net, data[:2], folder / "net.onnx")
    torch.save(net.state_dict(), folder / "net.pt")
    np.save(folder / "data.npy", data[:16].numpy())
    return folder


@pytest.fixture
def verify(run: Callable, export_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Verifies net.onnx against the module after a change; the status, the JSON, and what is printed."""

    def command(change: str = "pass", module: str = "verified.py") -> tuple[int, dict[str, Any], str]:
        source = SOURCE.format(weights=str(export_folder / "net.pt"), change=change)
        (tmp_path / "verified.py").write_text(source)
        monkeypatch.chdir(tmp_path)
        words = (
            "verify",
            export_folder / "net.onnx",
            "--data",
            export_folder / "data.npy",
            "--module",
            module,
        )
        status, shown, _ = run(*words, "--traced", 2, "--json")
        return status, json.loads(shown), run(*words)[1]

    return command


def quantizer_counts(output: dict[str, Any], side: str) -> dict[str, tuple[int, int]]:
    """(compared, differing) by quantizer."""
    rows = [row for row in output["tensors"] if row["quantizer"]]
    return {row["quantizer"]: (row[side]["compared"], row[side]["differing"]) for row in rows}


def test_the_exported_module_agrees_with_its_file(verify: Callable) -> None:
    status, output, shown = verify()
    assert status == 0 and output["exact"] and output["departs"] is None and output["unmatched"] == []
    sizes = {"conv1": 192, "conv2": 512, "hidden": 8, "fc": 8}
    alone = quantizer_counts(output, "alone")
    assert {name: alone[f"{name}._input_quantizer"][0] for name in sizes} == {
        name: 16 * size for name, size in sizes.items()
    }
    weights = {"conv1": 216, "conv2": 576, "hidden": 64, "fc": 32}
    export = quantizer_counts(output, "export")
    assert {name: export[f"{name}._weight_quantizer"] for name in weights} == {
        name: (size, 0) for name, size in weights.items()
    }
    assert output["codes"]["module"]["compared"] == output["codes"]["alone"]["compared"] == 16 * 720
    assert output["codes"]["alone"]["differing"] <= 2 and output["codes"]["module"]["largest"] <= 1
    assert output["answers"]["module"] == {"compared": 16, "differing": 0, "largest": 0.0}
    for sentence in ("module against integer reference: ", "module against file in ONNX Runtime: "):
        assert f"codes, {sentence}" in shown
    assert "departs" not in shown


@pytest.mark.parametrize(
    ("change", "quantizer", "side"),
    [
        ("net.conv2.weight.data[3, 2, 1, 1] = 0.1", "conv2._weight_quantizer", "export"),
        ("net.hidden.weight.data[2, 5] = 0.1", "hidden._weight_quantizer", "export"),
        ("net.conv1.bias.data[0] += 1", "conv2._input_quantizer", "alone"),
        ("net.fc._input_quantizer.amax = net.fc._input_quantizer.amax * 2", "fc._input_quantizer", "alone"),
    ],
    ids=["a weight", "a weight that the file transposes", "a bias", "a range"],
)
def test_a_module_that_differs_is_found_in_its_layer(
    verify: Callable, change: str, quantizer: str, side: str
) -> None:
    status, output, shown = verify(change)
    assert status == 1 and output["exact"], "the engine is what the file says"
    departing = [row for row in output["tensors"] if row["departs"]]
    assert departing[0]["quantizer"] == quantizer and departing[0][side]["differing"] > 0
    behind = {"conv2._weight_quantizer": {"hidden._input_quantizer"}, "hidden._weight_quantizer": {
        "fc._input_quantizer"}}.get(quantizer, set())  # fmt: skip
    assert {row["quantizer"] for row in departing[1:]} <= behind, "layers that are alike do not depart"
    assert output["departs"] == departing[0]["layer"]
    assert ("of a step from a rounding boundary" in shown) == any(
        row["alone"]["differing"] for row in departing
    )
    assert f"the module departs by more than rounding, first in {output['departs']} ({quantizer})" in shown


def test_a_weight_stands_before_the_layer_that_reads_it(verify: Callable) -> None:
    _, output, _ = verify()
    order = [row["quantizer"] for row in output["tensors"] if row["quantizer"]]
    assert order.index("conv1._input_quantizer") < order.index("conv1._weight_quantizer")
    assert order.index("conv1._weight_quantizer") < order.index("conv2._input_quantizer")
    layers = {row["quantizer"]: row["layer"] for row in output["tensors"]}
    assert layers["conv1._weight_quantizer"] == layers["conv2._input_quantizer"], "conv1 reads one, makes one"


@pytest.mark.parametrize("attribute", ["quantized", "load_module"], ids=["a module", "what makes one"])
def test_a_module_may_be_importable(
    verify: Callable, monkeypatch: pytest.MonkeyPatch, attribute: str
) -> None:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    try:
        status, output, _ = verify(module=f"verified:{attribute}")
    finally:
        sys.modules.pop("verified", None)
    assert status == 0 and output["codes"]["module"]["compared"] > 0


@pytest.mark.parametrize("name", ["verified:nothing", "no_such_package:net", "verified", ""])
def test_a_module_that_cannot_be_imported_is_one_line(
    run: Callable, export_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "verified.py").write_text("")
    monkeypatch.chdir(tmp_path)
    words = ("verify", export_folder / "net.onnx", "--data", export_folder / "data.npy", "--module", name)
    try:
        status, _, output = run(*words)
    finally:
        sys.modules.pop("verified", None)
    assert status == 2 and output.startswith(f"intact: --module: got '{name}'") and output.count("\n") == 1


def test_a_quantizer_that_the_file_does_not_have_is_named(verify: Callable) -> None:
    add = (
        "net.conv1.register_forward_hook(lambda m, x, y: m.extra(y)); net.conv1.extra = nn.TensorQuantizer()"
    )
    status, output, shown = verify(f"{add}; net.conv1.extra.amax = torch.tensor(100.0)")
    assert output["unmatched"] == ["conv1.extra"] and "the file alone: conv1.extra" in shown
    assert status == 1, "it rounds where the file does not"
