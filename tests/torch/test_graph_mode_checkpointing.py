"""Activation checkpointing of models of graph mode: gradients are those of the run without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint  # by name, as models import it

from intact.torch import quantize


def straight(function: Callable[..., Tensor], *args: Tensor, **_: Any) -> Tensor:
    return function(*args)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 1)
        self.keep: Callable[..., Tensor] = straight
        self.way = "closure"

    def part(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))) + x)

    def forward(self, x: Tensor) -> Tensor:
        z = x
        if self.way == "closure":
            z = self.keep(lambda y: torch.relu(self.second(y + x)) + y * x, self.first(x))
        elif self.way == "method":
            z = self.keep(self.part, x) + self.part(x)
        elif self.way == "module":
            z = self.keep(self.first, x) + self.second(x)
        elif self.way == "inside":  # the outer one's function runs the inner one's again
            z = self.keep(lambda y: self.keep(self.part, y) + y, x)
        return self.second(z) + x


class Net(nn.Module):
    """One block runs twice, so that its calls have other numbers the second time."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.block, self.last = nn.Conv2d(3, 16, 3), Block(), nn.Conv2d(16, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.stem(x))
        outer = self.block.keep if self.block.way == "none" else straight
        y = outer(self.block, y) + self.block(y)
        return self.last(y)


def gradients(model: nn.Module, x: Tensor) -> list[Tensor]:
    model.zero_grad()
    model(x).square().mean().backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize(
    ("way", "reentrant"),
    [
        *((way, False) for way in ("closure", "method", "module", "inside", "none")),
        *(
            (way, True) for way in ("method", "module", "none")
        ),  # it loses what closures hold, and nests badly
    ],
)
def test_what_runs_again_is_quantized_again(way: str, reentrant: bool) -> None:
    torch.manual_seed(0)
    x, model = torch.randn(2, 3, 10, 10), Net().eval()
    model.block.way = way
    model = quantize(model, [x], method="max", progress=False).model.train()
    assert any(name.startswith("block.") and "add" in name for name, _ in model.named_modules())
    wanted = gradients(model, x)

    def keep(function: Callable[..., Tensor], *args: Tensor) -> Tensor:
        output: Tensor = checkpoint(function, *args, use_reentrant=reentrant)
        return output

    model.block.keep = keep
    got = gradients(model, x)
    assert len(got) == len(wanted)
    for ours, theirs in zip(got, wanted, strict=True):  # sums in another order
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_a_model_without_quantizers_is_none_of_our_business() -> None:
    torch.manual_seed(0)
    x, model = torch.randn(2, 3, 10, 10), Net()
    wanted = gradients(model, x)
    model.block.keep = lambda function, *args: checkpoint(function, *args, use_reentrant=False)
    for ours, theirs in zip(gradients(model, x), wanted, strict=True):
        torch.testing.assert_close(ours, theirs)
