"""Weights that calls make of parameters: each gets the grid of a weight, and runs as one."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import intact
from intact.torch import export, load_checkpoint, save_checkpoint
from intact.torch.graph_mode.record import GraphModeRecord


class Transposed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w, self.v = nn.Parameter(torch.randn(48, 32) / 5), nn.Parameter(torch.randn(48, 32) / 5)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x @ self.w.t(), (self.v * 2).T)


class Standardized(nn.Module):
    """A convolution whose weights have mean 0 and variance 1, as in networks without norms."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(24, 16, 3, 3) * torch.linspace(0.1, 2, 24).view(-1, 1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        mean, var = self.w.mean((1, 2, 3), keepdim=True), self.w.var((1, 2, 3), keepdim=True)
        return F.conv2d(x, (self.w - mean) * torch.rsqrt(var + 1e-5), padding=1)


CASES = {
    Transposed: ((2, 20, 32), {"matmul_weight_quantizer": 1, "linear_weight_quantizer": 0}),
    Standardized: ((2, 16, 9, 9), {"conv2d_weight_quantizer": 0}),
}


@pytest.mark.parametrize("method", ["max", "entropy", "auto"])
@pytest.mark.parametrize("kind", CASES)
def test_they_are_quantized_as_weights_are(kind, method, tmp_path):
    torch.manual_seed(0)
    shape, axes = CASES[kind]
    model, x = kind().eval(), torch.randn(shape)
    result = intact.quantize(model, [x], method=method, progress=False)
    quantizers = {name: result.model.get_submodule(name) for name in axes}
    assert {name: q.axis for name, q in quantizers.items()} == axes
    assert all((q.format, q.symmetric) == ("int8", True) for q in quantizers.values())
    assert all(result.calibration.methods[name] == "max" for name in axes)
    report = export(result.model, x, tmp_path / "model.onnx")
    assert report.codes_differing == 0 and report.folded == len(axes)
    engine = intact.compile(tmp_path / "model.onnx")
    kinds = {step.kind for step in engine.plan.steps}
    assert kinds & {"linear", "conv"} and not any(kind.startswith("float") for kind in kinds)
    assert np.allclose(engine(x.numpy()), result.model(x).detach().numpy(), atol=1e-4)


def test_they_are_learned_and_kept(tmp_path):
    torch.manual_seed(0)
    model, x = Transposed(), torch.randn(2, 20, 32)
    result = intact.quantize(copy.deepcopy(model), [x], method="max", progress=False)
    result.model(x).square().mean().backward()
    assert all(p.grad.abs().sum() > 0 for p in (result.model.w, result.model.v))
    record = result.model._graph_record
    assert GraphModeRecord.from_json(record.to_json()) == record
    assert {item.name for item in record.inserted if item.computed} == set(CASES[Transposed][1])
    save_checkpoint(result.model, tmp_path / "model.safetensors")
    again = load_checkpoint(model, tmp_path / "model.safetensors")
    assert torch.equal(again(x), result.model(x))


def test_a_record_without_the_word_is_one_of_activations():
    inserted = {"name": "q", "tensors": [], "weight": "", "axis": None}
    (item,) = GraphModeRecord.from_json({"inserted": [inserted], "made": []}).inserted
    assert not item.is_weight


def test_ranges_are_chosen_again_without_those_that_went_to_float():
    torch.manual_seed(0)
    result = intact.quantize(Transposed().eval(), [torch.randn(2, 20, 32)], method="max", progress=False)
    left, quantized_layer = (result.model.get_submodule(name) for name in CASES[Transposed][1])
    left.disable()
    before = quantized_layer.amax.clone()
    quantized_layer.amax.mul_(2)
    result.calibration.apply("auto")
    assert torch.equal(quantized_layer.amax, before)
