"""Models whose own forward cannot be traced beyond a line, as detectors: what is in front of it is placed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import intact
from intact.errors import UnsupportedError
from intact.torch import export, load_checkpoint, quantize, save_checkpoint


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))) + x)


class Detector(nn.Module):
    """As torchvision's: how many rows are kept, and what then happens, only values say."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.block, self.head = nn.Conv2d(3, 16, 3, padding=1), Block(), nn.Conv2d(16, 32, 1)
        self.behind = nn.Linear(32, 16)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.head(self.block(torch.relu(self.stem(x))))
        rows = scores.flatten(2).transpose(1, 2).flatten(0, 1)
        positive = rows[rows[:, 0] > 0]
        if positive.shape[0] > 60:
            positive = positive[:60] + 1
        return self.behind(positive + 0.5).sum(0), scores


@pytest.fixture
def images() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(2, 3, 10, 10)


def quantize_model(model: nn.Module, images: Tensor) -> intact.torch.GraphModeResult:
    torch.manual_seed(1)
    return quantize(model.eval(), [images], example=images, progress=False, method="max")


def test_what_is_in_front_of_the_line_is_placed(images: Tensor) -> None:
    result = quantize_model(Detector(), images)
    assert "" not in result.report.replaced
    assert result.report.replaced.keys() == {"behind"}
    assert "`if positive.shape[0] > 60:`" in result.report.left[""]
    assert set(result.report.modules) == {"stem", "block.first", "block.second", "head", "behind"}
    assert "block.add_quantizer" in result.report.quantizers
    assert "(the model itself): left" in str(result.report)


def test_the_model_runs_trains_and_is_kept(images: Tensor, tmp_path: Path) -> None:
    torch.manual_seed(2)
    model = Detector()
    result = quantize_model(model, images)
    with torch.no_grad():
        wanted, got = model(images), result.model(images)
    assert all((a - b).norm() < 0.05 * a.norm() for a, b in zip(wanted, got, strict=True))
    save_checkpoint(result.model, tmp_path / "m.safetensors")
    restored = load_checkpoint(Detector(), tmp_path / "m.safetensors").eval()
    assert all(map(torch.equal, restored(images), result.model(images)))
    result.model.train()(images)[0].square().mean().backward()
    assert all(p.grad is not None for p in result.model.parameters())


def test_its_parts_are_exported_and_the_whole_is_refused(images: Tensor, tmp_path: Path) -> None:
    model = quantize_model(Detector(), images).model
    with pytest.raises(UnsupportedError):
        export(model, images, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
    block = model.get_submodule("block")
    x = torch.randn(2, 16, 6, 6).relu()
    report = export(block, x, tmp_path / "block.onnx")
    assert not report.not_compared and report.pairs == 4
    assert np.allclose(intact.compile(tmp_path / "block.onnx")(x.numpy()), block(x).detach(), atol=1e-3)


class StopsAtOnce(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 1e6:
            return x
        return self.layer(x)


def test_a_line_with_nothing_in_front(images: Tensor) -> None:
    result = quantize_model(StopsAtOnce(), images)
    assert result.report.modules.keys() == {"layer"}
    with torch.no_grad():
        result.model(images)


class FindsNothing(nn.Module):
    """Puts images into a larger one, as torchvision's detectors, and answers no row."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        batch = x.new_zeros(x.shape[0], 3, 12, 12)
        batch[:, :, :10, :10].copy_(x)
        scores = self.head(torch.relu(self.stem(batch))).flatten()
        return scores[scores > 1e6]


def test_writes_are_seen_where_no_value_of_the_answer_can_differ(images: Tensor) -> None:
    result = quantize_model(FindsNothing(), images)
    assert result.model(images).numel() == 0
    assert set(result.report.modules) == {"stem", "head"} and not result.report.replaced


class Counts(nn.Module):
    """Asks its input for a number that data decide, of which a trace knows nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(16, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) if x.abs().amax() > 1e-3 else x


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.counts = Counts()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.counts(x), self.counts(x * 2)


class Deep(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.stem, self.blocks = nn.Conv2d(3, 16, 3, padding=1), nn.ModuleList(Block() for _ in range(depth))
        self.counts, self.head = nn.ModuleList(Two() for _ in range(depth)), nn.Conv2d(16, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.stem(x))
        for block, counts in zip(self.blocks, self.counts, strict=True):
            first, second = counts(block(x))
            x = torch.relu(first + second)
        return self.head(x)


def test_all_modules_that_cannot_be_traced_are_found_at_once(
    images: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    exports = []
    export_program = torch.export.export

    def counting(*args: object, **kwargs: object) -> object:
        exports.append(args)
        return export_program(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(torch.export, "export", counting)
    torch.manual_seed(3)
    model = Deep(5)
    result = quantize_model(model, images)
    assert len(exports) == 3  # one that finds them, one of code that is not told, and the one that is kept
    assert result.report.replaced.keys() == {f"counts.{i}.counts" for i in range(5)}
    assert all(f"blocks.{i}.second" in result.report.modules for i in range(5))
    with torch.no_grad():
        wanted, got = model(images), result.model(images)
    assert (got - wanted).norm() < 0.05 * wanted.norm()
