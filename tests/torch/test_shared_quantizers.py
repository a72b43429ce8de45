"""A quantizer that several tensors pass through has one range of them all, in module, file and engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import intact.torch
from intact.torch.nn import TensorQuantizer


class Shared(nn.Module):
    """Three layers whose inputs, of growing ranges, pass through one quantizer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        self.quantizer, self.of_weights = TensorQuantizer(), TensorQuantizer()

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = 3 * F.linear(self.quantizer(x), self.of_weights(layer.weight), layer.bias)
        return x


def test_one_quantizer_has_one_range_in_module_file_and_engine(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x, seen = Shared().eval(), torch.randn(16, 32), []
    intact.torch.calibrate(model, [x], method="max", scale_bits=None, progress=False)
    model.quantizer.disable()
    hook = model.quantizer.register_forward_pre_hook(
        lambda _, args: seen.append(args[0].detach().abs().max().item())
    )
    model(x)
    hook.remove()
    model.quantizer.enable()
    assert len(seen) == 3 and float(model.quantizer.amax) > 0.9 * max(seen)
    expected = model(x).detach().numpy()
    report = intact.torch.export(model, x, tmp_path / "m.onnx")
    assert report.comparison.equal and not report.codes_differing
    np.testing.assert_array_equal(intact.compile(tmp_path / "m.onnx")(x), expected)
