"""Whole quantized modules equal their engines in every bit of every output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import intact
import intact.torch


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, two = x.chunk(2, -1)
    return x * cos + torch.cat((-two, left), -1) * sin


class LlamaBlock(nn.Module):
    """RMSNorm, rotary positions, attention, SwiGLU."""

    def __init__(self, width: int = 48, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.norms = nn.ModuleList([RMSNorm(width), RMSNorm(width)])
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 96, bias=False) for _ in range(2))
        self.down = nn.Linear(96, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        turns = torch.arange(length)[:, None] * 100.0 ** (-torch.arange(0, self.size, 2) / self.size)
        cos, sin = (torch.cat([f(turns)] * 2, -1) for f in (torch.cos, torch.sin))
        parts = self.qkv(self.norms[0](x)).reshape(n, length, 3, self.heads, self.size)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        output = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True)
        x = x + self.out(output.transpose(1, 2).reshape(n, length, width))
        h = self.norms[1](x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class GroupNormNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.norms = nn.ModuleList([nn.GroupNorm(4, 16), nn.InstanceNorm2d(16, affine=True)])
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.mish(self.norms[0](self.first(x)))
        x = F.interpolate(F.avg_pool2d(x, 3, 2, 1), size=(7, 9), mode="bilinear")
        return self.head(F.elu(self.norms[1](self.second(x))).mean((2, 3)))


class MobileBlock(nn.Module):
    """Depthwise convolutions with BatchNorm, squeeze and excitation, hard-swish, PReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        self.deep = nn.Sequential(
            nn.Conv2d(16, 16, 5, 1, 2, groups=16, bias=False), nn.BatchNorm2d(16), nn.PReLU(16)
        )
        self.less, self.more = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.last = nn.Sequential(nn.Conv2d(16, 16, 1, bias=False), nn.BatchNorm2d(16))
        self.head = nn.Linear(16, 10)
        for norm in self.modules():
            if isinstance(norm, nn.BatchNorm2d):
                norm.running_mean.normal_(std=0.2)
                norm.running_var.uniform_(0.5, 2)
                nn.init.uniform_(norm.weight, 0.5, 1.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.deep(x)
        y = y * F.hardsigmoid(self.more(F.relu(self.less(F.adaptive_avg_pool2d(y, 1)))))
        return self.head(F.adaptive_avg_pool2d(x + self.last(y), 1).flatten(1))


class Recurrent(nn.Module):
    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        self.layers = getattr(nn, kind)(12, 16, 2, batch_first=True, **options)
        self.head = nn.Linear(32 if options else 16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x)[0])


class Temperature(nn.Module):
    """Functions of parameters, which are constants in a file."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.rates = nn.Parameter(torch.tensor(2.6593)), nn.Parameter(torch.randn(20))
        self.layer = nn.Linear(20, 20)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        y = y * -torch.exp(self.rates) * self.scale.exp()
        return F.log_softmax(y / y.norm(dim=-1, keepdim=True), -1)


def bert() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, "gelu", batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "Llama": (lambda: nn.Sequential(LlamaBlock(), LlamaBlock(), RMSNorm(48), nn.Linear(48, 30)), (8, 11, 48)),
    "BERT": (bert, (8, 9, 32)),
    "GroupNorm": (GroupNormNet, (4, 3, 13, 15)),
    "MobileNet": (MobileBlock, (4, 3, 24, 24)),
    "LSTM": (lambda: Recurrent("LSTM"), (6, 9, 12)),
    "GRU": (lambda: Recurrent("GRU", bidirectional=True), (6, 9, 12)),
    "constants": (Temperature, (64, 20)),
}


@pytest.mark.rule("N65", "N66")
@pytest.mark.parametrize("name", MODELS)
def test_module_and_engine_are_equal(name: str) -> None:
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model, data = make().eval(), [torch.randn(shape) for _ in range(3)]
    quantized = intact.quantize(model, data, progress=False).model
    engine = intact.compile(quantized, data[0], threads=1)
    for x in data:
        with torch.no_grad():
            output = quantized(x)
        assert np.array_equal(output.numpy(), engine(x.numpy()))
        assert torch.equal(output, quantized(x).detach()), "with gradients the answers are the same"
