"""Einsum in graph mode: products of activations are seen into, those of weights are named."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import intact
from intact.errors import QuantValueError
from intact.torch import export


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
    def __init__(self) -> None:
        super().__init__()
        self.w, self.v = nn.Parameter(torch.randn(32, 4, 8)), nn.Parameter(torch.randn(4, 8, 32))

    def forward(self, x: Tensor) -> Tensor:
        heads = torch.einsum("bth,hnd->btnd", x, self.w).relu()
        return torch.einsum("btnd,ndo->bto", heads, self.v)


def test_an_einsum_of_a_weight_is_named():
    x = torch.randn(2, 5, 32)
    result = intact.quantize(OfWeights(), example=x, progress=False)
    assert set(result.report.left) == {"einsum", "einsum_1"}
    assert all("an einsum of a weight" in reason for reason in result.report.left.values())
    with pytest.raises(QuantValueError, match=r"nothing that runs in int8 \('einsum': an einsum of a weight"):
        intact.quantize(OfWeights(), [x], progress=False)
