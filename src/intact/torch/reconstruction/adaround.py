"""AdaRound: learns to which of its two neighbours on the grid each weight is rounded.

A weight w with scale s is between the codes ``floor(w / s)`` and one more. With a variable V per weight,

    h(V) = clip(sigmoid(V) * (zeta - gamma) + gamma, 0, 1)              rectified sigmoid, equation 23
    w~(V) = s * clip(floor(w / s) + h(V), n, p)                         equation 22
    f(V) = sum(1 - |2 h(V) - 1| ** beta)                                equation 24

h reaches 0 and 1 with a gradient that does not vanish before, and f, whose beta falls from wide to narrow,
pushes each h to one of them. Source: Nagel et al. 2020, "Up or Down? Adaptive Rounding for Post-Training
Quantization", section 3.2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

ZETA, GAMMA = 1.1, -0.1
"""Ends of the stretched sigmoid beyond 1 and 0: the paper's values."""

BETA_START, BETA_END = 20.0, 2.0
"""The exponent of the regularizer, where it sets in and at the last step: those of the paper's code."""

WARM_UP = 0.2
"""The share of the steps without a regularizer, in which every h may go where the outputs want it."""


def rectified_sigmoid(v: Tensor) -> Tensor:
    """Return h(V), in [0, 1]; any shape."""
    return (torch.sigmoid(v) * (ZETA - GAMMA) + GAMMA).clamp(0, 1)


def inverse_rectified_sigmoid(h: Tensor) -> Tensor:
    """Return the V whose h(V) is `h`, in [0, 1]; any shape."""
    return -torch.log((ZETA - GAMMA) / (h - GAMMA) - 1)


def beta_at(progress: float) -> float | None:
    """Return the regularizer's exponent at `progress` in 0..1: half a cosine from start to end; None during
    the warm-up.
    """
    if progress < WARM_UP:
        return None
    annealed = (progress - WARM_UP) / (1 - WARM_UP)
    return BETA_END + (BETA_START - BETA_END) * (1 + math.cos(math.pi * annealed)) / 2


class SoftRounding(nn.Module):
    """The weight of one layer with learned rounding.

    Args:
        weight: [...], floating; it is read here and not kept.
        scale: float32, above 0; broadcasts to `weight`: per tensor, per channel, per block repeated.
        low, high: The codes' ends, less the zero point; numbers, or tensors like `scale`.

    Attributes:
        v: The variable, a float32 parameter in the shape of `weight`. It starts where the soft weight is the
            float weight, wherever the grid reaches it.
    """

    floor: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, weight: Tensor, scale: Tensor, low: Tensor | float, high: Tensor | float) -> None:
        super().__init__()
        self._dtype = weight.dtype
        steps = weight.detach().to(torch.float32) / scale
        floor = torch.floor(steps)
        self.register_buffer("scale", scale)
        self.register_buffer("floor", floor)
        self.register_buffer("low", torch.as_tensor(low, dtype=torch.float32, device=scale.device))
        self.register_buffer("high", torch.as_tensor(high, dtype=torch.float32, device=scale.device))
        self.v = nn.Parameter(inverse_rectified_sigmoid(steps - floor))

    def forward(self) -> Tensor:
        """Return w~(V), in shape and dtype of the weight, differentiable by `v`."""
        return self._real(self.floor + rectified_sigmoid(self.v))

    @torch.no_grad()
    def codes(self) -> Tensor:
        """Return the codes that V stands for, less the zero point: whole numbers in float32."""
        up = (rectified_sigmoid(self.v) >= 0.5).to(torch.float32)
        return torch.clamp(self.floor + up, self.low, self.high)

    @torch.no_grad()
    def weight(self) -> Tensor:
        """Return the real values of `codes`, in shape and dtype of the weight.

        Its quantizer does not change them.
        """
        return self._real(self.codes())

    def regularizer(self, beta: float) -> Tensor:
        """Return f(V) at the exponent `beta`, divided by the number of weights: in [0, 1]."""
        return (1 - (2 * rectified_sigmoid(self.v) - 1).abs().pow(beta)).mean()

    def _real(self, codes: Tensor) -> Tensor:
        return (torch.clamp(codes, self.low, self.high) * self.scale).to(self._dtype)
