"""Batches as data loaders give them, and the front door without any."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import intact
from intact.errors import QuantValueError
from intact.torch.models.batches import forward_batch


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor, scale: Tensor, shift: Tensor | None = None) -> Tensor:
        y = self.second(self.first(x).relu() * scale)
        return y if shift is None else y + shift


def test_a_tuple_begins_with_all_that_the_model_cannot_do_without() -> None:
    model, x, scale = Scaled(), torch.ones(2, 16), torch.full((2, 1), 3.0)
    wanted = model(x, scale)
    for batch in ((x, scale), (x, scale, torch.zeros(2)), ((x, scale), 7), [{"x": x, "scale": scale}, 7]):
        assert torch.equal(forward_batch(model, batch), wanted)
    assert torch.equal(forward_batch(nn.ReLU(), (x, scale)), x), (
        "of a model with one input the rest is labels"
    )


def test_a_module_is_quantized_by_an_example_alone() -> None:
    result = intact.quantize(Scaled().eval(), example=(torch.ones(2, 16), torch.ones(2, 1)))
    assert result.calibration is None and result.report.modules
    with pytest.raises(QuantValueError, match="neither data nor example"):
        intact.quantize(Scaled())
    with pytest.raises(QuantValueError, match=r"quantize: data: got none.*a folder of images"):
        intact.quantize("model.onnx")


class Pair(nn.Module):
    """Takes images as detectors do."""

    def __init__(self) -> None:
        super().__init__()
        self.each, self.both = nn.Conv2d(3, 4, 3), nn.Conv2d(8, 4, 1)

    def forward(self, images):  # type: ignore[no-untyped-def]
        return self.both(torch.cat([self.each(x) for x in images], 1))


class Annotated(Pair):
    def forward(self, images: list[Tensor], targets: list[Tensor] | None = None) -> Tensor:
        output: Tensor = super().forward(images)
        return output if targets is None else output + targets[0]


def pair() -> list[Tensor]:
    return [torch.ones(1, 3, 8, 8), torch.full((1, 3, 8, 8), 2.0)]


def test_a_list_of_tensors_is_the_one_argument_of_a_model_that_takes_no_more() -> None:
    model = Pair()
    wanted = model(pair())
    for batch in ((pair(),), (pair(), 7), [pair(), torch.ones(1)], {"images": pair()}):
        assert torch.equal(forward_batch(model, batch), wanted)


def test_a_list_of_tensors_is_the_argument_that_is_annotated_so() -> None:
    model = Annotated()
    wanted = model(pair())
    for batch in (pair(), tuple(pair()), (pair(),), (pair(), [torch.ones(1)]), {"images": pair()}):
        assert torch.equal(forward_batch(model, batch), wanted)
    labeled = ((pair(), [torch.ones(1)]), "labels")
    assert torch.equal(forward_batch(model, labeled), wanted + 1)


def test_two_tensors_in_a_list_are_two_arguments_of_a_model_that_takes_two() -> None:
    model, x, scale = Scaled(), torch.ones(2, 16), torch.full((2, 1), 3.0)
    assert torch.equal(forward_batch(model, [[x, scale], 7]), model(x, scale))


def test_tuples_stay_tuples() -> None:
    class Box(NamedTuple):
        x: Tensor
        y: Tensor

    class Adds(nn.Module):
        def forward(self, pair: Any, scale: Tensor) -> Tensor:
            assert isinstance(pair, tuple)
            return (pair[0] + pair[1]) * scale

    tensor = torch.ones(2)
    for batch in ((tensor, tensor), Box(tensor, tensor)):
        assert torch.equal(forward_batch(Adds(), {"pair": batch, "scale": tensor}), tensor * 2)


@pytest.mark.parametrize("model", [Pair, Annotated])
def test_data_and_examples_hold_lists_alike(model: type[nn.Module]) -> None:
    of_data = intact.quantize(model().eval(), [(pair(),)], method="max", progress=False)
    of_example = intact.quantize(model().eval(), example=(pair(),))
    assert of_data.report.modules == of_example.report.modules != {}
    engine = intact.compile(of_data.model, (pair(),), dynamic_batch=False)
    assert len(engine.inputs) == 2


def test_an_error_of_the_model_says_how_the_batch_was_read() -> None:
    with pytest.raises(RuntimeError, match="channels") as caught:
        intact.quantize(Pair().eval(), [pair()], method="max", progress=False)
    assert "calls model(Tensor) for what it was given" in caught.value.__notes__[0]
