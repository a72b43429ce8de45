"""Operators that torch's exporter writes with other values: rewritten, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import intact
import intact.torch
from intact.errors import UnsupportedError


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("shape", [(6, 5), ()])
def test_means_of_scattered_elements_count_them(include_self: bool, shape: tuple[int, ...]) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(32, 16)

        def forward(self, x: Tensor, base: Tensor, index: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
            scattered = base.scatter_reduce(0, index, source, "mean", include_self=include_self)
            return self.layer(x), scattered

    generator = torch.Generator().manual_seed(0)
    base, source = torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)
    index = torch.randint(0, 3 if shape else 1, shape, generator=generator)  # some several times
    args = torch.randn(2, 32), base, index, source
    model = intact.quantize(Net().eval(), [(args,)], example=args, progress=False).model
    engine = intact.torch.compile(model, args, dynamic_batch=False)
    feeds = {port.name: x.numpy() for port, x in zip(engine.inputs, args, strict=True)}
    np.testing.assert_allclose(list(engine.run(feeds).values())[1], model(*args)[1].numpy(), rtol=1e-6)


class Ends(nn.Module):
    """A linear layer, and a function of a second input."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(32, 16), function

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(x), self.function(x)


def test_a_function_without_a_sound_onnx_form_is_refused_by_name() -> None:
    x = torch.randn(2, 32)
    model = intact.quantize(Ends(torch.special.log_ndtr).eval(), [x], progress=False).model
    with pytest.raises(UnsupportedError, match="special_log_ndtr"):
        intact.torch.compile(model, x)


def test_outputs_of_bfloat16_are_compared_with_the_engine_alone(tmp_path: Path) -> None:
    x = torch.randn(2, 32)
    model = intact.quantize(Ends(Tensor.bfloat16).eval(), [x], progress=False).model
    report = intact.torch.export(model, x, tmp_path / "m.onnx")
    assert not report.comparison.skipped and "bfloat16" in report.skipped
