"""The report names modules in training mode, which compute otherwise than files and engines."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import intact


class Dropping(nn.Module):
    """A module of a user's own that drops rows in training mode."""

    drop_prob = 0.5

    def forward(self, x):
        return x * (torch.rand_like(x) > self.drop_prob) if self.training else x


NETS = {
    "BatchNorm2d": lambda: nn.BatchNorm2d(8),
    "Dropout": lambda: nn.Dropout(0.3),
    "Dropping": Dropping,
}


def net(inside: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(4, 8, 3), inside, nn.ReLU(), nn.Conv2d(8, 16, 3))


@pytest.mark.parametrize("kind", NETS)
@pytest.mark.parametrize("trains", [True, False])
def test_modules_that_compute_otherwise_in_training_mode_are_named(kind, trains):
    data = [torch.randn(2, 4, 8, 8) for _ in range(2)]
    report = intact.quantize(net(NETS[kind]()).train(trains), data, progress=False).report
    assert report.training == ({"1": kind} if trains else {})
    assert (f"1 ({kind}) is in training mode" in str(report)) == trains
    assert ("model.eval()" in str(report)) == trains


@pytest.mark.parametrize("inside", [nn.Dropout(0.0), nn.InstanceNorm2d(8), nn.GroupNorm(2, 8)])
def test_modules_that_compute_the_same_in_both_modes_are_not(inside):
    report = intact.quantize(net(inside).train(), example=torch.randn(2, 4, 8, 8), progress=False).report
    assert report.training == {} and "training" not in str(report)
