"""Weights that parametrizations and hooks make have the same codes in module and file."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.torch.engine_of_module import assert_engine_equals_module
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

import intact

MAKE: dict[str, Callable[[nn.Conv1d], object]] = {
    "weight_norm": lambda conv: parametrizations.weight_norm(conv, dim=2),
    "weight_norm of each channel": parametrizations.weight_norm,
    "weight_norm by a hook": lambda conv: nn.utils.weight_norm(conv, dim=2),
    "spectral_norm": parametrizations.spectral_norm,
    "spectral_norm by a hook": nn.utils.spectral_norm,
    "pruning": lambda conv: prune.l1_unstructured(conv, "weight", 0.3),
}


@pytest.mark.parametrize("kind", MAKE)
def test_module_and_engine_are_equal(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    convs = [nn.Conv1d(24, 24, 16, padding=8, groups=2) for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own, of the forms by hooks
        for conv in convs:
            MAKE[kind](conv)
    data = [(torch.randn(2, 24, 20),) for _ in range(3)]
    result = intact.quantize(nn.Sequential(*convs).eval(), data, progress=False)
    hooks = [list(conv._forward_pre_hooks) for conv in convs]
    assert_engine_equals_module(result.model, data[0][0], tmp_path / "m.onnx")
    assert [list(conv._forward_pre_hooks) for conv in convs] == hooks
    assert all(parametrize.is_parametrized(conv) or "weight_orig" in conv._parameters
               or "weight_g" in conv._parameters for conv in convs)  # fmt: skip


def test_weights_between_two_codes_fall_as_they_do_in_torch(tmp_path: Path) -> None:
    """Two forms of g * v / |v| differ in last bits: in a million weights some decide a code."""
    torch.manual_seed(0)
    linear, data = parametrizations.weight_norm(nn.Linear(512, 2048)), [(torch.randn(8, 512),)] * 2
    result = intact.quantize(nn.Sequential(linear).eval(), data, method="max", progress=False)
    assert_engine_equals_module(result.model, data[0][0], tmp_path / "m.onnx")
