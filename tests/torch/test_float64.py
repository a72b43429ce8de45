"""Products of float64 are quantized; what ONNX Runtime lacks in float64 stays in float, with what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import intact
import intact.torch
from intact.errors import QuantValueError, UnsupportedError

LAYERS = {
    "conv": (nn.Conv2d(4, 16, 3), (2, 4, 9, 9)),
    "lstm": (nn.LSTM(32, 16, batch_first=True), (2, 5, 32)),
}


def test_linear_layers_in_float64_are_quantized_and_equal_their_engine() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4)).double().eval()
    x = torch.randn(8, 32, dtype=torch.float64)
    result = intact.quantize(module, [x], progress=False)
    assert not result.report.left
    got = intact.compile(result.model, x)(x)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, result.model(x).detach().numpy())


@pytest.mark.parametrize("kind", LAYERS)
def test_a_float64_module_is_refused_with_what_to_do(kind: str) -> None:
    layer, shape = LAYERS[kind]
    module, x = nn.Sequential(layer).double().eval(), torch.randn(shape, dtype=torch.float64)
    with pytest.raises(QuantValueError, match=r"float64.*make model and data float32.*`module\.float\(\)`"):
        intact.quantize(module, [x], progress=False)


def test_an_untraceable_float64_module_is_refused_with_what_to_do() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(4, 16, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x) if float(x.sum()) > 0 else self.layer(-x)

    x = torch.randn(2, 4, 9, 9, dtype=torch.float64)
    with pytest.raises(QuantValueError, match=r"'layer': it reads float64"):
        intact.quantize(Branches().double().eval(), [x], progress=False)


class Mixed(nn.Module):
    """A float32 layer, and a recurrent one in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(32, 32), nn.LSTM(32, 4, batch_first=True).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.layer(x)).double())[0].float()


def test_a_float64_layer_stays_in_float_beside_quantized_ones() -> None:
    torch.manual_seed(0)
    result = intact.quantize(Mixed().eval(), [torch.randn(2, 8, 32)], progress=False)
    ((name, reason),) = result.report.left.items()
    assert name.startswith("head") and "it reads float64" in reason
    assert "layer" in result.report.modules and result.model.head.weight_ih_l0.dtype == torch.float64


def test_an_engine_without_a_float64_operator_says_so() -> None:
    module = intact.torch.replace_modules(nn.Sequential(nn.Conv2d(4, 16, 3))).model
    x = torch.randn(2, 4, 9, 9)
    intact.torch.calibrate(module, [x], progress=False)
    with pytest.raises(UnsupportedError, match="make model and data float32"):
        intact.torch.compile(module.double(), x.double())(x.double())


def test_a_float64_file_is_quantized(tmp_path: Path) -> None:
    weight = onnx.numpy_helper.from_array(np.random.default_rng(0).standard_normal((32, 16)), "w")
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (double[N, 32] x) => (double[N, 16] y) {y = MatMul(x, w)}'
    )
    model.graph.initializer.append(weight)
    onnx.save(model, tmp_path / "m.onnx")
    result = intact.quantize(tmp_path / "m.onnx", [np.ones((4, 32))], progress=False)
    assert result.ranges or result.dynamic
