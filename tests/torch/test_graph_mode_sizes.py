"""Graph mode where sizes are open: what the traced batch has there decides nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import intact
from intact.placement import Placement
from intact.torch.graph_mode import dynamic_shapes as open_sizes

WIDTH = 32


class Attention(nn.Module):
    """Both of its products have a sequence's length as a size: N of the first, K of the second."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / WIDTH**0.5
        return self.out(scores.softmax(-1) @ self.value(x))


class Placed(Attention):
    """The same for as many words as it has positions."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(words, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + self.positions)


class Asking(Attention):
    """Its code asks for the length."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x if x.shape[1] == 8 else x * 2)


def placement_of(model: nn.Module, *shape: int, profile: str = "intact") -> Placement:
    """Return the placement of a module that is traced with an input of this shape."""
    result = intact.torch.quantize(
        model.eval(), example=torch.randn(*shape), profile=profile, progress=False
    ).placement
    assert result is not None
    return result


def products(placement: Placement) -> list[tuple[str, str]]:
    """Precision of the products of two activations, and why."""
    return [
        (x.precision, x.reason) for x in placement.layers if x.name.rpartition(".")[2].startswith("matmul")
    ]


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch itself
@pytest.mark.parametrize(
    ("profile", "shape"),
    [("intact", (2, 8)), ("intact", (1, 1)), ("intact", (2, 40)), ("tensorrt", (1, 8))],
)
def test_a_module_traced_with_any_length_is_placed_as_a_file_for_all_lengths(
    profile: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = Attention().eval()
    sizes = {"x": {0: torch.export.Dim("batch"), 1: torch.export.Dim("words")}}
    file = tmp_path / "any.onnx"
    torch.onnx.export(model, (torch.randn(2, 20, WIDTH),), file, dynamo=True, dynamic_shapes=sizes)
    wanted = intact.placement.place(intact.graph.load(file), profile)
    placement = placement_of(model, *shape, WIDTH, profile=profile)
    assert [kind for kind, _ in products(placement)] == ["int8", "int8"]
    assert [(x.op_type, x.precision) for x in placement.layers if x.op_type == "MatMul"] == [
        (x.op_type, x.precision) for x in wanted.layers if x.op_type == "MatMul"
    ]


def test_a_long_traced_batch_does_not_stand_for_all_lengths() -> None:
    torch.manual_seed(0)
    placement = placement_of(Attention(), 1, 600, WIDTH, profile="tensorrt")
    assert [kind for kind, _ in products(placement)] == ["int8", "int8"]


def test_a_size_that_the_parameters_fix_decides() -> None:
    torch.manual_seed(0)
    reason = "K = 8, below 16: too small to pay in int8"
    assert products(placement_of(Placed(8), 2, 8, WIDTH))[1] == ("float", reason)
    long = products(placement_of(Placed(600), 1, 600, WIDTH, profile="tensorrt"))
    assert long[0] == ("float", "a sequence of 600, above 512: faster in float16")


def test_a_size_that_the_code_fixes_decides() -> None:
    torch.manual_seed(0)
    assert products(placement_of(Asking(), 2, 8, WIDTH))[1][0] == "float"


def test_what_no_size_decides_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("it was traced with open sizes")

    monkeypatch.setattr(open_sizes, "_read_fixed_sizes", refuse)
    torch.manual_seed(0)
    placement_of(Attention(), 2, 40, WIDTH)


def test_of_a_list_the_longest_batch_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are predicted from its sizes, whatever the order of the list."""
    torch.manual_seed(0)
    short, long = torch.randn(8, 4, WIDTH), torch.randn(1, 24, WIDTH)
    seen = set[tuple[int, ...]]()
    analyse = intact.torch.graph_mode.quantize_module.analyse

    def watch(model: nn.Module, args: tuple[Tensor, ...], kwargs: object, **options: object) -> object:
        seen.add(tuple(args[0].shape))
        return analyse(model, args, kwargs, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("intact.torch.graph_mode.quantize_module.analyse", watch)
    for data in ([short, long], [long, short]):
        intact.torch.quantize(Attention().eval(), data, progress=False)
    assert seen == {(1, 24, WIDTH)}
