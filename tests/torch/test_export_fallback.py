"""`torch.onnx.export` of a model with quantizers, where the dynamo exporter cannot trace it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import intact.torch
from intact.errors import UnsupportedError
from intact.torch import nn as quant_nn

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{message}")
    for message in (
        "Converting a tensor to a Python",
        "# 'dynamic_axes' is not",
        "from_dynamic_axes_to",
        "The feature",
    )
]
FREE = {"x": {0: "n", 2: "h", 3: "w"}}


class Branches(nn.Module):
    """Code that looks at height and width, as old segmentation networks do."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = quant_nn.QuantConv2d(3, 8, 3, padding=1), quant_nn.QuantConv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        assert int(x.shape[2]) >= 8
        output: Tensor = self.last(torch.relu(self.first(x)))
        return output


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    branches = Branches().eval()
    intact.torch.calibrate(branches, [torch.randn(1, 3, 16, 16)], method="max", progress=False)
    return branches


def write(model: nn.Module, path: Path, **options: Any) -> None:
    x = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    torch.onnx.export(model, x, path, input_names=["x"], output_names=["y"], dynamic_axes=FREE, **options)


def test_free_heights_are_written_by_the_older_exporter_with_a_warning(
    model: nn.Module, tmp_path: Path
) -> None:
    with pytest.warns(
        UserWarning, match="TorchScript exporter wrote the file, because .*from torch's exporter"
    ):
        write(model, tmp_path / "net.onnx")
    operators = [node.op_type for node in onnx.load(tmp_path / "net.onnx").graph.node]
    assert operators.count("QuantizeLinear") == 4
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    x = torch.randn(2, 3, 24, 24, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        close = np.isclose(session.run(None, {"x": x.numpy()})[0], model(x), atol=1e-5)
    assert close.mean() > 0.99  # ONNX Runtime adds in another order: few codes lie beside a boundary


def test_the_exporter_that_was_asked_for_refuses(model: nn.Module, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="from torch's exporter"):
        write(model, tmp_path / "net.onnx", dynamo=True)
    assert not (tmp_path / "net.onnx").exists()
