"""Sentences of `quantize` and `export` on a module's agreement with the engine and with other runtimes."""

from __future__ import annotations

from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

import intact
from intact.engine.compare import compare
from intact.graph import load, read_named_pairs
from intact.placement import AGREEMENT_KEY
from intact.torch import export, quantize
from intact.torch.models.array_runner import Runner


class Normed(nn.Module):
    """A linear layer between a norm and a function."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.linear(self.norm(x)))


def test_reports_and_the_file_say_which_float_steps_are_each_runtimes_own(tmp_path: Path) -> None:
    x = torch.randn(4, 16)
    result = quantize(Normed(), [x], progress=False)
    report = export(result.model, x, tmp_path / "m.onnx")
    steps = {"LayerNormalization": 1, "Tanh": 1}
    assert result.report.float_steps == report.float_steps == steps and report.fallback_parts == 0
    assert report.agreement.startswith(
        "module = engine on all 64 codes and 64 outputs of 4 samples; in other"
    )
    assert "; in other runtimes 2 float steps (LayerNormalization x 1, Tanh x 1)" in report.agreement
    assert report.agreement in str(report) and result.report.agreement in str(result.report)
    (entry,) = onnx.load(tmp_path / "m.onnx").metadata_props
    assert entry.key == AGREEMENT_KEY and "2 float steps (LayerNormalization x 1, Tanh x 1)" in entry.value


class Ordered(nn.Module):
    """A convolution without a batch norm, so that nothing but sums of codes is left."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.conv(x))


def test_a_model_of_integer_layers_alone_has_no_step_to_name(tmp_path: Path) -> None:
    x = torch.randn(2, 8, 8, 8)
    result = quantize(Ordered(), [x], progress=False)
    report = export(result.model, x, tmp_path / "m.onnx", verify=False)
    assert result.report.float_steps == report.float_steps == {}
    assert report.agreement == (
        "module and engine were not compared: verify=False; "
        "other runtimes give the same codes where their float32 sums are exact"
    )
    assert report.agreement in str(report)


class Volumes(nn.Module):
    """Determinants, for which the engine has no step."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.det(self.linear(x).reshape(-1, 4, 4))


def test_nothing_is_claimed_of_parts_in_onnx_runtime(tmp_path: Path) -> None:
    x = torch.randn(4, 16)
    report = export(quantize(Volumes(), [x], progress=False).model, x, tmp_path / "m.onnx")
    assert report.fallback_parts == 1 and report.float_steps == {"Det": 1}
    assert (
        "; last bits of linalg_det x 1, which PyTorch computes, and of 1 part in ONNX Runtime may differ"
        in report.agreement
    )


class Attention(nn.Module):
    """Masked attention, whose softmax the exporter guards against rows of NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(32, 96)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, 16)).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def test_the_codes_of_a_guarded_softmax_are_compared(tmp_path: Path) -> None:
    x = torch.randn(2, 16, 32)
    result = quantize(Attention().eval(), [x], progress=False)
    export(result.model, x, tmp_path / "m.onnx", verify=False)
    model, engine = load(tmp_path / "m.onnx"), intact.compile(tmp_path / "m.onnx", threads=1)
    feeds = {engine.inputs[0].name: x.numpy()}
    comparison = compare(model, engine, [feeds], module=Runner(result.model, read_named_pairs(model)))
    assert any(node.op_type == "IsNaN" for node in model.graph), "there is a guard"
    assert comparison.unmatched == () and comparison.outputs["export"].compared == 2 * 2 * 16 * 16
