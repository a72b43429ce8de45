"""Recurrent layers of packed sequences: quantized, traced, and run with the lengths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import intact
from intact.engine.steps import Recurrent
from intact.errors import UnsupportedError
from intact.torch import export, quantize
from intact.torch.exact import exact_functions, torch_functions

STEPS, LENGTHS = 9, ([9, 3, 6], [2, 9, 9], [9, 1, 4])
GENERATOR = torch.Generator().manual_seed(0)
DATA = [(torch.randint(0, 20, (3, STEPS), generator=GENERATOR), torch.tensor(lengths)) for lengths in LENGTHS]


class Tagger(nn.Module):
    """The last state of each sentence, and what is said of each of its words."""

    def __init__(
        self, layer: type[nn.RNNBase], *, activation: Callable[[Tensor], Tensor] | None = None, **options: Any
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 16)
        self.layer = layer(16, 24, batch_first=True, **options)
        width = 48 if options.get("bidirectional") else 24
        self.words_head, self.head = nn.Linear(width, 5), nn.Linear(24, 4)
        self.hidden, self.activation = nn.Linear(16, 16) if activation else None, activation

    def forward(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        packed = pack_padded_sequence(self.words(ids), lengths, batch_first=True, enforce_sorted=False)
        if self.hidden is not None and self.activation is not None:
            packed = PackedSequence(self.activation(self.hidden(packed.data)), *packed[1:])
        y, last = self.layer(packed)
        y, _ = pad_packed_sequence(y, batch_first=True, padding_value=0.5)
        return self.words_head(y), self.head(last[0][-1] if isinstance(last, tuple) else last[-1])


CASES: dict[str, Callable[[], nn.Module]] = {
    "LSTM": lambda: Tagger(nn.LSTM),
    "two layers, both ways": lambda: Tagger(nn.LSTM, num_layers=2, bidirectional=True),
    "GRU": lambda: Tagger(nn.GRU, bias=False),
    "RNN behind a layer of rows": lambda: Tagger(nn.RNN, activation=torch.relu),
    "GRU behind a function of rows": lambda: Tagger(nn.GRU, activation=F.hardswish),
}


@pytest.mark.parametrize("case", CASES)
def test_module_engine_and_file_agree_for_other_lengths_and_batches(case: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    result = quantize(CASES[case]().eval(), DATA, progress=False)
    assert not result.report.replaced and result.placement is not None
    assert any(x.precision == "int8" and x.op_type in ("LSTM", "GRU", "RNN") for x in result.placement.layers)
    engine = intact.compile(result.model, DATA[0])
    assert any(isinstance(step, Recurrent) and step.lengths for step in engine.plan.steps)
    export(result.model, DATA[0], tmp_path / "packed.onnx")
    session = ort.InferenceSession(tmp_path / "packed.onnx", providers=["CPUExecutionProvider"])
    two = torch.randint(0, 20, (2, STEPS)), torch.tensor([5, STEPS])
    for ids, lengths in (*DATA, two):
        with torch.no_grad():
            wanted = [x.numpy() for x in result.model(ids, lengths)]
        feeds = dict(zip((x.name for x in session.get_inputs()), (ids.numpy(), lengths.numpy()), strict=True))
        for ours, file, want in zip(engine(ids, lengths), session.run(None, feeds), wanted, strict=True):
            np.testing.assert_array_equal(ours, want)
            np.testing.assert_allclose(file, want, atol=0.05)


def test_the_engines_arithmetic_has_the_gradient_of_packed_layers() -> None:
    torch.manual_seed(0)
    model = Tagger(nn.GRU, bidirectional=True).eval()
    gradients = []
    for way in (lambda: exact_functions(model), torch_functions):
        model.zero_grad()
        with way():
            sum(x.square().sum() for x in model(*DATA[0])).backward()
        gradients.append([x.grad.clone() for x in model.parameters()])
    for actual, other in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, other, rtol=1e-4, atol=1e-5)


class Mean(Tagger):
    """Its mean is that of all words of all sentences."""

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:  # type: ignore[override]
        packed = pack_padded_sequence(self.words(ids), lengths, batch_first=True, enforce_sorted=False)
        return self.head(self.layer(packed)[0].data.mean(0))


def test_what_needs_the_number_of_rows_is_refused_by_name() -> None:
    torch.manual_seed(0)
    result = quantize(Mean(nn.LSTM).eval(), DATA, progress=False)
    assert "packed sequence" in str(result.report) and "mean" in str(result.report)
    with pytest.raises(UnsupportedError, match="mean on the rows of a packed sequence"):
        intact.compile(result.model, DATA[0])


def test_an_engine_answers_all_steps_where_the_module_answers_those_of_the_longest() -> None:
    torch.manual_seed(0)
    model = quantize(Tagger(nn.LSTM).eval(), DATA, progress=False).model
    engine, lengths = intact.compile(model, DATA[0]), torch.tensor([5, 2, 4])
    with torch.no_grad():
        words, last = (x.numpy() for x in model(DATA[0][0], lengths))
    ours, ours_last = engine(DATA[0][0], lengths)
    np.testing.assert_array_equal(ours_last, last)
    np.testing.assert_array_equal(ours[:, :5], words)
    assert ours.shape[1] == STEPS and words.shape[1] == 5


class Split(nn.Module):
    """Its code takes another way for other values."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x[: int(x.sum().abs()) % 2 + 1])


def test_a_refusal_speaks_of_experts_where_there_are_some(caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 16)
    for name in ("head", "expert"):
        model = nn.Sequential()
        model.add_module(name, quantize(Split().eval(), [x], progress=False).model)
        with pytest.raises(UnsupportedError, match="depends on values") as caught:
            intact.compile(model, x)
        assert ("experts" in str(caught.value)) == (name == "expert")
    assert "def forward" not in caplog.text


def test_a_layer_that_is_one_call_says_so() -> None:
    torch.manual_seed(0)
    model = Tagger(nn.LSTM, proj_size=8).eval()
    model.words_head, model.head = nn.Linear(8, 5), nn.Linear(8, 4)
    report = quantize(model, DATA, progress=False).report
    assert "'layer' answers a packed sequence" in report.replaced[""] and "proj_size=8" in report.replaced[""]
