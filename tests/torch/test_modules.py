"""Modules that stand in something else, and modules that hold what they compute."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from intact.torch import calibrate, export, load_checkpoint, quantize, replace_modules, save_checkpoint
from intact.torch.models.modules import deep_copy


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 16, 3), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.conv(x)).mean((2, 3)))


@pytest.fixture
def images() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(2, 3, 8, 8)


def net() -> nn.Module:
    torch.manual_seed(1)
    return Net().eval()


WRAPPERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "torch.compile": lambda model: torch.compile(model, backend="eager"),
    "DataParallel": nn.DataParallel,
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_what_is_around_a_module_is_in_no_file(name: str, images: Tensor, tmp_path: Path) -> None:
    wrap = WRAPPERS[name]
    model = quantize(net(), [images], progress=False).model
    report = export(wrap(model), images, tmp_path / "m.onnx")
    assert report.codes and not report.codes_differing and not report.not_compared
    save_checkpoint(wrap(model), tmp_path / "m.safetensors")
    alone = load_checkpoint(net(), tmp_path / "m.safetensors")
    around = wrap(net())
    assert load_checkpoint(around, tmp_path / "m.safetensors") is around
    assert torch.equal(alone(images), model(images)) and torch.equal(around(images), model(images))


def weight_norm(layer: nn.Module) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        nn.utils.weight_norm(layer)


COMPUTED: dict[str, Callable[[nn.Module], object]] = {
    "weight_norm": weight_norm,
    "pruning": lambda layer: prune.l1_unstructured(layer, "weight", amount=0.3),
}


@pytest.mark.filterwarnings("ignore:The tensor attributes.*were assigned during export")
@pytest.mark.parametrize("name", COMPUTED)
def test_layers_that_keep_the_weight_they_compute(name: str, images: Tensor, tmp_path: Path) -> None:
    model = net()
    for layer in (model.conv, model.head):
        COMPUTED[name](layer)
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(model)
    before = model(images)
    result = quantize(model, [images], progress=False)
    assert torch.equal(model(images), before)  # a copy was quantized
    assert len(result.report.modules) == 2 and torch.allclose(result.model(images), before, atol=0.1)
    report = export(result.model, images, tmp_path / "m.onnx")
    assert report.codes and not report.codes_differing and not report.not_compared
    result.model(images).sum().backward()
    assert all(p.grad is not None for p in result.model.parameters())
    exchanged = replace_modules(model, inplace=False).model
    calibrate(exchanged, [images], progress=False)
    assert torch.allclose(exchanged(images), before, atol=0.1)


def test_a_copy_holds_values_without_a_history(images: Tensor) -> None:
    model = net()
    model.last = [model(images)]
    copied = deep_copy(model)
    assert torch.equal(copied.last[0], model.last[0]) and copied.last[0] is not model.last[0]
    assert copied.last[0].is_leaf and not model.last[0].is_leaf
    assert copied.head.weight is not model.head.weight
