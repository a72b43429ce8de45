"""Checks of values in a model's code neither stop an export nor reach the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn

import intact
import intact.torch
from intact.errors import UnsupportedError


class Checked(nn.Module):
    """Two layers, and a function that looks at the input."""

    def __init__(self, check: Callable[[Tensor, Tensor], object]) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 4)
        self.check = check

    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        self.check(x, sizes)
        return self.last(torch.relu(self.first(x)))


def all_of_tensor(x: Tensor, sizes: Tensor) -> None:
    torch._check_tensor_all(sizes > 0, lambda: "sizes")


def all_with_error_type(x: Tensor, sizes: Tensor) -> None:
    torch._check_tensor_all_with(ValueError, torch.isfinite(x))


def number(x: Tensor, sizes: Tensor) -> None:
    longest = sizes.max().item()
    torch._check(longest >= 0)
    torch._check_index(longest < 100)
    torch._check_value(sizes.sum().item() > 0)


def asynchronous(x: Tensor, sizes: Tensor) -> None:
    torch._assert_async((sizes > 0).all())
    torch._assert_async(torch.isfinite(x).all(), "not finite")


def assert_sizes(x: Tensor, sizes: Tensor) -> None:
    torch._assert((sizes > 0).all(), "sizes")
    torch._assert(torch.isfinite(x).all(), "not finite")


def statement(x: Tensor, sizes: Tensor) -> None:
    assert x.dim() == 3 and not (sizes < 0).any() and torch.isfinite(x).all()


def raises(x: Tensor, sizes: Tensor) -> None:
    if x.isnan().any() or not sizes.sum() > 0:
        raise ValueError("bad input")


CHECKS = (all_of_tensor, all_with_error_type, number, asynchronous, assert_sizes, statement, raises)


def call() -> tuple[Tensor, Tensor]:
    return torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(0)), torch.tensor([3, 4])


@pytest.mark.parametrize("check", CHECKS, ids=lambda f: f.__name__)
def test_a_check_of_values_is_in_no_file_and_no_engine(check: Callable[..., object], tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, sizes = call()
    result = intact.quantize(Checked(check).eval(), [(x, sizes)], method="max", progress=False)
    engine = intact.compile(result.model, (x, sizes))
    np.testing.assert_allclose(engine(x.numpy(), sizes.numpy()), result.model(x, sizes).detach(), atol=1e-5)
    intact.torch.export(result.model, (x, sizes), tmp_path / "net.onnx")
    operators = {node.op_type for node in onnx.load(tmp_path / "net.onnx").graph.node}
    assert operators <= {"QuantizeLinear", "DequantizeLinear", "Gemm", "MatMul", "Add", "Relu", "Reshape"}


def test_the_module_still_checks_where_it_runs() -> None:
    x, sizes = call()
    model = intact.quantize(Checked(raises).eval(), [(x, sizes)], method="max", progress=False).model
    with pytest.raises(ValueError, match="bad input"):
        model(x, -sizes)


def test_a_branch_on_values_that_computes_is_no_check() -> None:
    class Branches(Checked):
        def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
            if x.sum() > 0:
                x = x * 2
            return super().forward(x, sizes)

    model = Branches(all_of_tensor).eval()
    example = call()
    quantized = intact.quantize(model, [example], method="max", progress=False).model
    with pytest.raises(UnsupportedError, match="depends on values"):
        intact.compile(quantized, example)
