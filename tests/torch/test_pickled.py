"""Models pickled whole by the old library: read without running what the file says, and as ours."""

from __future__ import annotations

import os
import sys
import types
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from intact.errors import FileAccessError, FileFormatError
from intact.torch import load_pickled
from intact.torch import nn as quant_nn
from intact.torch.calib import HistogramCalibrator, MaxCalibrator
from intact.torch.tensor_quant import QuantDescriptor

OURS_ALONE = {"_name", "_symmetric", "_calib_method"}


@pytest.fixture
def old_names(monkeypatch) -> dict[type, type]:
    """For each of our classes one under the old library's name, as its pickles call it."""
    stand_ins = {}
    for cls in (quant_nn.QuantLinear, quant_nn.TensorQuantizer, MaxCalibrator, HistogramCalibrator):
        name = cls.__module__.replace("intact.torch", "pytorch_quantization")
        for part in accumulate(name.split("."), "{}.{}".format):
            if part not in sys.modules:
                monkeypatch.setitem(sys.modules, part, types.ModuleType(part))
        module = sys.modules[name]
        stand_ins[cls] = type(cls.__name__, (nn.Module if issubclass(cls, nn.Module) else object,), {})
        stand_ins[cls].__module__ = name
        setattr(module, cls.__name__, stand_ins[cls])
    return stand_ins


def as_old(instance: Any, stand_ins: dict[type, type]) -> Any:
    """`one` with the class and the attributes that the old library's object of its name has."""
    old = stand_ins[type(instance)].__new__(stand_ins[type(instance)])
    old.__dict__.update({key: value for key, value in vars(instance).items() if key not in OURS_ALONE})
    if isinstance(instance, MaxCalibrator):
        old.__dict__ = {"_num_bits": 8, "_axis": instance._axis, "_unsigned": False, "_track_amax": False}
        old._calib_amax = instance.compute_amax()
    elif isinstance(instance, HistogramCalibrator):
        old.__dict__ = {"_num_bits": 8, "_axis": None, "_unsigned": False, "_num_bins": 2048}
        old.__dict__ |= {
            "_calib_hist": instance._calib_hist.float(),
            "_calib_bin_edges": instance._calib_bin_edges,
        }
    elif isinstance(instance, quant_nn.TensorQuantizer):
        old.__dict__ |= {"_calibrator": as_old(instance._calibrator, stand_ins), "_scale": 1.0}
    else:
        old._modules = {name: as_old(child, stand_ins) for name, child in instance._modules.items()}
    return old


def calibrated_linear() -> quant_nn.QuantLinear:
    desc = QuantDescriptor(calib_method="histogram")
    layer = quant_nn.QuantLinear(3, 2, quant_desc_input=desc).eval()
    for quantizer, method in ((layer.input_quantizer, ["mse"]), (layer.weight_quantizer, [])):
        quantizer.enable_calib()
        quantizer(layer.weight.detach())
        quantizer.disable_calib()
        quantizer.load_calib_amax(*method)
    return layer


def test_a_whole_model_of_the_old_library_becomes_ours(old_names, tmp_path: Path) -> None:
    layer, path = calibrated_linear(), tmp_path / "model.pth"
    torch.save({"model": nn.Sequential(as_old(layer, old_names)), "epoch": 3}, path)
    loaded = load_pickled(path)
    (model,), epoch = loaded["model"], loaded["epoch"]
    assert type(model) is quant_nn.QuantLinear and epoch == 3
    x = torch.linspace(-1, 1, 12).reshape(4, 3)
    assert torch.equal(model(x), layer(x))
    ours, theirs = model.input_quantizer._calibrator, layer.input_quantizer._calibrator
    assert torch.equal(ours.compute_amax("mse"), theirs.compute_amax("mse"))
    assert torch.equal(model.weight_quantizer._calibrator.compute_amax(), layer.weight_quantizer.amax)


def test_our_own_pickles_are_read_too(tmp_path: Path) -> None:
    layer = calibrated_linear()
    torch.save(layer, tmp_path / "model.pth")
    assert torch.equal(load_pickled(tmp_path / "model.pth")(layer.weight), layer(layer.weight))


class Runs:
    """A pickle that calls a function when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ["INTACT_TEST_FOLDER"],)


def test_a_file_calls_nothing_that_is_not_allowed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("INTACT_TEST_FOLDER", str(tmp_path / "made"))
    torch.save(Runs(), tmp_path / "model.pth")
    with pytest.raises(FileFormatError, match="mkdir"):
        load_pickled(tmp_path / "model.pth")
    assert not (tmp_path / "made").exists()


class Own(nn.Linear):
    """A model's own class."""


def test_own_classes_are_allowed_by_name(tmp_path: Path) -> None:
    torch.save(Own(2, 2), tmp_path / "model.pth")
    with pytest.raises(FileFormatError, match=r"Own.*allow"):
        load_pickled(tmp_path / "model.pth")
    assert type(load_pickled(tmp_path / "model.pth", allow=[Own])) is Own


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match="absent"):
        load_pickled(tmp_path / "absent.pth")
    torch.save(calibrated_linear(), tmp_path / "model.pth")
    whole = (tmp_path / "model.pth").read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 30):
        (tmp_path / "cut.pth").write_bytes(whole[:size])
        with pytest.raises(FileFormatError, match=r"cut\.pth"):
            load_pickled(tmp_path / "cut.pth")
