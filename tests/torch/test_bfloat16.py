"""bfloat16 modules are quantized, and compiled to engines that compute in float32."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import intact


def test_a_bfloat16_module_compiles_and_takes_its_tensors():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(4, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 3)).to(torch.bfloat16).eval()
    x = torch.randn(2, 4, 9, 9).bfloat16()
    quantized = intact.quantize(module, [x], progress=False).model
    engine = intact.compile(quantized, x)
    assert [step.kind for step in engine.plan.steps] == ["quantize", "conv", "conv"]
    got = engine(x)
    np.testing.assert_array_equal(got, engine(x.float()))
    with torch.inference_mode():
        want = quantized(x).float().numpy()
    assert np.abs(got - want).max() < 2**-7 * np.abs(want).max()
