"""Fourier layers (FNO): einsum of complex numbers in modules, files and engines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import intact
import intact.torch
from intact.errors import UnsupportedError


class Spectral(nn.Module):
    """Multiplies the lowest frequencies of an image by complex weights."""

    def __init__(self, channels: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        shape = channels, channels, modes, modes
        self.low, self.high = (
            nn.Parameter(torch.rand(shape, dtype=torch.cfloat) / channels**2) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        m, spectrum = self.modes, torch.fft.rfft2(x)
        result = torch.zeros_like(spectrum)
        result[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.low)
        result[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.high)
        return torch.fft.irfft2(result, s=x.shape[-2:])


class Fno(nn.Module):
    """A small Fourier neural operator."""

    def __init__(self, width: int = 16, modes: int = 4) -> None:
        super().__init__()
        self.lift, self.project = nn.Conv2d(1, width, 1), nn.Conv2d(width, 1, 1)
        self.spectral = nn.ModuleList(Spectral(width, modes) for _ in range(2))
        self.skip = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.lift(x)
        for spectral, skip in zip(self.spectral, self.skip, strict=True):
            x = F.gelu(spectral(x) + skip(x))
        return self.project(x)


def test_a_fourier_neural_operator_is_quantized_exported_and_compiled(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, x = Fno().eval(), torch.randn(4, 1, 16, 16)
    model = intact.quantize(net, [x], progress=False).model
    expected = model(x).detach().numpy()
    assert np.linalg.norm(expected - net(x).detach().numpy()) < 0.03 * np.linalg.norm(expected)
    report = intact.torch.export(model, x, tmp_path / "m.onnx")
    assert not report.comparison.skipped and report.pairs
    for engine in (intact.compile(tmp_path / "m.onnx"), intact.compile(model, x)):
        assert sum(step.kind == "conv" for step in engine.plan.steps) >= 3
        assert np.abs(engine(x) - expected).max() < 0.02 * np.abs(expected).max()  # FFTs are PyTorch's own


@pytest.mark.parametrize("equation", ["bi,io->bo", "...i,io->...o", "bi->b"])
def test_einsums_of_complex_numbers_are_torchs(equation: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(32, 32)
            self.weight = nn.Parameter(torch.randn(32, 8, dtype=torch.cfloat))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            z = torch.complex(x, x.flip(-1))
            operands = (z, self.weight) if "," in equation else (z,)
            return self.layer(x), torch.view_as_real(torch.einsum(equation, *operands))

    torch.manual_seed(0)
    x = torch.randn(4, 32)
    model = intact.quantize(Net().eval(), [x], exclude=["complex"], progress=False).model
    engine = intact.torch.compile(model, x)
    outputs = list(engine.run({engine.inputs[0].name: x.numpy()}).values())
    np.testing.assert_allclose(outputs[1], model(x)[1].detach().numpy(), rtol=1e-4, atol=1e-4)


def test_an_einsum_of_three_complex_tensors_is_refused_by_name() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            z = torch.complex(x, x)
            return self.layer(x) + torch.einsum("bi,bi,bi->bi", z, z, z).real

    x = torch.randn(4, 32)
    model = intact.quantize(Net().eval(), [x], progress=False).model
    with pytest.raises(UnsupportedError, match=r"aten\.einsum"):
        intact.torch.compile(model, x)
