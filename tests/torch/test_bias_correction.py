"""Bias correction: the mean error of a layer's output goes out of its bias, asked for or where it helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn

import intact.torch
from intact import graph
from intact.errors import CalibrationError
from intact.torch import CalibrationResult
from intact.torch.qdq.run_exporter import translate
from intact.torch.training.collect_statistics import enabled_quantizers


class Net(nn.Module):
    """A convolution without a bias, and a classifier with one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.bn(self.conv(x))).mean((2, 3)))


@pytest.fixture
def net() -> Net:
    torch.manual_seed(1)
    model = Net()
    intact.torch.replace_modules(model)
    return model


def batches(count: int = 4) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return list((torch.randn(count * 8, 3, 8, 8, generator=generator) ** 3).split(8))


def calibrate(model: nn.Module, data: list[Tensor], **options: Any) -> CalibrationResult:
    return intact.torch.calibrate(model, data, scale_bits=None, progress=False, **options)


def mean_error(model: nn.Module, data: list[Tensor]) -> Tensor:
    """Mean over images and positions of what quantization adds to the first convolution's output."""
    model.eval()
    x = torch.cat(data)
    with torch.no_grad():
        quantized = model.conv(x)
        real = nn.functional.conv2d(x, model.conv.weight)
    return (quantized - real).mean((0, 2, 3))


def test_bias_correction_takes_the_mean_error_out(net: Net) -> None:
    data = batches()
    result = calibrate(net, data, method="max")
    before = mean_error(net, data).abs().max()
    assert net.conv.bias is None
    result.apply("max", correct_bias=True, scale_bits=None)
    assert before > 1e-5
    assert mean_error(net, data).abs().max() < 1e-6


def test_bias_correction_is_not_applied_twice(net: Net) -> None:
    result = calibrate(net, batches(), method="max", correct_bias=True)
    want = net.head.bias.detach().clone()
    result.apply("max", correct_bias=True, scale_bits=None)
    torch.testing.assert_close(net.head.bias.detach(), want, rtol=0, atol=1e-7)
    calibrate(net, batches(), method="max", correct_bias=True)
    torch.testing.assert_close(net.head.bias.detach(), want, rtol=0, atol=1e-7)


def test_auto_corrects_biases_where_the_outputs_come_closer(net: Net) -> None:
    net.conv._weight_quantizer.num_bits = net.head._weight_quantizer.num_bits = 3
    result = calibrate(net, [x.abs() for x in batches()], method="max")
    error = result._output_error(enabled_quantizers(net))
    assert result.apply("max", scale_bits=None, correct_bias="auto").corrected
    assert result._output_error(enabled_quantizers(net)) < error


def test_a_bias_that_was_added_is_loaded_again(net: Net) -> None:
    calibrate(net, batches(), method="max", correct_bias=True)
    assert net.conv.bias is not None
    other = Net()
    intact.torch.replace_modules(other)
    calibrate(other, batches(), method="max")
    other.load_state_dict(net.state_dict())
    assert torch.equal(other.conv.bias, net.conv.bias)
    assert torch.equal(other.eval()(batches()[0]), net.eval()(batches()[0]))


def test_auto_leaves_no_bias_behind_where_it_does_not(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    def worse(model: nn.Module, *_: Any) -> list[nn.Module]:
        model.conv.bias = nn.Parameter(torch.ones(model.conv.out_channels))
        model.conv.register_buffer("_bias_correction", -torch.ones(model.conv.out_channels), persistent=False)
        return [model.conv]

    monkeypatch.setattr("intact.torch.training.calibration.subtract_mean_error", worse)
    for _ in range(2):
        result = calibrate(net, batches(), method="max", correct_bias="auto")
        assert not result.corrected
        assert net.conv.bias is None


def test_auto_corrects_nothing_without_batches(net: Net, tmp_path: Path) -> None:
    calibrate(net, batches()).save(tmp_path / "net.calib")
    result = CalibrationResult.load(tmp_path / "net.calib", net).apply("max", correct_bias="auto")
    assert not result.corrected
    assert net.conv.bias is None


def test_bias_correction_needs_batches(net: Net, tmp_path: Path) -> None:
    calibrate(net, batches()).save(tmp_path / "net.calib")
    with pytest.raises(CalibrationError, match=r"correct_bias: got statistics without batches"):
        CalibrationResult.load(tmp_path / "net.calib", net).apply("max", correct_bias=True)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_biases_of_recurrent_layers_lose_the_mean_error_of_their_weights(kind: Any) -> None:
    torch.manual_seed(0)
    float_model = nn.Sequential(kind(24, 8, num_layers=2, bidirectional=True)).eval()
    data = [torch.randn(5, 2, 24) + 1 for _ in range(3)]
    options: Any = {"method": "max", "float_budget": 0, "progress": False}
    result = intact.torch.quantize(float_model, data, correct_bias=True, **options)
    layers, floats = result.model[0], float_model[0]
    first = kind(24, 8, bidirectional=True)
    first.load_state_dict({name: x for name, x in floats.state_dict().items() if "_l0" in name})
    x = torch.cat(data, 1)
    for layer, read in enumerate((x, first(x)[0])):
        mean = read.detach().double().mean((0, 1))
        for end, weight in zip(("", "_reverse"), layers._input_weights(layer), strict=True):
            place = f"_l{layer}{end}"
            lost = (weight - getattr(floats, f"weight_ih{place}")).detach().double() @ mean
            moved = getattr(floats, f"bias_ih{place}") - getattr(layers, f"bias_ih{place}")
            assert float(lost.abs().max()) > 1e-4
            torch.testing.assert_close(moved.detach(), lost.float(), rtol=1e-3, atol=1e-6)
            assert torch.equal(getattr(floats, f"bias_hh{place}"), getattr(layers, f"bias_hh{place}"))
    assert result.calibration is not None
    result.calibration.apply("max")
    for name, bias in floats.named_parameters():
        torch.testing.assert_close(layers.get_parameter(name), bias, rtol=0, atol=1e-7)


def test_recurrent_layers_of_a_module_are_corrected_as_those_of_its_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.LSTM(24, 8)).eval()
    data = [torch.randn(5, 1, 24) + 1 for _ in range(3)]
    options: Any = {"method": "max", "float_budget": 0, "progress": False}
    module = intact.torch.quantize(model, data, correct_bias=True, **options).model[0]
    path = tmp_path / "float.onnx"
    path.write_bytes(graph.to_bytes(translate(model, (data[0],), opset=18).model))
    name = onnx.load(path).graph.input[0].name
    file = intact.quantize(path, [{name: x.numpy()} for x in data], bias_correction=True, **options).proto
    (node,) = (node for node in file.graph.node if node.op_type == "LSTM")
    (bias,) = (numpy_helper.to_array(x) for x in file.graph.initializer if x.name == node.input[3])
    i, f, g, o = module.bias_ih_l0.detach().split(8)
    want = torch.cat([i, o, f, g, *(module.bias_hh_l0.detach().split(8)[k] for k in (0, 3, 1, 2))])
    np.testing.assert_allclose(bias[0], want.numpy(), rtol=0, atol=1e-6)
    assert not torch.equal(module.bias_ih_l0, model[0].bias_ih_l0)
