"""Layers that lose most get 16 bits or stay in float where 8 bits leave a module's outputs poor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import intact
from intact.errors import QuantValueError
from intact.ptq import GATE_DB
from intact.torch import export, quantize
from intact.torch.exact import torch_functions
from intact.torch.nn import TensorQuantizer


class Outlier(nn.Module):
    """One channel is far larger than the others, and the weights that multiply it are as much smaller."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.layer = nn.Conv2d(64, 64, 1, bias=False)
        self.last = nn.Conv2d(64, 64, 3, padding=1, bias=False)
        self.gain = nn.Buffer(torch.tensor([3e4, *[1.0] * 63]))
        with torch.no_grad():
            self.layer.weight[:, 0] *= 1e-6

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x)) * self.gain[:, None, None]
        return self.last(torch.relu(self.layer(x))).mean((2, 3))


class LoudInput(nn.Module):
    """A recurrent layer that listens to the quiet ones of its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 32, 3)
        self.lstm = nn.LSTM(32, 8, batch_first=True)
        with torch.no_grad():
            self.conv.weight[0] *= 3e4
            self.lstm.weight_ih_l0[:, 0] = 0

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(torch.relu(self.conv(x)).transpose(1, 2))[0]


class Steep(nn.Module):
    """Whatever has 8 bits in front of it, its output is another."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 16, 8, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(3000 * self.conv(x))


def make_net(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return kind().eval()


def batches(*shape: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator) for _ in range(4)]


def decibels(model: nn.Module, other: nn.Module, x: Tensor) -> float:
    with torch.no_grad():
        want = model(x)
        return float(10 * torch.log10(want.square().sum() / (other(x) - want).square().sum()))


def test_what_loses_most_gets_16_bits(tmp_path: Path) -> None:
    model, data = make_net(Outlier), batches(2, 3, 12, 12)
    plain = quantize(model, data, float_budget=0, progress=False)
    result = quantize(model, data, float_budget=0.4, progress=False)
    assert not plain.report.wide and not plain.report.left
    assert list(result.report.wide) == ["layer._input_quantizer"]
    assert "layer._input_quantizer: 16 bits" in str(result.report)
    assert decibels(model, result.model, data[0]) > decibels(model, plain.model, data[0]) + 10
    (layer,) = [row for row in result.explain() if row["layer"] == "layer"]
    assert layer["precision"] == "int8" and "more time" in str(layer["reason"])

    assert export(result.model, data[0], tmp_path / "m.onnx").opset == 21
    with torch.no_grad():
        want = result.model(data[0]).numpy()
    got = intact.compile(tmp_path / "m.onnx")(data[0].numpy())
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


def test_what_cannot_have_16_bits_stays_in_float() -> None:
    model, data = make_net(LoudInput), batches(2, 3, 50)
    result = quantize(model, data, progress=False, float_budget=9.0)
    assert list(result.report.left) == ["lstm/LSTM"] and not result.report.wide
    (layer,) = [row for row in result.explain() if row["op_type"] == "LSTM"]
    assert layer["precision"] == "float"
    quantizers = [m for m in result.model.get_submodule("lstm").modules() if isinstance(m, TensorQuantizer)]
    assert quantizers and all(q._disabled for q in quantizers)
    assert decibels(model, result.model, data[0]) > 26


def test_all_layers_may_stay_in_float(tmp_path: Path) -> None:
    model, data = make_net(Steep), batches(2, 2, 40)
    result = quantize(model, data, method="max", float_budget=9.0, progress=False)
    assert "conv" in result.report.left and not result.report.wide and not result.report.quantizers
    assert all(m._disabled for m in result.model.modules() if isinstance(m, TensorQuantizer))
    with torch.no_grad(), torch_functions():
        assert torch.equal(result.model(data[0]), model(data[0]))
    assert export(result.model, data[0], tmp_path / "m.onnx").pairs == 0


def test_outputs_that_are_good_are_left_alone() -> None:
    torch.manual_seed(0)
    model, data = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)).eval(), batches(2, 3, 9, 9)
    ours, plain = (quantize(model, data, float_budget=b, progress=False).model for b in (None, 0))
    with torch.no_grad():
        assert torch.equal(ours(data[0]), plain(data[0]))


def test_what_does_not_pay_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "intact.torch.graph_mode.mixed_precision.is_clearly_better", lambda before, after: False
    )
    model, data = make_net(Outlier), batches(2, 3, 12, 12)
    ours, plain = (quantize(model, data, float_budget=b, progress=False) for b in (0.4, 0))
    assert ours.report == plain.report
    with torch.no_grad():
        assert torch.equal(ours.model(data[0]), plain.model(data[0]))


@pytest.mark.parametrize("budget", [-0.1, float("nan"), "much", True])
def test_a_budget_is_a_part(budget: object) -> None:
    with pytest.raises(QuantValueError, match="float_budget"):
        quantize(make_net(Outlier), batches(2, 3, 12, 12), float_budget=budget)  # type: ignore[arg-type]


class _Best(nn.Module):
    """Boxes of 8 x 8 places, those of the four best scores in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.scores, self.boxes = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 1, 1), nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.features(x))
        order = self.scores(y).flatten(1).topk(4).indices
        boxes = self.boxes(y).flatten(2)
        return torch.gather(boxes, 2, order[:, None].expand(-1, 4, -1)).transpose(1, 2)


def test_rows_that_values_order_are_compared_in_any_order():
    torch.manual_seed(0)
    data = [torch.randn(1, 3, 10, 10) for _ in range(4)]
    result = quantize(_Best().eval(), data, progress=False)
    assert result.calibration is not None
    assert result.calibration._unordered == {0}
    want = result.calibration._holdout[0].outputs[0]
    turned = [want[:, [1, 0, 3, 2]]]
    with_turned = replace(result.calibration, _forward=lambda *_: turned[0])
    error, square = with_turned.output_errors({}, 1)[0]
    assert error == 0 < square


def test_a_module_that_the_budget_left_whole_in_float_compiles_and_is_reported_so() -> None:
    data = batches(2, 2, 64)
    result = quantize(make_net(Steep), data, float_budget=9.0, progress=False)
    assert not any(isinstance(m, TensorQuantizer) and not m._disabled for m in result.model.modules())
    assert result.report.modules == {}
    assert "everything stays in float" in str(result.report).splitlines()[0]
    engine = intact.compile(result, data[0])
    np.testing.assert_allclose(engine(data[0].numpy()), result.model(data[0]).detach(), atol=2e-3)


class Listening(nn.Module):
    """A recurrent layer whose loudest input says little: 8 bits leave it fair."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(32, 16, bidirectional=True)
        self.gain = nn.Buffer(torch.tensor([8.0, *[1.0] * 31]))
        with torch.no_grad():
            self.rnn.weight_ih_l0[:, 0] /= 8
            self.rnn.weight_ih_l0_reverse[:, 0] /= 8

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x * self.gain)[0]


def test_a_recurrent_layer_gets_16_bits_where_outputs_are_only_fair(tmp_path: Path) -> None:
    model, data = make_net(Listening), batches(9, 1, 32)
    plain = quantize(model, data, float_budget=0, progress=False)
    result = quantize(model, data, progress=False)
    assert 26 < decibels(model, plain.model, data[0]) < 40
    assert list(result.report.wide) == ["rnn._input_quantizers.0"]
    assert decibels(model, result.model, data[0]) > decibels(model, plain.model, data[0]) + 3
    export(result.model, data[0], tmp_path / "m.onnx")
    got, exact = (
        intact.compile(tmp_path / "m.onnx", backend=backend)(data[0].numpy())
        for backend in ("cpu", "reference")
    )
    np.testing.assert_array_equal(got, exact)
    with torch.no_grad():
        want = result.model(data[0]).numpy()
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


class Channels(nn.Module):
    """Convolutions of 1 x 1 whose channels differ by factors of thousands, in either direction by turns."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(16, 16, 1, bias=False) for _ in range(7))
        sizes = torch.exp(4 * torch.linspace(-1, 1, 16))
        with torch.no_grad():
            for index, layer in enumerate(self.layers):
                turned = sizes[:, None, None, None] if index % 2 == 0 else 1 / sizes[:, None, None]
                layer.weight.copy_(torch.randn(16, 16, 1, 1) / 4 * turned)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
        return self.layers[-1](x)


def test_outputs_of_no_use_reach_the_gate_whatever_that_takes() -> None:
    model, data = make_net(Channels), batches(16, 16, 1, 1)
    plain, little = (quantize(model, data, float_budget=b, progress=False) for b in (0, 1e-6))
    result = quantize(model, data, progress=False)
    assert decibels(model, plain.model, data[0]) < GATE_DB - 3
    assert not little.report.wide and not little.report.left
    assert decibels(model, result.model, data[0]) >= GATE_DB - 1.5
    reasons = [*result.report.wide.values(), *result.report.left.values()]
    assert reasons and result.report.quantizers
    assert all(f"the {GATE_DB:g} dB" in why or "the float budget" in why for why in reasons)
