"""Graph mode on recurrent layers: the pairs of the ONNX path, fused calls, one native node for each layer."""

from __future__ import annotations

import copy
import warnings
from io import BytesIO
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn

import intact
from intact.torch import ExportReport, calibrate, export, load_checkpoint, quantize, save_checkpoint
from intact.torch import nn as quant_nn
from intact.torch.training.collect_statistics import enabled_quantizers

KINDS: list[type[nn.RNNBase]] = [nn.LSTM, nn.GRU, nn.RNN]


class Tagger(nn.Module):
    """An answer for each step."""

    def __init__(self, kind: Any, **form: Any) -> None:
        super().__init__()
        self.embed = nn.Linear(16, 24)
        self.rnn = kind(24, 16, **form)
        self.head = nn.Linear(32 if form.get("bidirectional") else 16, 20)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(torch.relu(self.embed(x)))[0])


class Classifier(Tagger):
    """One answer, of the last state of the last layer."""

    def forward(self, x: Tensor) -> Tensor:
        last = self.rnn(self.embed(x))[1]
        return self.head((last[0] if isinstance(last, tuple) else last)[-1])


class Stream(nn.Module):
    """State in, state out."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.rnn = kind(16, 8, num_layers=2)
        self.head = nn.Linear(8, 16)

    def forward(self, x: Tensor, h: Tensor, c: Tensor | None = None) -> tuple[Tensor, ...]:
        y, last = self.rnn(x, h if c is None else (h, c))
        return self.head(y), *(last if isinstance(last, tuple) else (last,))


class Reader(nn.Module):
    """Conv, both directions, Linear: how text in images is read."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1)
        self.rnn = nn.LSTM(128, 32, bidirectional=True)
        self.head = nn.Linear(64, 11)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.conv(x)).flatten(1, 2).permute(2, 0, 1)
        return self.head(self.rnn(x)[0])


def quantize_net(net: nn.Module, *data: Tensor, **options: Any) -> Any:
    return quantize(net.eval(), [data], method="max", correct_bias=False, progress=False, **options)


def make_net(net: Any, *args: Any, **form: Any) -> Any:
    torch.manual_seed(0)
    return net(*args, **form)


def recurrent_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.op_type in ("LSTM", "GRU", "RNN")]


def pairs_of(model: onnx.ModelProto) -> list[list[tuple[Any, ...] | None]]:
    """Codes, scale and zero point in front of each recurrent layer's data, and of its weight."""
    stored = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    producers = {output: node for node in model.graph.node for output in node.output}

    def behind(name: str) -> tuple[Any, ...] | None:
        node = producers.get(name)
        while node is not None and node.op_type in ("Transpose", "Reshape", "Squeeze"):
            node = producers.get(node.input[0])
        if node is None or node.op_type != "DequantizeLinear":
            return None
        return tuple(stored.get(read) for read in node.input)

    return [[behind(node.input[0]), behind(node.input[1])] for node in recurrent_nodes(model)]


ONE_CODE = 5e-3
"""Largest change of these nets' outputs by one code more at a rounding boundary."""


def agrees(model: nn.Module, report: ExportReport) -> None:
    """Every quantizer that is on was compared, and its codes agree as far as floats can."""
    assert {check.quantizer for check in report.quantizers} == set(enabled_quantizers(model))
    assert all(check.largest <= 1 and check.boundary < 1e-3 for check in report.quantizers)


def check(result: Any, path: Any, *inputs: Tensor) -> onnx.ModelProto:
    """Module, file and engine agree, and every layer runs natively."""
    agrees(result.model, export(result.model, inputs, path))
    engine = intact.compile(path)
    assert "onnx" not in [step.kind for step in engine.plan.steps]
    answers = engine(*(x.numpy() for x in inputs))
    with torch.no_grad():
        expected = result.model(*inputs)
    for output, real in zip(
        answers if isinstance(answers, (list, tuple)) else [answers],
        expected if isinstance(expected, tuple) else [expected],
        strict=True,
    ):
        np.testing.assert_allclose(output, real.numpy(), atol=ONE_CODE)
    return onnx.load(path)


FORMS = {"deep": {"num_layers": 2, "bidirectional": True, "batch_first": True}, "plain": {"bias": False}}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_file_has_the_pairs_of_the_onnx_path(kind, form, tmp_path):
    net, x = make_net(Tagger, kind, **form).eval(), torch.randn(4, 6, 16)
    result = quantize_net(net, x)
    ours = check(result, tmp_path / "ours.onnx", x)
    floats = BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (x,), floats, dynamo=False, opset_version=17, input_names=["x"])
    theirs = intact.quantize(
        floats.getvalue(),
        [{"x": x.numpy()}],
        method="max",
        float_budget=0,
        bias_correction=False,
        progress=False,
    )
    theirs.save(tmp_path / "theirs.onnx")
    own_pairs, wanted = pairs_of(ours), pairs_of(onnx.load(tmp_path / "theirs.onnx"))
    assert len(own_pairs) == len(wanted) == form.get("num_layers", 1)
    for (data, weight), (their_data, their_weight) in zip(own_pairs, wanted, strict=True):
        for mine, other in zip(weight, their_weight, strict=True):
            np.testing.assert_array_equal(mine, other)
        np.testing.assert_allclose(data[1], their_data[1], rtol=1e-5)
        assert data[2] == their_data[2]


@pytest.mark.parametrize("kind", KINDS)
def test_last_states_are_quantized_behind_the_call(kind, tmp_path):
    x = torch.randn(4, 6, 16)
    result = quantize_net(make_net(Classifier, kind, num_layers=3, batch_first=True), x)
    assert list(result.report.left) == []
    assert "getitem_quantizer" in "".join(result.report.quantizers)
    assert len(recurrent_nodes(check(result, tmp_path / "net.onnx", x))) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_states_that_are_handed_on(kind, tmp_path):
    states = torch.rand(2 if kind is nn.LSTM else 1, 2, 3, 8).unbind()
    inputs = (torch.randn(5, 3, 16), *states)
    net = make_net(Stream, kind).eval()
    named = dict(zip(("x", "h", "c"), inputs, strict=False))
    result = quantize(net, [named], method="max", correct_bias=False, progress=False)
    agrees(result.model, export(result.model, inputs, tmp_path / "net.onnx", dynamic_batch=False))
    engine = intact.compile(tmp_path / "net.onnx")
    kinds = [step.kind for step in engine.plan.steps]
    assert kinds.count("recurrent") == 2 and "onnx" not in kinds
    with torch.no_grad():
        for output, real in zip(engine(*(x.numpy() for x in inputs)), result.model(*inputs), strict=True):
            np.testing.assert_allclose(output, real.numpy(), atol=ONE_CODE)


def test_convolution_and_both_directions(tmp_path):
    x = torch.rand(2, 1, 8, 12)
    result = quantize_net(make_net(Reader), x)
    assert sorted(result.report.modules.values()) == ["FusedQuantLSTM", "QuantConv2d", "QuantLinear"]
    check(result, tmp_path / "net.onnx", x)


def test_each_layer_has_a_reason_and_can_be_left_out(tmp_path):
    net, x = make_net(Tagger, nn.LSTM, num_layers=2, batch_first=True), torch.randn(4, 6, 16)
    result = quantize_net(net, x, exclude=["rnn/LSTM"])
    assert result.report.left["rnn/LSTM"] == "kept in float: it matches 'rnn/LSTM' of exclude"
    assert "rnn._input_quantizers.1" in result.report.quantizers
    assert "rnn._input_quantizers.0" not in result.report.quantizers
    (first, second) = pairs_of(check(result, tmp_path / "net.onnx", x))
    assert first == [None, None] and None not in second
    rows = {row["layer"]: row["precision"] for row in result.explain()}
    assert rows["rnn/LSTM"] == "float" and rows["rnn/LSTM_1"] == "int8"


def test_an_engine_that_has_none_in_int8_keeps_the_module():
    x = torch.randn(4, 6, 16)
    result = quantize_net(make_net(Tagger, nn.LSTM), x, profile="tensorrt")
    assert type(result.model.rnn) is nn.LSTM
    assert "recurrent layers in float" in result.report.left["rnn/LSTM"]


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_a_projection_stays_one_call():
    net = make_net(Tagger, nn.LSTM)
    net.rnn = nn.LSTM(24, 32, proj_size=16)
    result = quantize_net(net, torch.randn(4, 6, 16))
    assert type(result.model.rnn) is nn.LSTM
    assert result.report.replaced == {"rnn": "proj_size=16, which ONNX's layers do not have"}


def test_a_layer_that_is_called_twice(tmp_path):
    class Twice(Tagger):
        def forward(self, x: Tensor) -> Tensor:
            once = self.rnn(self.embed(x))[0]
            return self.head(self.rnn(torch.cat([once, once[..., :8]], -1))[0])

    x = torch.randn(5, 3, 16)
    result = quantize_net(make_net(Twice, nn.GRU), x)
    model = check(result, tmp_path / "net.onnx", x)
    weights = [weight for _, weight in pairs_of(model)]
    assert len(weights) == 2 and None not in weights


def test_a_model_that_cannot_be_traced_has_them_too():
    class Looping(Tagger):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) if x.sum() > 0 else super().forward(-x)

    result = quantize_net(make_net(Looping, nn.RNN), torch.randn(4, 6, 16))
    assert "" in result.report.replaced and isinstance(result.model.rnn, quant_nn.FusedQuantRNN)


def test_any_number_of_steps():
    x = torch.randn(5, 3, 16)
    net = quantize_net(make_net(Tagger, nn.LSTM, num_layers=2), x).model.eval()
    file = BytesIO()
    torch.onnx.export(net, (x,), file, dynamo=True, dynamic_shapes={"x": {0: "steps", 1: "batch"}})
    engine = intact.compile(file.getvalue())
    for sizes in ((9, 2, 16), (1, 4, 16)):
        other = torch.randn(sizes)
        with torch.no_grad():
            np.testing.assert_allclose(engine(other.numpy()), net(other).numpy(), atol=ONE_CODE)


def test_torchs_older_exporter():
    x = torch.randn(5, 3, 16)
    net = quantize_net(make_net(Tagger, nn.LSTM, bidirectional=True), x).model.eval()
    file = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Exporting a model to ONNX with a batch_size other than 1")
        torch.onnx.export(net, (x,), file, dynamo=False, opset_version=17)
    kinds = [step.kind for step in intact.compile(file.getvalue()).plan.steps]
    assert kinds.count("recurrent") == 1 and kinds.count("linear") == 3


def test_copies_and_checkpoints(tmp_path):
    net, x = make_net(Tagger, nn.GRU, num_layers=2), torch.randn(5, 3, 16)
    model = quantize_net(net, x, exclude=["rnn/GRU"]).model
    expected = model(x)
    assert torch.equal(copy.deepcopy(model)(x), expected)
    save_checkpoint(model, tmp_path / "net.safetensors")
    loaded = make_net(Tagger, nn.GRU, num_layers=2).eval()
    load_checkpoint(loaded, tmp_path / "net.safetensors")
    assert torch.equal(loaded(x), expected)


def test_it_trains_and_is_calibrated_again(tmp_path):
    x, wanted = torch.randn(5, 3, 16), torch.randn(5, 3, 20)
    result = quantize_net(make_net(Tagger, nn.LSTM, num_layers=2, dropout=0.1), x)
    optimizer = torch.optim.SGD(result.model.train().parameters(), 0.1)
    losses = []
    for _ in range(8):
        loss = nn.functional.mse_loss(result.model(x), wanted)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < losses[0]
    calibrate(result.model.eval(), [x], method="max", progress=False)
    check(result, tmp_path / "net.onnx", x)
