"""Recurrent layers with quantized inputs: without quantizers they are PyTorch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils import _pytree as pytree

from intact.errors import QuantValueError, UnsupportedError
from intact.torch import calibrate
from intact.torch import nn as quant_nn

KINDS: list[tuple[type[nn.RNNBase], type[nn.RNNBase]]] = [
    (nn.LSTM, quant_nn.FusedQuantLSTM), (nn.GRU, quant_nn.FusedQuantGRU), (nn.RNN, quant_nn.FusedQuantRNN),
]  # fmt: skip
FORMS: list[dict[str, Any]] = [
    {}, {"num_layers": 2, "bias": False}, {"num_layers": 3, "bidirectional": True, "batch_first": True},
]  # fmt: skip


def flat(answer: Any) -> Tensor:
    return torch.cat([x.reshape(-1) for x in pytree.tree_leaves(answer) if x.is_floating_point()])


def pair(kind: Any, fused: Any, **form: Any) -> tuple[Any, Any]:
    """A float layer, and a quantized one of the same weights."""
    torch.manual_seed(0)
    ours, theirs = fused(16, 8, **form), kind(16, 8, **form)
    ours.load_state_dict(theirs.state_dict(), strict=False)
    return theirs, ours


def states_for(module: Any, batch: int) -> Any:
    layers = module.num_layers * (2 if module.bidirectional else 1)
    h, c = torch.randn(2, layers, batch, module.hidden_size)
    return (h, c) if isinstance(module, nn.LSTM) else h


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kind", "fused"), KINDS)
def test_without_quantizers_it_is_torchs(kind, fused, form):
    theirs, ours = pair(kind, fused, **form)
    for module in ours.modules():
        if isinstance(module, quant_nn.TensorQuantizer):
            module.disable()
    x = torch.randn(4, 4, 16)
    packed = pack_padded_sequence(x, torch.tensor([3, 4, 1, 2]), ours.batch_first, enforce_sorted=False)
    states = states_for(ours, 4)
    for args in ((x,), (x, states), (x[0],), (packed,), (packed, states)):
        torch.testing.assert_close(flat(ours(*args)), flat(theirs(*args)))


@pytest.mark.parametrize(("kind", "fused"), KINDS)
def test_inputs_and_their_weights_are_quantized_and_states_are_not(kind, fused):
    """One layer in both directions: the float layer of quantized weights on quantized inputs."""
    theirs, ours = pair(kind, fused, bidirectional=True)
    x = torch.randn(5, 3, 16)
    calibrate(ours, [x], method="max", progress=False)
    assert ours._weight_quantizers[0].amax.shape == (1, ours.weight_ih_l0.shape[0], 1)
    with torch.no_grad():
        for name, weight in ours.quantized_weights().items():
            assert not torch.equal(weight, getattr(theirs, name))
            getattr(theirs, name).copy_(weight)
        torch.testing.assert_close(flat(ours(x)), flat(theirs(ours._input_quantizers[0](x))))


@pytest.mark.parametrize(("kind", "fused"), KINDS)
def test_it_trains(kind, fused):
    _, ours = pair(kind, fused, num_layers=2, bidirectional=True, dropout=0.5)
    x = torch.randn(5, 3, 16, requires_grad=True)
    calibrate(ours, [x.detach()], method="max", progress=False)
    ours.train()
    assert not torch.equal(ours(x)[0], ours(x)[0])  # dropout between the layers
    ours(x)[0].square().sum().backward()
    assert x.grad is not None and x.grad.abs().sum() > 0
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in ours.parameters())


def test_what_it_refuses():
    with pytest.raises(UnsupportedError, match="proj_size=4"):
        quant_nn.FusedQuantLSTM(16, 8, proj_size=4)
    with pytest.raises(QuantValueError, match="no time steps"):
        quant_nn.FusedQuantGRU(16, 8)(torch.zeros(0, 2, 16))
