"""Parameters chosen by name, frozen, and rounded in place."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from intact.errors import QuantValueError, UnsupportedError
from intact.torch import nn as quant_nn
from intact.torch.optim import helper


def model() -> nn.Sequential:
    return nn.Sequential(quant_nn.QuantConv2d(1, 2, 3), nn.BatchNorm2d(2), quant_nn.QuantLinear(4, 3))


def test_match_parameters_yields_each_once():
    net = model()
    matches = list(helper.match_parameters(net, ["weight", "0"]))
    assert [id(p) for p in matches] == [
        id(net[0].weight),
        id(net[0].bias),
        id(net[1].weight),
        id(net[2].weight),
    ]


def test_group_parameters():
    net = model()
    groups = helper.group_parameters(net, [["^0"], ["1", "2.w"]], lrs=[1, 2], weight_decays=[0.1, 0.2])
    assert [len(group["params"]) for group in groups] == [2, 3]
    assert [(g["lr"], g["weight_decay"]) for g in groups] == [(1, 0.1), (2, 0.2)]
    assert "momentum" not in groups[0]
    momentums = helper.group_parameters(net, [["0"]], momentums=[0.9])
    assert torch.optim.SGD(momentums, lr=0.1).param_groups[0]["momentum"] == 0.9


@pytest.mark.parametrize(
    "kwargs",
    [
        {"patterns_list": "weight"},
        {"patterns_list": ["weight", "bias"]},
        {"patterns_list": [["weight"]], "lrs": [1, 2]},
        {"patterns_list": [["weight"]], "momentums": 0.9},
        {"patterns_list": [["weight"]], "weight_decays": []},
    ],
    ids=["string", "flat list", "lrs", "momentums", "weight_decays"],
)
def test_group_parameters_refuses_wrong_nesting(kwargs):
    with pytest.raises(UnsupportedError, match="a list of") as caught:
        helper.group_parameters(model(), **kwargs)
    assert isinstance(caught.value, TypeError)


def test_group_parameters_refuses_overlapping_groups():
    with pytest.raises(QuantValueError, match=r"parameter '0.weight': got matches in groups 0 and 1"):
        helper.group_parameters(model(), [["0"], ["weight"]])


def test_patterns_must_be_a_list():
    with pytest.raises(UnsupportedError, match="patterns: got 'weight', want a list of patterns"):
        list(helper.match_parameters(model(), "weight"))


def test_freeze_parameters():
    net = model()
    helper.freeze_parameters(net, ["1", "bias"])
    assert [n for n, p in net.named_parameters() if p.requires_grad] == ["0.weight", "2.weight"]


@pytest.mark.parametrize(
    "module",
    [
        quant_nn.QuantConv2d(2, 3, 3),
        quant_nn.QuantConvTranspose2d(2, 3, 3),
        quant_nn.QuantLinear(4, 3),
        quant_nn.QuantLSTM(4, 3, num_layers=2, bidirectional=True),
        quant_nn.QuantGRUCell(4, 3),
    ],
    ids=lambda m: type(m).__name__,
)
def test_quant_weight_inplace_writes_what_the_forward_uses(module):
    want = {name: value.detach().clone() for name, value in module.quantized_weights().items()}
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    helper.quant_weight_inplace(nn.Sequential(module))
    for name, param in module.named_parameters():
        assert torch.equal(param.detach(), want.get(name, before[name]))
        assert (name in want) == (not torch.equal(param.detach(), before[name]))
