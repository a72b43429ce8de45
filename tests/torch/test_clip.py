"""Clip and its function: bounds that can be learned."""

from __future__ import annotations

import torch

from intact.torch.nn import Clip
from intact.torch.nn.functional import ClipFunction, clip


def test_clip_module_holds_parameters_or_buffers() -> None:
    module = Clip(-1.0, 2.0, learn_max=True)
    assert [n for n, _ in module.named_parameters()] == ["clip_value_max"]
    assert [n for n, _ in module.named_buffers()] == ["clip_value_min"]
    assert module(torch.tensor([-5.0, 5.0])).tolist() == [-1, 2]


def test_clip_with_bounds_per_channel() -> None:
    x = torch.tensor([[-3.0, 0.5], [4.0, 1.0]], requires_grad=True)
    low, high = (
        torch.tensor([[-1.0], [-2.0]], requires_grad=True),
        torch.tensor([[1.0], [2.0]], requires_grad=True),
    )
    y = ClipFunction.apply(x, low, high)
    assert y.tolist() == [[-1.0, 0.5], [2.0, 1.0]]
    y.backward(torch.tensor([[1.0, 10.0], [100.0, 1000.0]]))
    assert x.grad.tolist() == [[0, 10], [0, 1000]]
    assert low.grad.tolist() == [[1], [0]] and high.grad.tolist() == [[0], [100]]
    fixed = torch.ones(2, 2, requires_grad=True)
    clip(fixed, torch.zeros(2, 1), torch.full((2, 1), 3.0)).sum().backward()
    assert fixed.grad.tolist() == [[1, 1], [1, 1]]
    assert clip(torch.ones(2).half(), -0.5, 0.5).dtype == torch.float16
