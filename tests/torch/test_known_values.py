"""Code that asks tensors for numbers: those of constants are known while a model is traced and exported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import intact
from intact.errors import UnsupportedError
from intact.torch import export, quantize


class Asks(nn.Module):
    """A function between convolutions, which gets the module as well."""

    stride: Tensor
    steps: Tensor

    def __init__(self, function: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 4, 1)
        self.function = function
        self.register_buffer("stride", torch.tensor(2))
        self.register_buffer("steps", torch.tensor([1, 2, 3]))
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self, torch.relu(self.first(x))))


def images() -> Tensor:
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def quantize_model(model: nn.Module, data: Any) -> Any:
    torch.manual_seed(0)
    return quantize(model.eval(), [data], example=data, progress=False, method="max")


def global_norm(_: Any, x: Tensor) -> Tensor:
    """As asteroid writes it."""
    axes = torch.arange(1, x.dim()).tolist()
    return (x - x.mean(axes, keepdim=True)) / (x.var(axes, keepdim=True) + 1e-5).sqrt()


def in_places(_: Any, x: Tensor) -> Tensor:
    counts = torch.zeros(2, dtype=torch.int64)
    view = counts.view(-1)
    counts[1] = 3
    counts += 1
    return x * int(view[1])


def halves(_: Any, x: Tensor) -> Tensor:
    height, width = (torch.tensor(x.shape[2:]) // 2).tolist()
    return x[:, :, :height, :width]


FUNCTIONS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "axes": global_norm,
    "sizes": halves,
    "a buffer": lambda m, x: x[..., :: int(m.stride)],
    "a buffer's list": lambda m, x: torch.cat([x[:, step:] for step in m.steps.tolist()], 1)[:, :16],
    "padding": lambda m, x: nn.functional.pad(x, (m.stride - 1, m.steps[0]))[..., : m.stride + 4],
    "an array": lambda m, x: x[..., : int(m.steps.detach().cpu().numpy().max()) + 1],
    "numpy's": lambda m, x: x[..., : int(np.asarray(m.steps)[2])],
    "an axis": lambda m, x: torch.squeeze(x[:, :, :1], dim=m.stride)[:, :, None],
    "a filler": lambda m, x: nn.functional.pad(x, [1, 1], value=m.scale.detach()),
    "a mean": lambda m, x: x - x.mean(m.stride, keepdim=True),
    "a condition": lambda m, x: x if m.steps.sum() == 6 and m.stride.item() > 1 else x + 1,
    "a parameter": lambda m, x: x * float(m.scale.detach()),
    "ones like it": lambda m, x: x * (1 + x.new_ones(2).sum().item()),
    "written into": in_places,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_of_constants_are_known(name: str, tmp_path: Path) -> None:
    model, x = Asks(FUNCTIONS[name]), images()
    result = quantize_model(model, x)
    assert not result.report.replaced and set(result.report.modules) == {"first", "last"}
    with torch.no_grad():
        wanted, got = model(x), result.model(x)
    assert (got - wanted).norm() < 0.05 * wanted.norm()
    report = export(result.model, x, tmp_path / "q.onnx")
    assert not report.not_compared and all(check.largest <= 1 for check in report.quantizers)
    outputs = intact.compile(tmp_path / "q.onnx")(x[:1].numpy())
    assert np.allclose(outputs, result.model(x[:1]).detach(), atol=1e-3)
    assert np.array_equal(outputs, intact.compile(tmp_path / "q.onnx", backend="reference")(x[:1].numpy()))


def random_count(_: Any, x: Tensor) -> Tensor:
    return x * int(torch.randint(5, (1,)))


def choose_by_data(_: Any, x: Tensor) -> Tensor:
    counts = torch.ones(2)
    counts[0] = x.mean()
    return x if counts[0] > 0 else x * 2


@pytest.mark.parametrize("function", [lambda _, x: x * int(x.sum() > 9), random_count, choose_by_data])
def test_numbers_of_data_are_not(function: Callable[[Any, Tensor], Tensor], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError):
        export(quantize_model(Asks(function), images()).model, images(), tmp_path / "q.onnx")


class ReadsLengths(nn.Module):
    """A mask as wide as the longest sequence, as speech models make it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(24, 48), nn.Linear(48, 8)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        mask = torch.arange(int(lengths.max()))[None] < lengths[:, None]
        return self.last(torch.relu(self.first(x))) * mask[..., None]


def test_lengths_of_the_example_are_known_when_it_is_traced(tmp_path: Path) -> None:
    data = {"x": torch.randn(2, 10, 24), "lengths": torch.tensor([10, 7])}
    result = quantize_model(ReadsLengths(), data)
    assert not result.report.replaced and len(result.report.modules) == 2
    shorter = {"x": data["x"][:, :6], "lengths": torch.tensor([3, 6])}
    assert result.model(**shorter).shape == (2, 6, 8)
    with pytest.raises(UnsupportedError):  # a file is for all lengths
        export(result.model, data, tmp_path / "q.onnx")


def test_bounds_of_two_types(tmp_path: Path) -> None:
    model = Asks(lambda _, x: x.clamp(-0.5, 4) + torch.clip(x, -1, 2.5).clamp_(0, 0.75))
    result = quantize_model(model, images())
    assert not result.report.replaced and not result.report.left
    report = export(result.model, images(), tmp_path / "q.onnx")
    assert report.end_to_end is not None and report.end_to_end.values_differing == 0
