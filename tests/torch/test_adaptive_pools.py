"""Adaptive pools, also where sizes do not divide, and pools and convolutions of volumes: module = engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import intact
import intact.torch
from intact.torch.nn import TensorQuantizer
from intact.torch.operators.adaptive_pools import axis_windows
from intact.torch.tensor_quant import QuantDescriptor

CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
SIZES = {1: (19,), 2: (13, 17), 3: (7, 8, 9)}


class Net(nn.Module):
    """A pool between two convolutions."""

    def __init__(self, pool: nn.Module, rank: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.pool = CONVOLUTIONS[rank](3, 16, 3), pool
        self.last = CONVOLUTIONS[rank](16, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.pool(torch.relu(self.first(x))))


@pytest.mark.parametrize("size", [1, 2, 5, 7, 13])
@pytest.mark.parametrize("outputs", [1, 2, 3, 5, 7, 20])
def test_windows_are_torchs(size: int, outputs: int) -> None:
    windows, x = axis_windows(size, outputs), torch.randn(1, size)
    data = np.append(x[0].numpy(), np.float32(0))
    assert torch.equal(
        F.adaptive_max_pool1d(x, outputs)[0], torch.from_numpy(data[windows.places_for_max].max(1))
    )
    means = torch.from_numpy(data[windows.places].sum(1) / windows.counts.astype(np.float32))
    torch.testing.assert_close(F.adaptive_avg_pool1d(x, outputs)[0], means)


POOLS = {
    "max-1d": (nn.AdaptiveMaxPool1d(5), 1), "mean-1d": (nn.AdaptiveAvgPool1d(5), 1),
    "max-2d": (nn.AdaptiveMaxPool2d((3, 7)), 2), "mean-2d": (nn.AdaptiveAvgPool2d((3, 7)), 2),
    "max-2d-of-one-axis": (nn.AdaptiveMaxPool2d((None, 4)), 2),
    "mean-2d-of-one-axis": (nn.AdaptiveAvgPool2d((None, 4)), 2),
    "max-2d-larger": (nn.AdaptiveMaxPool2d(20), 2), "mean-2d-larger": (nn.AdaptiveAvgPool2d(20), 2),
    "max-2d-whole": (nn.AdaptiveMaxPool2d(1), 2), "mean-2d-whole": (nn.AdaptiveAvgPool2d(1), 2),
    "max-3d": (nn.AdaptiveMaxPool3d((2, 3, 4)), 3), "mean-3d": (nn.AdaptiveAvgPool3d((2, 3, 4)), 3),
    "mean-3d-that-divides": (nn.AdaptiveAvgPool3d((5, 3, 7)), 3),
    "average-3d": (nn.AvgPool3d(2), 3), "average-3d-padded": (nn.AvgPool3d((3, 2, 3), 2, 1), 3),
    "average-3d-divisor": (nn.AvgPool3d(2, divisor_override=5), 3),
}  # fmt: skip


@pytest.mark.parametrize("name", POOLS)
def test_module_file_and_engine_are_equal(name: str, tmp_path: Path) -> None:
    pool, rank = POOLS[name]
    x = torch.randn(3, 3, *SIZES[rank], generator=torch.Generator().manual_seed(1))
    net = Net(pool, rank).eval()
    result = intact.quantize(net, [x], progress=False)
    assert not result.report.comparison.torch_steps and not result.report.comparison.parts
    expected = result.model(x).detach()
    assert (expected - net(x)).norm() < 0.05 * expected.norm()
    np.testing.assert_array_equal(intact.compile(result.model, x)(x), expected.numpy())
    report = intact.torch.export(result.model, x[:1], tmp_path / "m.onnx", opset=17)
    assert report.comparison.equal and not report.codes_differing
    np.testing.assert_array_equal(intact.compile(tmp_path / "m.onnx")(x), expected.numpy())  # an open batch


@pytest.mark.parametrize("output_size", [(3, 7), (4, 4), 1])
@pytest.mark.parametrize("batched", [True, False])
def test_places_of_maxima_are_torchs(output_size: Any, batched: bool) -> None:
    class Places(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.pool = nn.Linear(16, 16), nn.AdaptiveMaxPool2d(output_size, return_indices=True)

        def forward(self, x: Tensor, image: Tensor) -> tuple[Tensor, ...]:
            return self.layer(x), *self.pool(image)

    generator = torch.Generator().manual_seed(2)
    x, image = torch.randn(2, 16), torch.randn((2, 3, 8, 12) if batched else (3, 8, 12), generator=generator)
    net = Places().eval()
    model = intact.quantize(net, [((x, image),)], example=(x, image), progress=False).model
    engine = intact.torch.compile(model, (x, image), dynamic_batch=False)
    feeds = {port.name: array.numpy() for port, array in zip(engine.inputs, (x, image), strict=True)}
    outputs = list(engine.run(feeds).values())
    for ours, want in zip(outputs[1:], net(x, image)[1:], strict=True):
        np.testing.assert_array_equal(ours, want.numpy())


def with_quantizers(function: Callable[..., Tensor], x: Tensor, bits: int, *shape: int) -> nn.Module:
    """Return a module that calls a function on a quantized tensor, and on a quantized weight of a shape."""

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.of_data = TensorQuantizer(QuantDescriptor(num_bits=bits))
            self.of_weight = TensorQuantizer(QuantDescriptor(axis=(0,)))
            self.weight = nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(3)))

        def forward(self, x: Tensor) -> Tensor:
            operands = [self.of_weight(self.weight)] if shape else []
            return function(self.of_data(x), *operands)

    module = Own().eval()
    if not shape:
        module.of_weight.disable()
    intact.torch.calibrate(module, [x], progress=False, scale_bits=None)
    return module


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("groups", [1, 4])
def test_convolutions_of_volumes_multiply_codes_of_8_and_16_bits(bits: int, groups: int) -> None:
    def convolve(x: Tensor, weight: Tensor) -> Tensor:
        return F.conv3d(x, weight, stride=2, padding=1, groups=groups)

    x = torch.randn(2, 8, 7, 8, 9, generator=torch.Generator().manual_seed(4))
    module = with_quantizers(convolve, x, bits, 16, 8 // groups, 3, 3, 3)
    engine = intact.torch.compile(module, x)
    np.testing.assert_array_equal(engine(x), module(x).detach().numpy())


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_convolutions_of_volumes_of_floats_have_the_engines_sums(dilation: int, bias: bool) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(32, 32)
            self.conv = nn.Conv3d(4, 16, 3, padding=1, dilation=dilation, bias=bias)

        def forward(self, x: Tensor) -> Tensor:
            return self.conv(self.layer(x))

    torch.manual_seed(0)
    x = torch.randn(2, 4, 6, 7, 32)
    result = intact.quantize(Mixed().eval(), [x], exclude=["conv"], progress=False)
    engine = intact.compile(result.model, x)
    assert not any(step.kind == "onnx" for step in engine.plan.steps)
    np.testing.assert_array_equal(engine(x), result.model(x).detach().numpy())
