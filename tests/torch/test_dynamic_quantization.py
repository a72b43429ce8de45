"""Modules with dynamic ranges: PyTorch's call, the numbers of N68 and N69, eager and compiled."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import intact.torch
from intact import numerics
from intact.errors import QuantValueError, UnsupportedError
from intact.ptq.blocks import BlockFormat
from intact.torch.block_weights import BlockWeightLinear


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(40, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10, bias=False))


@pytest.mark.parametrize(("weights", "block"), [("int8", None), ("int8", 32), ("int4", 32), ("int4", None)])
def test_the_numbers_are_those_of_the_reference(weights: str, block: int | None) -> None:
    torch.manual_seed(1)
    linear = nn.Linear(40, 24)
    layer, x = BlockWeightLinear.from_linear(linear, BlockFormat(weights, block or 40)), torch.randn(2, 3, 40)
    codes = numerics.split_stream(layer.codes.numpy(), layer.bits, 40)
    middle = np.full(layer.scales.shape, 2 ** (layer.bits - 1), np.uint8)
    stored = numerics.BlockWeights(codes, f"uint{layer.bits}", layer.scales.numpy(), layer.block, middle)
    activations = numerics.quantize_dynamic(x.numpy(), block_size=layer.block)
    want = numerics.block_product(activations, stored, layer.bias.numpy())
    np.testing.assert_array_equal(layer(x).numpy(), want)
    error = (layer(x) - linear(x)).abs().max() / linear(x).abs().max()
    assert error < (0.02 if weights == "int8" else 0.2)


def test_called_as_pytorch_is() -> None:
    model = net()
    before = copy.deepcopy(model.state_dict())
    quantized = intact.torch.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    assert [type(m).__name__ for m in quantized] == [
        "BlockWeightLinear",
        "GELU",
        "LayerNorm",
        "BlockWeightLinear",
    ]
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    x = torch.randn(5, 40)
    torch.testing.assert_close(quantized(x), model(x), atol=0.05, rtol=0)
    named = intact.torch.quantize_dynamic(model, {"3"})
    assert [type(m).__name__ for m in named] == ["Linear", "GELU", "LayerNorm", "BlockWeightLinear"]
    assert intact.torch.quantize_dynamic(model, inplace=True) is model
    assert isinstance(intact.torch.quantize_dynamic(nn.Linear(8, 8)), BlockWeightLinear)


def test_a_sample_does_not_depend_on_its_batch() -> None:
    quantized, x = intact.torch.quantize_dynamic(net(), block=8), torch.randn(9, 40)
    whole = quantized(x)
    for i in range(9):
        assert torch.equal(quantized[0](x[i]), quantized[0](x)[i])
    assert whole.shape == (9, 10)


def test_state_is_saved_and_weights_are_read_anew() -> None:
    first, second = (intact.torch.quantize_dynamic(net()) for _ in range(2))
    x = torch.randn(3, 40)
    second(x)  # its engine is there
    with torch.no_grad():
        first[0].scales.mul_(2)
    second.load_state_dict(first.state_dict())
    assert torch.equal(second(x), first(x))


def test_half_precision_and_inference_mode() -> None:
    quantized, x = intact.torch.quantize_dynamic(net()), torch.randn(3, 40)
    assert quantized[0](x.to(torch.bfloat16)).dtype == torch.bfloat16
    with torch.inference_mode():
        assert quantized(x).shape == (3, 10)


def test_compiled() -> None:
    quantized, x = intact.torch.quantize_dynamic(net()), torch.randn(3, 40)
    compiled = torch.compile(quantized, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), quantized(x), atol=1e-5, rtol=1e-5)


def test_what_it_refuses() -> None:
    with pytest.raises(UnsupportedError, match="dtype"):
        intact.torch.quantize_dynamic(net(), dtype=torch.float16)
    with pytest.raises(QuantValueError, match="weights"):
        intact.torch.quantize_dynamic(net(), weights="int3")
    with pytest.raises(QuantValueError, match="multiple of 8"):
        intact.torch.quantize_dynamic(net(), block=12)
    model = net()
    with torch.no_grad():
        model[3].weight[0, 0] = torch.nan
    with pytest.raises(QuantValueError, match="module '3'"):
        intact.torch.quantize_dynamic(model)
