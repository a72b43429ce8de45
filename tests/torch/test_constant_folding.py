"""Weights that a module computes of parameters by operators without an ONNX form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

import intact
from intact.errors import UnsupportedError
from intact.torch import export


class Solved(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        skew, identity = weight.triu(1) - weight.triu(1).T, torch.eye(len(weight))
        solution: Tensor = torch.linalg.solve(identity + skew, identity - skew)
        return solution


class Decomposed(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        u, s, v = torch.linalg.svd(weight)
        return u @ torch.diag(s.clamp(max=0.5)) @ v


class Inverse(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return torch.inverse(torch.eye(len(weight)) + weight / 8)


class Factor(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        factor: Tensor = torch.linalg.cholesky(weight @ weight.T + torch.eye(len(weight)))
        return factor


def with_weight(kind: type[nn.Module]) -> Callable[[nn.Module], nn.Module]:
    return lambda layer: parametrize.register_parametrization(layer, "weight", kind())


MAPS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "orthogonal": parametrizations.orthogonal,
    "householder": lambda layer: parametrizations.orthogonal(layer, orthogonal_map="householder"),
    **{kind.__name__: with_weight(kind) for kind in (Solved, Decomposed, Inverse, Factor)},
}


@pytest.mark.parametrize("parametrization", MAPS.values(), ids=MAPS.keys())
def test_computed_weights_are_codes_in_the_file_and_the_engine(
    parametrization: Callable[[nn.Module], nn.Module], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)).eval()
    parametrization(model[0])
    x = torch.randn(8, 16)
    result = intact.quantize(model, [x], method="max", progress=False)
    assert "0.weight_quantizer" in result.report.quantizers
    engine = intact.compile(result.model, x)
    np.testing.assert_allclose(engine(x.numpy()), result.model(x).detach(), atol=1e-5)
    report = export(result.model, x, tmp_path / "net.onnx")
    assert (report.pairs, report.folded) == (4, 2)
    nodes = {node.op_type for node in onnx.load(tmp_path / "net.onnx").graph.node}
    assert nodes == {"QuantizeLinear", "DequantizeLinear", "Gemm", "Relu"}


def test_the_module_goes_on_computing_its_weight() -> None:
    torch.manual_seed(0)
    layer = parametrizations.orthogonal(nn.Linear(16, 16))
    model = intact.quantize(nn.Sequential(layer).eval(), [torch.randn(4, 16)], progress=False).model
    model.train()(torch.randn(4, 16)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    with pytest.raises(RuntimeError, match="singular"):
        torch.inverse(torch.zeros(2, 2))


def test_a_decomposition_of_data_is_refused() -> None:
    class OfData(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(16, 16)

        def forward(self, x: Tensor) -> Tensor:
            return torch.linalg.svdvals(self.layer(x))

    x = torch.randn(8, 16)
    model = intact.quantize(OfData().eval(), [x], method="max", progress=False).model
    with pytest.raises(UnsupportedError, match="svd"):
        intact.compile(model, x)
