"""Einsum in graph mode: products of activations and of weights are seen into."""

from __future__ import annotations

import json

import numpy as np
import torch
from torch import Tensor, nn

import intact
from intact.torch import export
from intact.torch.graph_mode.record import GraphModeRecord


class Scores(nn.Module):
    """Sums over two axes, a product by a vector, an outer product, and one of no axes of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.qk, self.out = nn.Linear(32, 64), nn.Linear(12, 16)

    def forward(self, x: Tensor) -> Tensor:
        q, k = self.qk(x).unflatten(-1, (2, 4, 8)).unbind(2)
        scores = torch.einsum("bihd,bjhd->bij", q, k)
        means = torch.einsum("bij,bj->bi", scores.softmax(-1), torch.einsum("bihd,bihd->bi", q, k))
        return self.out(torch.einsum("bi,bj->bij", means, means.tanh()) + scores)


def test_sums_over_several_axes_and_vectors_are_seen_into(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(2, 12, 32)
    result = intact.quantize(Scores().eval(), [x], method="max", progress=False)
    layers = {layer.name: layer.precision for layer in result.placement.layers if layer.op_type == "MatMul"}
    assert layers["einsum/MatMul"] == "int8"
    report = export(result.model, x, tmp_path / "model.onnx")
    assert report.codes and not report.not_compared and all(c.largest <= 1 for c in report.quantizers)
    engine = intact.compile(tmp_path / "model.onnx")
    assert all(step.native for step in engine.plan.steps)
    assert np.allclose(engine(x.numpy()), result.model(x).detach(), atol=1e-3)


class OfWeights(nn.Module):
    """Projections as XLNet writes them: to heads, from heads, and one weight read in two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.v = nn.Parameter(torch.randn(32, 4, 8) / 5), nn.Parameter(torch.randn(4, 8, 32) / 5)

    def forward(self, x: Tensor) -> Tensor:
        heads = torch.einsum("bth,hnd->btnd", x, self.w).relu()
        back = torch.einsum("btnd,ndo->bto", heads, self.v)
        return torch.einsum("btnd,hnd->bth", torch.einsum("hnd,bth->btnd", self.w, back), self.w)


def test_weights_of_einsums_are_quantized_along_what_they_make(tmp_path):
    torch.manual_seed(0)
    model, x = OfWeights(), torch.randn(2, 20, 32)
    result = intact.quantize(model, [x], method="max", progress=False)
    assert not result.report.left
    axes = {
        name: result.model.get_submodule(name).axis for name in result.report.quantizers if name[1] == "_"
    }
    assert axes == {"w_quantizer": (1, 2), "v_quantizer": 2, "w_quantizer_1": 0}
    assert result.model.w_quantizer.amax.shape == (1, 4, 8)
    report = export(result.model, x, tmp_path / "model.onnx")
    assert report.codes_differing == 0 and report.folded == 3 and not report.not_compared
    engine = intact.compile(tmp_path / "model.onnx")
    assert [step.kind for step in engine.plan.steps].count("linear") == 4
    assert all(step.native for step in engine.plan.steps)
    got, ours, real = engine(x.numpy()), result.model(x).detach().numpy(), model(x).detach().numpy()
    assert np.allclose(got, ours, atol=1e-5)
    assert np.linalg.norm(got - real) < 0.04 * np.linalg.norm(real)


def test_they_learn_and_are_loaded_again(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(2, 20, 32)
    result = intact.quantize(OfWeights(), [x], method="max", progress=False)
    result.model(x).square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in result.model.parameters())
    record = result.model._graph_record
    assert GraphModeRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


class Mixed(nn.Module):
    """A product for which no axis of the weight tells the channels apart: one scale for all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 32, 16))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("bnth,nhd->bntd", x, self.w)


def test_a_matrix_for_each_head_has_one_scale(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(2, 4, 20, 32)
    result = intact.quantize(Mixed(), [x], method="max", progress=False)
    assert result.model.w_quantizer.axis is None
    report = export(result.model, x, tmp_path / "model.onnx")
    assert report.codes_differing == 0 and report.folded == 1
    engine = intact.compile(tmp_path / "model.onnx")
    assert np.allclose(engine(x.numpy()), result.model(x).detach().numpy(), atol=1e-4)
