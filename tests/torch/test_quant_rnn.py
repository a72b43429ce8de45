"""LSTM and GRU: torch's own result without quantization, and the written-out recurrence with it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from intact import numerics
from intact.errors import QuantValueError, UnsupportedError
from intact.spec import INT8, QuantSpec
from intact.torch import nn as quant_nn
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer

KINDS = ["LSTM", "GRU"]
OPTIONS = {
    "plain": {},
    "no bias": {"bias": False},
    "two layers": {"num_layers": 2},
    "bidirectional": {"bidirectional": True},
    "deep and bidirectional": {"num_layers": 3, "bidirectional": True},
    "batch first": {"batch_first": True, "num_layers": 2, "bidirectional": True},
}


def pair(kind: str, **options) -> tuple[nn.Module, nn.Module]:
    """A quantized module whose quantizers are disabled, and torch's with the same state."""
    module = getattr(quant_nn, f"Quant{kind}")(5, 4, **options)
    twin = getattr(nn, kind)(5, 4, **options)
    twin.load_state_dict(module.state_dict())
    for quantizer in module.modules():
        if isinstance(quantizer, TensorQuantizer):
            quantizer.disable()
    return module, twin


def state_for(kind: str, *shape: int):
    h = torch.randn(*shape, 4)
    return (h, torch.randn(*shape, 4)) if kind.startswith("LSTM") else h


@pytest.mark.parametrize("with_state", [False, True], ids=["zero state", "given state"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_without_quantization_it_is_torch(kind, options, with_state):
    module, twin = pair(kind, **options)
    layers = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    state = state_for(kind, layers, 3) if with_state else None
    x = torch.randn((3, 7, 5) if options.get("batch_first") else (7, 3, 5))
    torch.testing.assert_close(module(x, state), twin(x, state))


@pytest.mark.parametrize("with_state", [False, True], ids=["zero state", "given state"])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_unbatched_input(kind, batch_first, with_state):
    module, twin = pair(kind, num_layers=2, bidirectional=True, batch_first=batch_first)
    state = state_for(kind, 4) if with_state else None
    x = torch.randn(6, 5)
    torch.testing.assert_close(module(x, state), twin(x, state))


@pytest.mark.parametrize("enforce_sorted", [True, False], ids=["sorted", "unsorted"])
@pytest.mark.parametrize("with_state", [False, True], ids=["zero state", "given state"])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences(kind, with_state, enforce_sorted):
    module, twin = pair(kind, num_layers=2, bidirectional=True)
    lengths = [6, 4, 4, 1] if enforce_sorted else [4, 6, 1, 4]
    packed = pack_sequence([torch.randn(n, 5) for n in lengths], enforce_sorted=enforce_sorted)
    state = state_for(kind, 4, 4) if with_state else None
    (out, last), (want_out, want_last) = module(packed, state), twin(packed, state)
    torch.testing.assert_close(last, want_last)
    padded, sizes = pad_packed_sequence(out)
    want, want_sizes = pad_packed_sequence(want_out)
    torch.testing.assert_close(padded, want)
    assert sizes.tolist() == want_sizes.tolist() == lengths


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_between_layers(kind):
    module, twin = pair(kind, num_layers=2, dropout=1.0)  # all or nothing: the same in every run
    x = torch.randn(4, 3, 5)
    torch.testing.assert_close(module(x), twin(x))
    module.eval(), twin.eval()
    torch.testing.assert_close(module(x), twin(x))


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("batched", [True, False], ids=["batched", "unbatched"])
@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell"])
def test_cell_without_quantization_is_torch(kind, batched, bias):
    module, twin = pair(kind, bias=bias)
    x = torch.randn(3, 5) if batched else torch.randn(5)
    for state in (None, state_for(kind, *([3] if batched else []))):
        torch.testing.assert_close(module(x, state), twin(x, state))


def fake_quantize_int8(x: torch.Tensor, axis: int | None = None) -> torch.Tensor:
    array, spec = x.detach().numpy(), QuantSpec(INT8, axis=axis)
    scale = numerics.scale_from_amax(numerics.absmax(array, axis), spec)
    return torch.from_numpy(numerics.fake_quantize(array, scale, 0, spec))


def test_lstm_step_by_step():
    module = quant_nn.QuantLSTM(5, 4)
    x = torch.randn(3, 2, 5)
    weight = fake_quantize_int8(torch.cat((module.weight_ih_l0, module.weight_hh_l0), 1), axis=0)
    h = c = torch.zeros(2, 4)
    outputs = []
    for step in x:
        gates = fake_quantize_int8(torch.cat((step, h), 1)) @ weight.T + module.bias_ih_l0 + module.bias_hh_l0
        i, f, g, o = gates.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        outputs.append(h)
    out, (last_h, last_c) = module(x)
    torch.testing.assert_close(out, torch.stack(outputs))
    torch.testing.assert_close((last_h[0], last_c[0]), (h, c))


def test_gru_step_by_step():
    module = quant_nn.QuantGRU(5, 4)
    x = torch.randn(3, 2, 5)
    w_ih, w_hh = fake_quantize_int8(torch.cat((module.weight_ih_l0, module.weight_hh_l0), 1), axis=0).split(
        [5, 4], 1
    )
    h = torch.zeros(2, 4)
    for step in x:
        quant_x, quant_h = fake_quantize_int8(torch.cat((step, h), 1)).split([5, 4], 1)
        r_x, z_x, n_x = (quant_x @ w_ih.T + module.bias_ih_l0).chunk(3, 1)
        r_h, z_h, n_h = (quant_h @ w_hh.T + module.bias_hh_l0).chunk(3, 1)
        z = (z_x + z_h).sigmoid()
        h = (1 - z) * (n_x + (r_x + r_h).sigmoid() * n_h).tanh() + z * h
    torch.testing.assert_close(module(x)[1][0], h)


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3)])
def test_structure_is_one_pair_per_layer_and_direction(kind, gates):
    module = getattr(quant_nn, kind)(5, 4, num_layers=2, bidirectional=True)
    assert len(module._input_quantizers) == len(module._weight_quantizers) == 4
    for quantizer in [*module._input_quantizers, *module._weight_quantizers]:
        quantizer.enable_calib()
    module(torch.randn(3, 2, 5))
    for quantizer in [*module._input_quantizers, *module._weight_quantizers]:
        quantizer.load_calib_amax()
    assert [tuple(q.amax.shape) for q in module._weight_quantizers] == [(gates * 4, 1)] * 4
    assert [tuple(q.amax.shape) for q in module._input_quantizers] == [()] * 4
    names = {name for name, _ in getattr(nn, kind)(5, 4, num_layers=2, bidirectional=True).named_parameters()}
    assert {name for name, _ in module.named_parameters()} == names
    assert module.quantized_weights().keys() == {name for name in names if "weight" in name}
    fresh = getattr(quant_nn, kind)(5, 4, num_layers=2, bidirectional=True)
    fresh.load_state_dict(module.state_dict())
    x = torch.randn(3, 2, 5)
    torch.testing.assert_close(fresh(x), copy.deepcopy(module)(x), rtol=0, atol=0)


@pytest.mark.parametrize("kind", [*KINDS, "LSTMCell", "GRUCell"])
def test_gradients_reach_every_parameter(kind):
    module = getattr(quant_nn, kind)(5, 4)
    shape = (1, 2) if kind in KINDS else (2,)
    out = module(torch.randn(3, 2, 5) if kind in KINDS else torch.randn(2, 5), state_for(kind, *shape))
    (out[0] if isinstance(out, tuple) else out).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())


def test_projection_is_refused():
    with pytest.raises(UnsupportedError, match="QuantLSTM: got proj_size=2, want proj_size=0"):
        quant_nn.QuantLSTM(5, 4, proj_size=2)


@pytest.mark.parametrize(
    ("kind", "x", "state", "message"),
    [
        ("LSTM", torch.zeros(5), None, r"QuantLSTM: got input of shape \(5,\)"),
        ("GRU", torch.zeros(3, 2, 5), torch.zeros(1, 4), r"QuantGRU: .*states \[\(1, 4\)\]"),
        ("GRU", torch.zeros(0, 2, 5), None, "QuantGRU: got no time steps"),
        ("LSTMCell", torch.zeros(1, 2, 5), None, r"QuantLSTMCell: got input of shape \(1, 2, 5\)"),
        ("GRUCell", torch.zeros(2, 5), torch.zeros(4), r"QuantGRUCell: .*states \[\(4,\)\]"),
    ],
    ids=["rank", "state rank", "empty", "cell rank", "cell state rank"],
)
def test_wrong_shapes_are_named(kind, x, state, message):
    with pytest.raises(QuantValueError, match=message):
        getattr(quant_nn, kind)(5, 4)(x, state)


def test_wrong_sizes_give_torch_messages():
    with pytest.raises(RuntimeError, match="Expected 5, got 6"):
        quant_nn.QuantLSTM(5, 4)(torch.zeros(3, 2, 6))
    with pytest.raises(RuntimeError, match="hidden size"):
        quant_nn.QuantGRU(5, 4)(torch.zeros(3, 2, 5), torch.zeros(1, 7, 4))


@pytest.mark.parametrize("bias", [True, False])
def test_a_cell_that_quantizes_nothing_has_torchs_bits(bias: bool) -> None:
    torch.manual_seed(1)
    cell, reference = quant_nn.QuantLSTMCell(11, 3, bias=bias), nn.LSTMCell(11, 3, bias=bias)
    reference.load_state_dict(cell.state_dict())
    cell._input_quantizer.disable()
    cell._weight_quantizer.disable()
    x, h, c = torch.randn(19, 11), torch.randn(19, 3), torch.randn(19, 3)
    for output, wanted in zip(cell(x, (h, c)), reference(x, (h, c)), strict=True):
        assert torch.equal(output, wanted)
