"""Recurrent layers as PyTorch writes them, with what it puts around them: all of it native, in int8."""

from __future__ import annotations

import warnings
from io import BytesIO

import numpy as np
import pytest
import torch

import intact


class _Stream(torch.nn.Module):
    """State in, state out."""

    def __init__(self, kind: type[torch.nn.RNNBase]) -> None:
        super().__init__()
        self.layers = kind(16, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.head = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, *states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, last = self.layers(x, states if len(states) > 1 else states[0])
        return self.head(y), *(last if isinstance(last, tuple) else (last,))


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_two_layers_in_both_directions(kind):
    torch.manual_seed(0)
    states = [torch.rand(4, 3, 8) for _ in range(2 if kind is torch.nn.LSTM else 1)]
    inputs, file = (torch.randn(3, 5, 16), *states), BytesIO()
    module = _Stream(kind).eval()
    names = ["x", *(f"s{i}" for i in range(len(states)))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, inputs, file, dynamo=False, input_names=names, opset_version=17)
    feeds = {name: value.numpy() for name, value in zip(names, inputs, strict=True)}
    quantized = intact.quantize(file.getvalue(), [feeds] * 2, method="max", float_budget=0.0, progress=False)
    engine = intact.compile(quantized.model)
    kinds = [step.kind for step in engine.plan.steps]
    assert kinds.count("recurrent") == 2 and kinds.count("linear") == 3 and "onnx" not in kinds
    with torch.no_grad():
        expected = module(*inputs)
    for output, real in zip(engine(*feeds.values()), expected, strict=True):
        np.testing.assert_allclose(output, real.numpy(), atol=0.05)
