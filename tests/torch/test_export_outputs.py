"""Names of a file's outputs, lengths that stay open in it, and what a model answers besides tensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import onnx
import pytest
import torch
from torch import Tensor, nn

import intact
from intact.torch import export


class Cache:
    """Holds tensors where PyTorch does not find them."""


@dataclass
class Output:
    logits: Tensor
    states: tuple[Tensor, Tensor]
    loss: Tensor | None = None


class Pair(NamedTuple):
    logits: Tensor
    hidden: Tensor


class Net(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.first, self.last, self.kind = nn.Linear(16, 16), nn.Linear(16, 8), kind

    def forward(self, x: Tensor) -> Any:
        h = torch.relu(self.first(x))
        y = self.last(h)
        answers = {
            "dict": {"logits": y, "x": h}, "data class": Output(y, (h, h + 1)), "tuple": Pair(y, h),
            "tensor": y, "cache": {"logits": y, "cache": Cache()},
        }  # fmt: skip
        return answers[self.kind]


def export_net(kind: str, path: Path, **options: Any) -> onnx.ModelProto:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 16)
    result = intact.quantize(Net(kind).eval(), [x], method="max", progress=False)
    export(result.model, x, path, **options)
    return onnx.load(path)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("dict", ["logits", "relu"]),  # an input is called x
        ("data class", ["logits", "states_0", "states_1"]),
        ("tuple", ["logits", "hidden"]),
    ],
)
def test_outputs_are_called_as_the_model_calls_them(kind: str, names: list[str], tmp_path: Path) -> None:
    graph = export_net(kind, tmp_path / "net.onnx").graph
    assert [output.name for output in graph.output] == names
    onnx.checker.check_model(str(tmp_path / "net.onnx"), full_check=True)


def test_names_that_are_asked_for_are_taken(tmp_path: Path) -> None:
    graph = export_net("dict", tmp_path / "net.onnx", output_names=["a", "b"]).graph
    assert [output.name for output in graph.output] == ["a", "b"]


def test_a_length_may_stay_open(tmp_path: Path) -> None:
    open_sizes = {"x": {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}}
    graph = export_net("tensor", tmp_path / "net.onnx", dynamic_shapes=open_sizes).graph
    for value in (graph.input[0], graph.output[0]):
        assert [d.dim_param for d in value.type.tensor_type.shape.dim[:2]] == ["batch", "length"]


def test_what_is_left_out_of_the_file_is_said(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"Net answers 'cache' \(Cache\), which are no tensors"):
        graph = export_net("cache", tmp_path / "net.onnx").graph
    assert [output.name for output in graph.output] == ["logits"]
