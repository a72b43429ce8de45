"""Sizes of the first batch that another one may have otherwise do not decide what runs in int8."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from intact.torch import quantize


class Attention(nn.Module):
    """One layer of attention in plain products, `heads` of them."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        batch, words, width = x.shape
        q, k, v = (
            y.view(batch, words, self.heads, width // self.heads).transpose(1, 2)
            for y in self.qkv(x).chunk(3, -1)
        )
        y = (q @ k.transpose(-1, -2) / 4).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, words, width))


def _precisions(model: nn.Module, shape: tuple[int, ...], profile: str = "intact") -> dict[str, str]:
    torch.manual_seed(0)
    found = quantize(model.eval(), example=torch.randn(shape), profile=profile)
    assert found.placement is not None
    return {layer.name: layer.precision for layer in found.placement.layers if layer.op_type == "MatMul"}


@pytest.mark.parametrize("profile", ["intact", "tensorrt"])
def test_attention_is_placed_alike_for_short_and_long_sentences(profile):
    short, long = (_precisions(Attention(4), (2, words, 64), profile) for words in (8, 600))
    assert short == long and set(short.values()) == {"int8"}


def test_a_transformer_layer_is_placed_alike_for_short_and_long_sentences():
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    short, long = (_precisions(layer, (1, words, 64)) for words in (5, 64))
    assert short == long and set(short.values()) == {"int8"}


def test_a_width_that_weights_decide_still_leaves_small_products_in_float():
    found = _precisions(Attention(8), (2, 64, 64))  # 8 numbers in each head
    assert sorted(found.values()) == ["float", "int8", "int8", "int8"]


def test_a_size_that_equals_a_free_one_by_chance_is_still_known():
    found = _precisions(Attention(8), (8, 8, 64))  # as many sentences and words as numbers in each head
    assert sorted(found.values()) == ["float", "int8", "int8", "int8"]
