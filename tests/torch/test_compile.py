"""`intact.compile` of a module: the engine of the file that `export` would write, without the file."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import intact
from intact.errors import CalibrationError, QuantValueError
from intact.torch import GraphModeReport, GraphModeResult, calibrate, export, replace_modules
from intact.torch import nn as quant_nn
from intact.torch.tensor_quant import QuantDescriptor


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        a = self.first(x).relu()
        return self.norm((self.second(a) + a).relu().mean((2, 3)))


def images(count: int) -> Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(count))


def test_it_is_the_engine_of_the_file_and_shares_no_memory_with_the_module(tmp_path) -> None:
    torch.manual_seed(0)
    model = Residual().eval()
    replace_modules(model)
    calibrate(model, [images(4)], method="max")
    result = GraphModeResult(model, GraphModeReport())  # as `intact.quantize` returns it
    export(result.model, images(4), tmp_path / "m.onnx", verify=False)
    engine, filed = intact.compile(result, images(4)), intact.compile(tmp_path / "m.onnx")
    wanted = filed(images(3))
    assert engine.inputs[0].shape == ("batch", 3, 8, 8)
    assert np.array_equal(engine(images(3)), wanted)
    with torch.no_grad():
        for parameter in result.model.parameters():
            parameter.zero_()
    assert np.array_equal(engine(images(3)), wanted)


def test_named_inputs_fixed_sizes_and_formats_that_need_a_newer_opset() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            wide = QuantDescriptor(num_bits=16, amax=4.0)
            self.fc = quant_nn.QuantLinear(4, 4, quant_desc_input=wide, quant_desc_weight=wide)

        def forward(self, x: Tensor, *, scale: Tensor) -> Tensor:
            return self.fc(x) * scale

    torch.manual_seed(0)
    example = {"x": torch.randn(2, 4), "scale": torch.ones(2, 1)}
    model = Two().eval()
    engine = intact.compile(model, example, dynamic_batch=False, threads=1)
    assert [(port.name, port.shape) for port in engine.inputs] == [("x", (2, 4)), ("scale", (2, 1))]
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(engine.run(example)["mul"]), model(**example))


def test_what_cannot_be_compiled_is_refused_with_a_way_out() -> None:
    model = nn.Sequential(nn.Linear(4, 2))
    with pytest.raises(QuantValueError, match=r"example: got none.*intact\.compile\(model, example\)"):
        intact.compile(model)  # type: ignore[call-overload]
    with pytest.raises(QuantValueError, match=r"nothing quantized.*quantize first: .*intact\.quantize"):
        intact.compile(model, torch.zeros(2, 4))
    with pytest.raises(CalibrationError, match="no amax"):
        intact.compile(nn.Sequential(quant_nn.QuantLinear(4, 2)), torch.zeros(2, 4))
