"""Arguments of other kinds than the calls take: our error says what was wanted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import intact
import intact.torch
from intact.errors import QuantValueError


@pytest.fixture(scope="module")
def quantized_result() -> Any:
    torch.manual_seed(0)
    return intact.torch.quantize(nn.Sequential(nn.Linear(32, 16)), [torch.randn(8, 32)])


X = torch.ones(2, 32)
CALLS: dict[str, Callable[[Any, Tensor], object]] = {
    "quantize": lambda model, x: intact.torch.quantize(model, [x]),
    "calibrate": lambda model, x: intact.torch.calibrate(model, [x]),
    "export": lambda model, x: intact.torch.export(model, x, "never.onnx"),
    "compile": lambda model, x: intact.torch.compile(model, x),
    "reconstruct": lambda model, x: intact.torch.reconstruct(model, [x]),
    "finetune": lambda model, x: intact.torch.finetune(model, [(x, x)], epochs=1, lr=0.1),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("model", [None, "model.pt", {"weight": X}], ids=["none", "path", "state"])
def test_what_is_no_module_is_refused(call: str, model: Any) -> None:
    with pytest.raises(QuantValueError, match=rf"{call}: model: got a \w+, want a torch\.nn\.Module"):
        CALLS[call](model, X)


@pytest.mark.parametrize("call", ["export", "calibrate"])
def test_a_result_is_no_module_and_has_one(call: str, quantized_result: Any) -> None:
    with pytest.raises(
        QuantValueError, match=r"GraphModeResult, want a torch\.nn\.Module \(its \.model is one"
    ):
        CALLS[call](quantized_result, X)


@pytest.mark.parametrize("call", CALLS)
def test_a_module_without_values_is_refused(call: str) -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(32, 16))
    with pytest.raises(QuantValueError, match=rf"{call}: '0\.weight': got a tensor on the meta device"):
        CALLS[call](model, X)


@pytest.mark.parametrize("call", ["quantize", "calibrate", "compile"])
def test_data_without_values_are_refused(call: str, quantized_result: Any) -> None:
    model = nn.Sequential(nn.Linear(32, 16)) if call == "quantize" else quantized_result.model
    with pytest.raises(QuantValueError, match="a tensor on the meta device, want tensors with values"):
        CALLS[call](model, X.to("meta"))


@pytest.mark.parametrize("method", [None, 3, [], b"max", ("max",)], ids=str)
def test_a_method_that_is_no_name_is_refused(method: Any, quantized_result: Any) -> None:
    with pytest.raises(QuantValueError, match=r"method: got .*, want one of"):
        intact.torch.calibrate(quantized_result.model, [X], method=method)


@pytest.mark.parametrize("path", [None, 3, ["a"]], ids=str)
def test_what_names_no_file_is_refused(path: Any, quantized_result: Any) -> None:
    with pytest.raises(QuantValueError, match=r"path: got a \w+, want the name of a file"):
        intact.torch.export(quantized_result.model, X, path)
    with pytest.raises(QuantValueError, match=r"path: got a \w+, want the name of a file"):
        intact.load(path)
    with pytest.raises(QuantValueError, match=r"path: got a \w+, want the name of a file"):
        intact.torch.save_checkpoint(quantized_result.model, path)


def test_refused_exports_leave_no_file(
    quantized_result: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(QuantValueError):
        intact.torch.export(None, X, "never.onnx")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_an_option_that_no_method_has_is_named() -> None:
    model = nn.Sequential(nn.Linear(32, 16))
    with pytest.raises(QuantValueError, match=r"percentil: got no option of this name.*write percentile"):
        intact.torch.quantize(model, [X], method="percentile", percentil=99.0, progress=False)
