"""Small epsilons and factors near 1 are in the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.torch.engine_of_module import assert_engine_equals_module
from torch import Tensor, nn

import intact

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: torch.rsqrt(x * x * 1e-9 + 1e-8),
    "difference": lambda x: torch.rsqrt(x * x * 1e-9 - (-1e-9)),
    "product": lambda x: x * 1.000005 - x,
    "quotient": lambda x: x / 0.999995 - x,
    "left": lambda x: 1e-8 + x * 1e-9,
}


class Net(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.function = nn.Linear(32, 32), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.first(x))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_module_and_engine_are_equal(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    data = [(torch.randn(4, 32),) for _ in range(3)]
    result = intact.quantize(Net(FUNCTIONS[name]).eval(), data, progress=False, float_budget=0)
    assert_engine_equals_module(result.model, data[0][0], tmp_path / "m.onnx")


@pytest.mark.parametrize("kind", ["conv", "transposed", "linear"])
def test_a_norm_behind_a_layer_in_float_stays_its_own_operator(kind: str, tmp_path: Path) -> None:
    """Folded into weights it rounds otherwise than in the module."""
    torch.manual_seed(0)
    first: nn.Module = nn.Linear(32, 32) if kind == "linear" else nn.Conv2d(32, 32, 3)
    last: nn.Module = {"conv": nn.Conv2d(32, 32, 3), "transposed": nn.ConvTranspose2d(32, 32, 3),
                       "linear": nn.Linear(32, 32)}[kind]  # fmt: skip
    shape = (4, 32) if kind == "linear" else (4, 32, 9, 9)
    norm = nn.BatchNorm1d(32) if kind == "linear" else nn.BatchNorm2d(32)
    net, data = nn.Sequential(first, last, norm), [(torch.randn(shape),) for _ in range(3)]
    for (x,) in data:
        net(x)  # statistics
    result = intact.quantize(net.eval(), data, progress=False, exclude=["1", "2"])
    assert_engine_equals_module(result.model, data[0][0], tmp_path / "m.onnx")
