"""Reports describe module and engine by what a comparison that ran has counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import intact
from intact.errors import UnsupportedError
from intact.torch import export, quantize, quantize_dynamic
from intact.torch.qdq import compare_engine


def difference(model: nn.Module, x: Tensor, **options: Any) -> int:
    """Count the numbers of module and engine that are not the same in every bit."""
    with torch.no_grad():
        ours = model(x).numpy()
    engine = intact.torch.compile(model, x, threads=1, **options)
    return int((ours != engine(x.numpy())).sum())


class Doubtful(nn.Module):
    """A determinant, which ONNX Runtime computes, between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x)
        return self.behind(y * torch.linalg.det(y.reshape(-1, 4, 4))[:, None])


class Differing(nn.Module):
    """Rounds to float16 in between, which engines do not."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = nn.Linear(16, 64), nn.Linear(64, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x).half()
        return self.behind((y * y + y).float())


def test_a_report_counts_what_differs_and_names_the_first_tensor(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(32, 16)
    result = quantize(Differing(), [x], progress=False, float_budget=0)
    report = export(result.model, x, tmp_path / "m.onnx")
    comparison = report.comparison
    assert comparison.values_differing and not comparison.equal and comparison.values == 32 * 8
    assert report.agreement.startswith("module and engine differ on 32 samples: ")
    assert "first in 'behind._input_quantizer': " in report.agreement
    assert "float16" in report.agreement and "module = engine" not in str(report)
    assert result.report.comparison.samples == compare_engine.MOST_SAMPLES
    assert "module = engine" not in str(result.report)


def test_functions_that_pytorch_computes_itself_are_named(tmp_path: Path) -> None:
    x = torch.randn(8, 16)
    result = quantize(Doubtful(), [x], progress=False)
    assert "linalg_det x 1, which PyTorch computes" in result.report.agreement
    assert "1 part in ONNX Runtime" in result.report.agreement


def test_a_report_follows_the_module_and_compares_again_when_it_changes() -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 16)
    result = quantize(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8)), [x], progress=False)
    first = result.report.comparison
    assert first.equal and result.report.comparison is first
    with torch.no_grad():
        result.model[0].weight.mul_(0.5)  # type: ignore[index, operator, union-attr]
    again = result.report.comparison
    assert again is not first and again.equal
    assert result.compare(torch.randn(3, 16)).samples == 3


def test_nothing_is_said_of_what_was_not_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    x = torch.randn(4, 16)
    result = quantize(nn.Sequential(nn.Linear(16, 16)), example=x)
    assert "module and engine were not compared: " in str(result.report)  # no ranges yet
    result = quantize(nn.Sequential(nn.Linear(16, 16)), [x], progress=False)
    report = export(result.model, x, tmp_path / "m.onnx", verify=False)
    assert "module and engine were not compared: verify=False" in str(report)
    monkeypatch.setattr(compare_engine, "MOST_PARAMETERS", 100)
    assert "not compared: 272 parameters take long to compile" in str(result.report)
    assert result.compare(x).equal


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_modules_of_half_precision_are_measured(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 32), nn.SiLU(), nn.LayerNorm(32), nn.Linear(32, 16)).to(dtype)
    x = torch.randn(4, 32).to(dtype)
    result = quantize(net, [x], progress=False)
    text = str(result.report)
    assert "module = engine" not in text or not difference(result.model, x)


@pytest.mark.parametrize("groups", [1, 2, 4, 16])
def test_transposed_convolutions_with_groups_run_in_integers(groups: int) -> None:
    torch.manual_seed(0)
    net, x = (
        nn.Sequential(nn.ConvTranspose2d(16, 16, 3, stride=2, groups=groups)).eval(),
        torch.randn(2, 16, 5, 5),
    )
    model = quantize(net, [x], progress=False).model
    assert difference(model, x) == 0
    engine = intact.torch.compile(model, x, threads=1)
    assert "ConvTranspose" in {type(step).__name__ for step in engine.plan.steps}


class BehindRecurrent(nn.Module):
    """A layer in float behind a recurrent one, whose sizes the batch decides."""

    def __init__(self, kind: str, hidden: int) -> None:
        super().__init__()
        self.before = nn.Linear(16, 16)
        self.layer = getattr(nn, kind)(16, hidden, batch_first=True)
        self.behind = nn.Linear(hidden, 5)

    def forward(self, x: Tensor) -> Tensor:
        batch, steps, size = x.shape
        y = self.before(x).view(batch, steps, 2, 8).transpose(2, 3).reshape(batch, steps, size)
        return self.behind(self.layer(y)[0])


@pytest.mark.parametrize("kind", ["RNN", "LSTM"])
def test_a_bias_begins_sums_whether_the_batch_is_open_or_not(kind: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 9, 16)
    model = quantize(BehindRecurrent(kind, 8).eval(), [x], progress=False).model
    assert difference(model, x, dynamic_batch=True) == difference(model, x, dynamic_batch=False) == 0


@pytest.mark.parametrize(
    "convert",
    [
        lambda net: intact.quantize(net, weights="int4", block=32).model,
        lambda net: intact.quantize(net, weights="int4", block=32, activations="dynamic-int8").model,
        quantize_dynamic,
    ],
    ids=["int4 floats", "int4 codes", "quantize_dynamic"],
)
def test_modules_with_block_weights_are_their_engines(convert: Any) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    net, x = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval(), torch.randn(2, 5, 64)
    model = convert(net).eval()
    assert difference(model, x) == 0
    model.train()
    model(x).sum()  # training is PyTorch's own
    model.eval()
    with pytest.raises(AssertionError):
        model(torch.randn(2, 5, 63))
    assert difference(model, x) == 0  # an error in between leaves nothing open


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("divisor", [1, 3, 9])
def test_average_pools_divide_by_the_divisor_that_overrides(divisor: int, ceil_mode: bool) -> None:
    torch.manual_seed(0)
    pool = nn.AvgPool2d(3, 2, padding=1, ceil_mode=ceil_mode, divisor_override=divisor)
    net = nn.Sequential(pool, nn.Conv2d(6, 12, 3, padding=1)).eval()
    x = torch.randn(2, 6, 8, 10)
    model = quantize(net, [x], progress=False).model
    assert difference(model, x, dynamic_batch=not ceil_mode) == 0
    with torch.no_grad():
        expected, ours = net(x), model(x)
    assert (expected - ours).abs().max() < 0.03 * expected.abs().max()


class Smoothed(nn.Module):
    """Resizes an image with a smoothing kernel, beside a layer."""

    def __init__(self, mode: str, align_corners: bool) -> None:
        super().__init__()
        self.conv, self.options = nn.Conv2d(8, 8, 3, padding=1), (mode, align_corners)

    def forward(self, x: Tensor) -> Tensor:
        mode, corners = self.options
        image = nn.functional.interpolate(
            x, (5, 12), mode=mode, align_corners=corners, antialias=True
        )  # fmt: skip
        return torch.cat([image.flatten(1), self.conv(x).flatten(1)], 1)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_smoothed_images_are_pytorchs_and_the_engines(mode: str) -> None:
    torch.manual_seed(0)
    net, x = Smoothed(mode, False).eval(), torch.randn(2, 8, 8, 9)
    result = quantize(net, [x], progress=False)
    with torch.no_grad():
        image, expected = result.model(x)[:, : 8 * 60], net(x)[:, : 8 * 60]
    assert (image - expected).abs().max() < 1e-5 and difference(result.model, x) == 0
    with pytest.raises(UnsupportedError, match="upsample"):
        intact.torch.compile(quantize(Smoothed(mode, True).eval(), [x], progress=False).model, x)
