"""Padding with minus infinity in front of a pool: quantizers stand where values are finite."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import intact


def images(count: int) -> list[np.ndarray]:
    return [np.random.default_rng(i).normal(size=(1, 3, 9, 12)).astype(np.float32) for i in range(count)]


class Same(nn.Module):
    """Padding as timm's "same" pools have it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.pad(torch.relu(self.first(x)), (0, 1, 0, 1), value=-float("inf"))
        return self.second(nn.functional.max_pool2d(x, 3, 2))


def test_modules_are_quantized_in_front_of_the_pad() -> None:
    torch.manual_seed(0)
    module, data = Same().eval(), [(torch.from_numpy(x),) for x in images(8)]
    want = module(*data[0]).detach()
    quantized_model = intact.quantize(module, data, example=data[0], progress=False).model
    got = quantized_model(*data[0]).detach()
    assert torch.isfinite(got).all()
    assert float(10 * torch.log10(want.square().sum() / (got - want).square().sum())) > 25
    (ran,) = intact.compile(quantized_model, data[0], threads=1).run({"x": data[0][0].numpy()}).values()
    assert np.allclose(ran, got.numpy(), atol=0.02 * float(got.abs().max()))
