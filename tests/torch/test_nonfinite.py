"""NaN and infinity in data, weights and outputs of modules."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import intact
from intact.errors import CalibrationError
from intact.torch import export
from intact.torch.models.nonfinite import squared_error
from intact.torch.qdq.verify_export import EndToEnd


class Net(nn.Module):
    """Two layers; behind them some outputs become `masked`."""

    def __init__(self, masked: float | None = None) -> None:
        super().__init__()
        self.first, self.last, self.masked = nn.Linear(16, 16), nn.Linear(16, 16), masked

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(torch.relu(self.first(x)))
        return y if self.masked is None else y.masked_fill(torch.ones(16, 16).triu(1) > 0, self.masked)


def rows() -> Tensor:
    return torch.randn(16, 16, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("masked", [-math.inf, math.nan])
@pytest.mark.parametrize("method", ["max", "auto"])
def test_outputs_that_the_float_model_masks_do_not_count(masked: float, method: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    result = intact.quantize(Net(masked).eval(), [rows()], method=method, progress=False)
    assert result.calibration is not None
    error, square = result.calibration.output_errors({}).sum(axis=0)  # of corrected biases alone
    assert 0 <= error < 0.001 * square
    assert all(0 < error < 0.1 for error in result.calibration.errors.values())
    report = export(result.model, rows(), tmp_path / "net.onnx")
    assert report.end_to_end is not None and report.end_to_end.values_differing == 0


def test_a_file_that_masks_other_outputs_differs() -> None:
    ours, file = np.array([[-np.inf, 1.0, np.nan]]), np.array([[0.5, 1.0, np.nan]])
    check = EndToEnd()
    check.add(ours, file, first=True)
    assert (check.values_differing, check.max_abs_diff) == (1, np.inf)
    check = EndToEnd()
    check.add(np.array([[-np.inf, 1.0]]), np.array([[-np.inf, 2.0]]), first=True)
    assert (check.values_differing, check.max_abs_diff) == (1, 1.0)


def test_a_finite_output_that_becomes_infinite_is_all_lost() -> None:
    want = torch.tensor([3.0, -math.inf, 1.0])
    assert squared_error(torch.tensor([math.inf, -math.inf, 1.0]), want) == (9.0, 10.0)
    assert squared_error(torch.tensor([3.0, 0.0, 2.0]), want) == (1.0, 10.0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("batch", [0, 2])
def test_the_error_names_the_input_that_holds_it(value: float, batch: int) -> None:
    data = [rows() for _ in range(3)]
    data[batch][0, 0] = value
    with pytest.raises(CalibrationError, match=rf"input of batch {batch} has such values"):
        intact.quantize(Net().eval(), data, method="max", progress=False)


def test_the_error_names_the_argument_that_holds_it() -> None:
    x = rows()
    x[0, 0] = math.nan
    with pytest.raises(CalibrationError, match=r"input\['x'\] of batch 0"):
        intact.quantize(Net().eval(), [{"x": x}], method="max", progress=False)


@pytest.mark.parametrize("name", ["first.weight", "first.bias", "last.weight", "last.bias"])
def test_the_error_names_the_parameter_that_holds_nan(name: str) -> None:
    model = Net().eval()
    model.get_parameter(name).data.view(-1)[0] = math.nan
    with pytest.raises(CalibrationError, match=f"parameter '{name}'"):
        intact.quantize(model, [rows()], method="max", progress=False)


@pytest.mark.parametrize("name", ["first.weight", "first.bias"])
def test_the_error_names_the_parameter_that_holds_infinity(name: str) -> None:
    model = Net().eval()
    model.get_parameter(name).data.view(-1)[0] = math.inf
    with pytest.raises(CalibrationError, match=f"parameter '{name}' has such values"):
        intact.quantize(model, [rows()], method="max", progress=False)


def test_a_model_that_answers_something_else_each_time_is_found_beside_infinities() -> None:
    class Counts(Net):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return super().forward(x) * self.calls

    result = intact.quantize(Counts(-math.inf).eval(), example=rows(), progress=False)
    assert "it has state" in result.report.replaced[""]
