"""Recurrent layers and embeddings with codes: PyTorch's arguments and results, close to its floats."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import intact.torch
from intact.errors import QuantValueError, UnsupportedError
from intact.torch.block_weights.recurrent import BlockWeightCell, BlockWeightRecurrent


def compare(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            compare(a, b)
        return
    torch.testing.assert_close(ours, theirs, atol=0.03, rtol=0)


LAYOUTS = [
    {}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True, "bias": False},
    {"num_layers": 2, "batch_first": True, "bidirectional": True},
]  # fmt: skip


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_arguments_and_results_are_those_of_pytorch(kind: type, layout: dict[str, Any]) -> None:
    torch.manual_seed(0)
    module = kind(24, 16, **layout).eval()
    quantized = intact.torch.quantize_dynamic(module)
    assert type(quantized) is BlockWeightRecurrent
    x = torch.randn(5, 3, 24)
    count = len(quantized.inputs)
    batch = 5 if layout.get("batch_first") else 3
    states = torch.randn(2, count, batch, 16)
    first: Any = tuple(states) if kind is nn.LSTM else states[0]
    unbatched: Any = tuple(s[:, 0] for s in states) if kind is nn.LSTM else states[0][:, 0]
    with torch.no_grad():
        compare(quantized(x), module(x))
        compare(quantized(x, first), module(x, first))
        compare(quantized(x[:, 0], unbatched), module(x[:, 0], unbatched))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_packed_sequences(kind: type) -> None:
    torch.manual_seed(0)
    module = kind(24, 16, num_layers=2, bidirectional=True).eval()
    quantized, x = intact.torch.quantize_dynamic(module), torch.randn(6, 4, 24)
    packed = pack_padded_sequence(x, torch.tensor([3, 6, 1, 4]), enforce_sorted=False)
    states = torch.randn(2, 4, 4, 16)
    first: Any = tuple(states) if kind is nn.LSTM else states[0]
    with torch.no_grad():
        ours, theirs = quantized(packed, first), module(packed, first)
    compare(pad_packed_sequence(ours[0])[0], pad_packed_sequence(theirs[0])[0])
    compare(ours[1], theirs[1])


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells(kind: type) -> None:
    torch.manual_seed(0)
    module, x = kind(24, 16), torch.randn(3, 24)
    quantized = intact.torch.quantize_dynamic(nn.Sequential(module))[0]
    assert type(quantized) is BlockWeightCell
    with torch.no_grad():
        after = module(x)
        compare(quantized(x), after)
        compare(quantized(x, after), module(x, after))


def test_a_sequence_does_not_depend_on_its_batch() -> None:
    torch.manual_seed(0)
    quantized, x = intact.torch.quantize_dynamic(nn.LSTM(24, 16)), torch.randn(5, 3, 24)
    assert torch.equal(quantized(x)[0][:, 1:2], quantized(x[:, 1:2].contiguous())[0])


@pytest.mark.parametrize(("dtype", "bits"), [(torch.quint8, 8), (torch.quint4x2, 4)])
def test_embeddings(dtype: torch.dtype, bits: int) -> None:
    torch.manual_seed(0)
    model = nn.ModuleList([nn.Embedding(50, 13, padding_idx=0), nn.Linear(8, 8)])
    quantized = intact.torch.quantize_dynamic(model, dtype=dtype)
    assert type(quantized[1]) is nn.Linear
    indices = torch.randint(0, 50, (2, 7))
    error = (quantized[0](indices) - model[0](indices)).abs().max()
    assert error < 4 / 2**bits
    assert not quantized[0](torch.zeros(1, dtype=torch.int64)).any()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 3])
def test_bags_of_embeddings(mode: str, padding: int | None) -> None:
    torch.manual_seed(0)
    bag = nn.EmbeddingBag(20, 12, mode=mode, padding_idx=padding)
    quantized = intact.torch.quantize_dynamic(bag, {nn.EmbeddingBag}, dtype=torch.quint8)
    flat, offsets = torch.tensor([3, 1, 4, 3, 5, 9, 2]), torch.tensor([0, 2, 5])
    weights = torch.rand(7) if mode == "sum" else None
    square = torch.tensor([[3, 1], [4, 3]])

    def run(module: nn.Module) -> list[Tensor]:
        return [module(flat, offsets, weights), module(square)]

    for ours, theirs in zip(run(quantized), run(bag), strict=True):
        torch.testing.assert_close(ours, theirs, atol=0.06, rtol=0)


def test_what_it_refuses() -> None:
    with pytest.raises(UnsupportedError, match="module '0': proj_size"):
        intact.torch.quantize_dynamic(nn.Sequential(nn.LSTM(8, 8, proj_size=4)))
    with pytest.raises(UnsupportedError, match="max_norm"):
        intact.torch.quantize_dynamic(nn.Embedding(8, 8, max_norm=1.0), dtype=torch.quint8)
    broken = nn.GRU(8, 8)
    with torch.no_grad():
        broken.weight_hh_l0[0, 0] = torch.nan
    with pytest.raises(QuantValueError, match="NaN"):
        intact.torch.quantize_dynamic(broken)
