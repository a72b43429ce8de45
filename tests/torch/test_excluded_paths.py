""" "a -> b" means all modules and calls between two of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import intact
from intact.errors import QuantValueError


class Net(nn.Module):
    """A layer, two branches that meet, and a layer."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(4, 16, 3, padding=1)
        self.block = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
        self.right = nn.Conv2d(16, 16, 3, padding=1)
        self.tail = nn.Conv2d(16, 8, 3)

    def forward(self, x):
        x = self.stem(x)
        return self.tail(self.block(x) + self.right(x))


def quantize_net(**chosen):
    torch.manual_seed(0)
    data = [torch.randn(2, 4, 8, 8) for _ in range(2)]
    return intact.quantize(Net().eval(), data, progress=False, float_budget=0, **chosen).report


LAYERS = {"stem", "block.0", "right", "tail"}
PATHS = {
    "block -> add": {"block.0"},
    "block.0->tail": {"block.0", "tail"},
    "stem -> right": {"stem", "right"},
    "block -> block": {"block.0"},
    "stem -> Relu": {"stem", "block.0"},
}


@pytest.mark.parametrize("path", PATHS)
def test_what_is_between_two_names_stays_in_float_or_is_quantized_alone(path):
    assert set(quantize_net(exclude=[path]).modules) == LAYERS - PATHS[path]
    assert set(quantize_net(include=[path]).modules) == PATHS[path]


@pytest.mark.parametrize(
    ("path", "words"),
    [("tail -> stem", "no node between these"), ("stem -> tial", r"'tial': got no module.*'tail'"),
     ("block -> right", "no node between these")],
)  # fmt: skip
def test_paths_that_are_none_are_refused(path, words):
    with pytest.raises(QuantValueError, match=words):
        quantize_net(exclude=[path])
