"""Refusals of `intact.torch.export`: each error names its place, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from intact.errors import CalibrationError, FileAccessError, IntactError, QuantValueError, UnsupportedError
from intact.torch import export
from intact.torch import nn as quant_nn
from intact.torch.nn import TensorQuantizer
from intact.torch.tensor_quant import QuantDescriptor


def set_unit_ranges(model: nn.Module) -> nn.Module:
    """`model`, every quantizer with a range of ones."""
    for module in model.modules():
        if isinstance(module, TensorQuantizer):
            axis = module.axis
            module.amax = torch.ones(()) if axis is None else torch.ones(3, 4 if axis == (0, 1) else 1)
    return model


def assert_refused(
    model: nn.Module, error: type[IntactError], match: str, tmp_path: Path, **options: Any
) -> None:
    with pytest.raises(error, match=match):
        export(model, torch.randn(2, 4), tmp_path / "m.onnx", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_quantizer_without_a_range_is_named(tmp_path: Path) -> None:
    model = nn.Sequential(quant_nn.QuantLinear(4, 3))
    assert_refused(model, CalibrationError, r"^0\._input_quantizer: got no amax", tmp_path)


def test_a_quantizer_that_still_collects_is_named(tmp_path: Path) -> None:
    model = set_unit_ranges(nn.Sequential(quant_nn.QuantLinear(4, 3)))
    model[0].weight_quantizer.enable_calib()
    assert_refused(model, CalibrationError, r"^0\._weight_quantizer: got a quantizer that is still", tmp_path)


def test_a_width_that_needs_a_newer_opset_is_named(tmp_path: Path) -> None:
    desc = QuantDescriptor(num_bits=12)
    model = set_unit_ranges(nn.Sequential(quant_nn.QuantLinear(4, 3, quant_desc_input=desc)))
    assert_refused(
        model,
        UnsupportedError,
        r"^0\._input_quantizer: format: got int12 at opset 17, want opset 21",
        tmp_path,
    )


def test_several_axes_are_named(tmp_path: Path) -> None:
    desc = QuantDescriptor(axis=(0, 1))
    model = set_unit_ranges(nn.Sequential(quant_nn.QuantLinear(4, 3, quant_desc_weight=desc)))
    assert_refused(model, UnsupportedError, r"^0\._weight_quantizer: axis: got \(0, 1\)", tmp_path)


def test_codes_as_output_are_refused(tmp_path: Path) -> None:
    model = set_unit_ranges(nn.Sequential(TensorQuantizer(QuantDescriptor(fake_quant=False))))
    assert_refused(model, QuantValueError, "^0: got fake_quant=False", tmp_path)


@pytest.mark.parametrize("opset", [12, 26])
def test_an_opset_outside_the_range_is_refused(opset: int, tmp_path: Path) -> None:
    assert_refused(
        nn.Linear(4, 3), UnsupportedError, rf"opset: got {opset}, want 13\.\.25", tmp_path, opset=opset
    )


def test_a_model_that_cannot_be_traced_is_explained(tmp_path: Path) -> None:
    class Branches(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    got = "model: got code that depends on values of its input: '.*' from torch's exporter"
    assert_refused(Branches(), UnsupportedError, f"{got}, want .* without conditions", tmp_path)


def test_an_unwritable_place_leaves_nothing(tmp_path: Path) -> None:
    model = set_unit_ranges(nn.Sequential(quant_nn.QuantLinear(4, 3)))
    path = tmp_path / "missing" / "m.onnx"
    with pytest.raises(FileAccessError, match=r"missing/m\.onnx': got 'No such file or directory'"):
        export(model, torch.randn(2, 4), path)
    assert list(tmp_path.iterdir()) == []


class Guarded(nn.Module):
    """Asks about its batch what torch.export can only answer for one size."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = quant_nn.QuantLinear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[0]
        return self.layer(x) if (5 * size - 1) // size == 4 else x[:, :3]


def test_a_size_that_torch_fixes_by_itself_is_named(tmp_path: Path) -> None:
    x, model = torch.randn(1, 4), set_unit_ranges(Guarded())
    with pytest.raises(UnsupportedError, match=r"fixes the first size .*\n?.*dynamic_batch=False"):
        export(model, x, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []
    report = export(model, x, tmp_path / "m.onnx", dynamic_batch=False)
    assert report.end_to_end is not None and (tmp_path / "m.onnx").exists()
