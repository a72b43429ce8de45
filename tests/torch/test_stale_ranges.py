"""Weights that change after calibration, as where an adapter is merged, are noticed; fine-tuning is not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import intact
import intact.torch
from intact.errors import StaleRangeWarning
from intact.torch.nn import TensorQuantizer


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16)).eval()


def data(count: int = 64) -> Tensor:
    return torch.randn(count, 32, generator=torch.Generator().manual_seed(1))


def delta() -> Tensor:
    """Return the product of an adapter's two matrices, for the first layer."""
    generator = torch.Generator().manual_seed(2)
    return torch.randn(64, 2, generator=generator) @ torch.randn(2, 32, generator=generator)


def add_in_place(weight: nn.Parameter) -> None:
    with torch.no_grad():
        weight.add_(delta())


def add_uncounted(weight: nn.Parameter) -> None:
    weight.data += delta()


def shrink(weight: nn.Parameter) -> None:
    weight.data = weight.data / 100


WRITES: list[Callable[[nn.Parameter], None]] = [add_in_place, add_uncounted, shrink]


@pytest.mark.parametrize("method", ["auto", "max"])
@pytest.mark.parametrize("write", WRITES)
def test_a_changed_weight_is_noticed_once_by_module_file_and_engine(
    write: Callable[[nn.Parameter], None], method: str, tmp_path: Path
) -> None:
    result = intact.quantize(net(), [data()], method=method, progress=False)
    write(result.model[0].weight)
    for use in (
        lambda model: model(data()),
        lambda model: intact.torch.compile(model, data()),
        lambda model: intact.torch.export(model, data(), tmp_path / "m.onnx", verify=False),
    ):
        model = deepcopy(result.model)
        with pytest.warns(StaleRangeWarning, match=r"'0\._weight_quantizer': the weight has changed"):
            use(model)
        with warnings.catch_warnings():
            warnings.simplefilter("error", StaleRangeWarning)
            use(model)


def test_new_ranges_fit_the_changed_weight() -> None:
    result = intact.quantize(net(), [data()], progress=False)
    add_uncounted(result.model[0].weight)
    changed = net()
    changed[0].weight.data += delta()
    intact.torch.calibrate(result.model, [data()], progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", StaleRangeWarning)
        output = result.model(data())
    assert (output - changed(data())).norm() < 0.1 * output.norm()


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_fine_tuning_and_other_formats_are_no_change(weights: str) -> None:
    model = intact.quantize(net(), [data()], weights=weights, progress=False).model
    x, target = data(), torch.randn(64, 16)
    with warnings.catch_warnings():
        warnings.simplefilter("error", StaleRangeWarning)
        optimizer = torch.optim.SGD(model.train().parameters(), lr=0.05)
        for _ in range(20):
            optimizer.zero_grad()
            (model(x) - target).square().mean().backward()
            optimizer.step()
        model.eval()(x)
        model[0]._weight_quantizer.num_bits = 3
        model(x)


def test_a_new_parameter_in_the_place_of_a_weight_is_noticed() -> None:
    model = intact.quantize(net(), [data()], progress=False).model
    model[0].weight = nn.Parameter(model[0].weight.detach() + delta())
    model(data())  # until it comes again, it may be a second weight
    with pytest.warns(StaleRangeWarning):
        model(data())


def test_a_quantizer_of_several_weights_is_no_change() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.quantizer = TensorQuantizer()
            self.large, self.small = (
                nn.Parameter(torch.randn(16, 32)),
                nn.Parameter(torch.randn(16, 32) / 500),
            )

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, self.quantizer(self.large)) + F.linear(x, self.quantizer(self.small))

    torch.manual_seed(0)
    model = Shared().eval()
    intact.torch.calibrate(model, [data()], progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", StaleRangeWarning)
        for _ in range(2):
            model(data())


def test_an_adapter_of_peft_that_is_merged_is_noticed() -> None:
    peft = pytest.importorskip("peft")
    model = intact.quantize(net(), [data()], progress=False).model
    config = peft.LoraConfig(r=4, target_modules=["0"], init_lora_weights=False, lora_alpha=64)
    merged = peft.get_peft_model(model, config).eval().merge_and_unload()
    with pytest.warns(StaleRangeWarning):
        merged(data())
