"""bfloat16 modules are quantized, and compiled to engines that compute in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import intact
import intact.torch
from intact.errors import QuantValueError


def test_a_bfloat16_module_compiles_and_takes_its_tensors():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(4, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 3)).to(torch.bfloat16).eval()
    x = torch.randn(2, 4, 9, 9).bfloat16()
    quantized = intact.quantize(module, [x], progress=False).model
    engine = intact.compile(quantized, x)
    assert [step.kind for step in engine.plan.steps] == ["quantize", "conv", "conv"]
    got = engine(x)
    np.testing.assert_array_equal(got, engine(x.float()))
    with torch.inference_mode():
        want = quantized(x).float().numpy()
    assert np.abs(got - want).max() < 2**-7 * np.abs(want).max()


@pytest.mark.parametrize(
    ("module", "shape", "opset"),
    [
        (nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 8)), (4, 16), 17),
        (
            nn.Sequential(nn.Conv2d(4, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
            (2, 4, 9, 9),
            22,
        ),
        (nn.Sequential(nn.Conv1d(16, 16, 3), nn.AvgPool1d(2), nn.Hardswish()), (2, 16, 9), 22),
        (nn.Sequential(nn.ConvTranspose2d(16, 8, 3), nn.AdaptiveAvgPool2d(1)), (2, 16, 5, 5), 22),
    ],
    ids=["linear", "conv", "average-pool", "transposed"],
)
def test_the_default_opset_has_the_operators_of_bfloat16(
    module: nn.Module, shape: tuple[int, ...], opset: int, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module, x = module.bfloat16().eval(), torch.randn(shape).bfloat16()
    quantized = intact.quantize(module, [x], progress=False).model
    report = intact.torch.export(quantized, x, tmp_path / "m.onnx")
    assert report.opset == opset
    engine = intact.compile(tmp_path / "m.onnx")
    np.testing.assert_array_equal(engine(x.float()), intact.compile(quantized, x)(x))


def test_an_opset_without_convolutions_of_bfloat16_is_refused_with_the_opset_to_take(tmp_path: Path) -> None:
    module, x = nn.Sequential(nn.Conv2d(4, 16, 3)).bfloat16().eval(), torch.randn(2, 4, 9, 9).bfloat16()
    quantized = intact.quantize(module, [x], progress=False).model
    with pytest.raises(QuantValueError, match="leave the opset out, or choose 22 or newer"):
        intact.torch.export(quantized, x, tmp_path / "m.onnx", opset=17)
