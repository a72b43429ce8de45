"""Batches as data loaders give them, and the front door without any."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import intact
from intact.errors import QuantValueError
from intact.torch._batches import forward_batch


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor, scale: Tensor, shift: Tensor | None = None) -> Tensor:
        y = self.second(self.first(x).relu() * scale)
        return y if shift is None else y + shift


def test_a_tuple_begins_with_all_that_the_model_cannot_do_without() -> None:
    model, x, scale = Scaled(), torch.ones(2, 16), torch.full((2, 1), 3.0)
    wanted = model(x, scale)
    for batch in ((x, scale), (x, scale, torch.zeros(2)), ((x, scale), 7), [{"x": x, "scale": scale}, 7]):
        assert torch.equal(forward_batch(model, batch), wanted)
    assert torch.equal(forward_batch(nn.ReLU(), (x, scale)), x), (
        "of a model with one input the rest is labels"
    )


def test_a_module_is_quantized_by_an_example_alone() -> None:
    result = intact.quantize(Scaled().eval(), example=(torch.ones(2, 16), torch.ones(2, 1)))
    assert result.calibration is None and result.report.modules
    with pytest.raises(QuantValueError, match="neither data nor example"):
        intact.quantize(Scaled())
    with pytest.raises(QuantValueError, match=r"quantize: data: got none.*a folder of images"):
        intact.quantize("model.onnx")
