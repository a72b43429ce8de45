"""Small epsilons and factors near 1 are in the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import intact
from intact.torch import export

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
    export(result.model, data[0][0], tmp_path / "m.onnx", verify=False)
    engine = intact.compile(tmp_path / "m.onnx", threads=1)
    (y,) = engine.run({engine.inputs[0].name: data[0][0].numpy()}).values()
    with torch.no_grad():
        assert torch.equal(result.model(data[0][0]), torch.from_numpy(y))
