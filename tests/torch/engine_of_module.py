"""A quantized module and the engine of its file on one input."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import intact
from intact.torch import export


def assert_engine_equals_module(model: nn.Module, x: Tensor, path: Path) -> None:
    """Export a module of one input and one output to `path`; both have to give the same bits."""
    export(model, x, path, verify=False)
    engine = intact.compile(path, threads=1)
    (y,) = engine.run({engine.inputs[0].name: x.numpy()}).values()
    with torch.no_grad():
        assert torch.equal(model(x), torch.from_numpy(y))
