"""`intact.torch.finetune`: the recipe, what stays frozen, and resuming exactly."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import intact.torch
from intact.errors import CalibrationError, FileFormatError, QuantValueError
from intact.numerics import short_amax
from intact.spec import QuantSpec
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.tensor_quant import QuantDescriptor
from intact.torch.training.finetuning import cosine_lr, distillation_loss

STEPS = 4


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Exact resumption is promised on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def float_net() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(64, 3)
    )


def data(steps: int = STEPS, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(8, 2, 6, 6, generator=generator),
            torch.randint(0, 3, (8,), generator=generator),
        )
        for _ in range(steps)
    ]


def calibrated_net(model: nn.Module | None = None) -> nn.Module:
    model = float_net() if model is None else model
    intact.torch.replace_modules(model)
    intact.torch.calibrate(model, data(), method="max", progress=False)
    return model


def finetune(model: nn.Module, batches: Any = None, **options: Any) -> intact.torch.FinetuneResult:
    options = {"epochs": 2, "lr": 0.05, "progress": False} | options
    return intact.torch.finetune(model, data() if batches is None else batches, **options)


def same(first: nn.Module, other: nn.Module) -> bool:
    a, b = first.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


# ---- the recipe ----


def test_the_loss_falls_and_the_history_says_so() -> None:
    result = finetune(calibrated_net(), epochs=5)
    assert result.steps == 5 * STEPS
    assert [record["epoch"] for record in result.history] == [1, 2, 3, 4, 5]
    assert result.history[-1]["loss"] < result.history[0]["loss"]


def test_the_learning_rate_goes_from_1_percent_to_1_percent_of_that() -> None:
    rates: list[float] = []

    class Watched(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            rates.append(self.param_groups[0]["lr"])
            super().step(closure)

    finetune(calibrated_net(), lr=None, base_lr=0.2, optimizer=Watched)
    assert len(rates) == 2 * STEPS
    assert rates[0] == 0.01 * 0.2
    assert rates[-1] == pytest.approx(0.0001 * 0.2)
    assert rates == sorted(rates, reverse=True)
    half = 0.5 * (rates[0] + rates[-1]) + 0.5 * (rates[0] - rates[-1]) * math.cos(math.pi * 3 / 7)
    assert rates[3] == pytest.approx(half)


def test_one_step_is_taken_at_the_start() -> None:
    assert cosine_lr(0.1, 0, 1) == 0.1


def test_scales_are_frozen_and_weights_move() -> None:
    model = calibrated_net()
    before = copy.deepcopy(model.state_dict())
    finetune(model)
    after = model.state_dict()
    for name, value in before.items():
        assert torch.equal(after[name], value) == (name not in dict(model.named_parameters())), name


def learned_range_net() -> nn.Module:
    model = float_net()
    model.insert(0, TensorQuantizer(QuantDescriptor(learn_amax=True)))
    return calibrated_net(model)


def test_a_learned_range_is_frozen_too() -> None:
    model = learned_range_net()
    before = model[0].clip.clip_value_max.item()
    finetune(model, lr=0.5)
    assert model[0].clip.clip_value_max.item() == before
    assert model[0].clip.clip_value_max.requires_grad


def test_without_freezing_learned_ranges_train_and_weight_ranges_follow() -> None:
    model = learned_range_net()
    with torch.no_grad():
        model[0].clip.clip_value_max /= 2  # only values that are clipped have a gradient for it
    before = model[0].clip.clip_value_max.item()
    finetune(model, lr=0.5, freeze_scales=False)
    assert model[0].clip.clip_value_max.item() != before
    largest = model[1].weight.detach().abs().amax((1, 2, 3), keepdim=True).numpy()
    want = short_amax(largest, QuantSpec("int8"))
    assert torch.equal(model[1].weight_quantizer.amax, torch.from_numpy(want))


@pytest.mark.parametrize(("batchnorm", "moves"), [("frozen", False), ("train", True), ("reestimate", True)])
def test_batchnorm_statistics(batchnorm: str, moves: bool) -> None:
    model = calibrated_net()
    before = model[1].running_mean.clone()
    finetune(model, batchnorm=batchnorm)
    assert torch.equal(model[1].running_mean, before) != moves
    assert model[1].momentum == 0.1


def test_reestimated_statistics_are_the_mean_over_the_batches() -> None:
    model = calibrated_net()
    finetune(model, batchnorm="reestimate", lr=1e-9)
    with torch.no_grad():
        outputs = [model[0](x) for x, _ in data()]
    want = torch.stack([y.mean((0, 2, 3)) for y in outputs]).mean(0)
    torch.testing.assert_close(model[1].running_mean, want)


def test_modes_and_gradients_are_as_before() -> None:
    model = calibrated_net()
    model.eval()
    model[0].train()
    model[5].bias.requires_grad_(False)
    bias = model[5].bias.clone()
    finetune(model)
    assert [m.training for m in (model, model[0], model[1])] == [False, True, False]
    assert not model[5].bias.requires_grad
    assert torch.equal(model[5].bias, bias)


def test_validate_is_asked_after_every_epoch_in_eval_mode() -> None:
    requests = []
    result = finetune(calibrated_net(), validate=lambda m: requests.append(m.training) or len(requests))
    assert requests == [False, False]
    assert [record["metric"] for record in result.history] == [1.0, 2.0]


def test_a_teacher_needs_no_targets() -> None:
    teacher = float_net().eval()
    model = calibrated_net(copy.deepcopy(teacher))
    result = finetune(model, [x for x, _ in data()], teacher=teacher, epochs=6)
    assert result.history[-1]["loss"] < result.history[0]["loss"]


def test_distillation_is_zero_for_equal_logits_and_positive_otherwise() -> None:
    logits = torch.randn(4, 5)
    assert distillation_loss(logits, logits).item() == pytest.approx(0, abs=1e-6)
    probabilities = torch.tensor([[0.25, 0.75]])
    got = distillation_loss(torch.zeros(1, 2), probabilities.log())
    want = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert got.item() == pytest.approx(want)


# ---- interruption ----


class Interrupted(Exception):
    pass


class Fails:
    """The batches, shuffled by torch's generator; the one numbered `fatal` over all epochs never comes."""

    def __init__(self, fatal: int | None = None) -> None:
        self._fatal, self._given = fatal, 0

    def __len__(self) -> int:
        return STEPS

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        batches = data()
        for index in torch.randperm(STEPS).tolist():
            if self._given == self._fatal:
                raise Interrupted
            self._given += 1
            x, y = batches[index]
            yield x + 0.1 * torch.randn(()), y


def fresh_momentum(parameters: list[nn.Parameter], lr: float) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=lr)


@pytest.mark.parametrize("fatal", [0, 2, STEPS - 1, STEPS, STEPS + 3, 2 * STEPS + 1])
@pytest.mark.parametrize("batchnorm", ["frozen", "train"])
def test_a_resumed_run_equals_an_uninterrupted_one(fatal: int, batchnorm: str, tmp_path: Path) -> None:
    options = {"epochs": 3, "batchnorm": batchnorm, "optimizer": fresh_momentum, "checkpoint_steps": 2}
    whole = calibrated_net()
    want = finetune(whole, Fails(), **options)
    path, broken = tmp_path / "run.pt", calibrated_net()
    with pytest.raises(Interrupted):
        finetune(broken, Fails(fatal), checkpoint=path, **options)
    resumed = calibrated_net()
    torch.rand(7)  # the generator may be anywhere
    got = finetune(resumed, Fails(), checkpoint=path, **options)
    assert got.resumed_at == fatal - fatal % STEPS % 2
    assert same(resumed, whole)
    assert [r["loss"] for r in got.history] == [r["loss"] for r in want.history]


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    model = calibrated_net()
    first = finetune(model, checkpoint=tmp_path / "run.pt")
    want = copy.deepcopy(model)
    again = finetune(calibrated_net(), checkpoint=tmp_path / "run.pt")
    assert again.resumed_at == again.steps == 2 * STEPS
    assert again.history == first.history
    assert same(again.model, want)


def test_resume_false_starts_over(tmp_path: Path) -> None:
    finetune(calibrated_net(), checkpoint=tmp_path / "run.pt")
    assert finetune(calibrated_net(), checkpoint=tmp_path / "run.pt", resume=False).resumed_at == 0


def test_a_run_with_other_settings_is_refused(tmp_path: Path) -> None:
    finetune(calibrated_net(), checkpoint=tmp_path / "run.pt")
    with pytest.raises(FileFormatError, match=r"checkpoint 'run.pt': got a run with lr 0.05 \(now 0.1\)"):
        finetune(calibrated_net(), checkpoint=tmp_path / "run.pt", lr=0.1)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 torn"], ids=["empty", "text", "torn"])
def test_a_damaged_checkpoint_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "run.pt").write_bytes(content)
    with pytest.raises(FileFormatError, match=r"checkpoint 'run.pt': got no readable checkpoint"):
        finetune(calibrated_net(), checkpoint=tmp_path / "run.pt")


def test_a_checkpoint_cannot_run_code(tmp_path: Path) -> None:
    torch.save({"kind": "intact.finetune", "model": print}, tmp_path / "run.pt")
    with pytest.raises(FileFormatError, match="no readable checkpoint"):
        finetune(calibrated_net(), checkpoint=tmp_path / "run.pt")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    torch.save({"weights": torch.zeros(1)}, tmp_path / "run.pt")
    with pytest.raises(FileFormatError, match="a file of another kind or version"):
        finetune(calibrated_net(), checkpoint=tmp_path / "run.pt")


def test_no_temporary_file_is_left(tmp_path: Path) -> None:
    finetune(calibrated_net(), checkpoint=tmp_path / "run.pt")
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]


# ---- bad input ----


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"epochs": 0}, "finetune: epochs: got 0, want at least 1"),
        ({"lr": None}, "exactly one of the two"),
        ({"base_lr": 1.0}, "exactly one of the two"),
        ({"lr": -1.0}, "learning rate: got -1.0, want a number above 0"),
        ({"batchnorm": "fixed"}, "batchnorm: got 'fixed', want one of"),
        ({"checkpoint_steps": 0}, "checkpoint_steps: got 0"),
        ({"batches": iter([])}, "train_data: got data without a length"),
        ({"batches": []}, "train_data: got no batch"),
        ({"batches": [torch.zeros(8, 2, 6, 6)]}, "train_data: got a batch of Tensor, want pairs"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_arguments_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(QuantValueError, match=text):
        finetune(calibrated_net(), **options)


def test_a_model_without_ranges_is_refused_by_name() -> None:
    model = float_net()
    intact.torch.replace_modules(model)
    with pytest.raises(QuantValueError, match=r"quantizer '0\._input_quantizer': got no range"):
        finetune(model)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_before_it_reaches_the_weights(bad: float, tmp_path: Path) -> None:
    x, losses = torch.randn(2, 32), iter([1.0, bad])
    model = intact.torch.quantize(nn.Sequential(nn.Linear(32, 16)), [x]).model
    with pytest.raises(CalibrationError, match=f"finetune, step 1: loss: got {bad}, want a finite number"):
        intact.torch.finetune(
            model, [(x, x), (x, x)], epochs=1, lr=0.01, loss=lambda y, _: y.square().sum() * next(losses),
            checkpoint=tmp_path / "state", progress=False,
        )  # fmt: skip
    assert all(p.isfinite().all() for p in model.parameters()) and not (tmp_path / "state").exists()


def test_weights_that_are_no_numbers_behind_an_epoch_are_an_error_and_no_checkpoint(tmp_path: Path) -> None:
    """The last loss was finite, and its gradient was not."""
    x = torch.randn(2, 32)
    model = intact.torch.quantize(nn.Sequential(nn.Linear(32, 16)), [x]).model
    with pytest.raises(CalibrationError, match=r"finetune, epoch 1: '0\.\w+': got nan"):
        intact.torch.finetune(
            model, [(x, x)], epochs=1, lr=0.01, loss=lambda y, _: (y - y).sum().sqrt(),
            checkpoint=tmp_path / "state", progress=False,
        )  # fmt: skip
    assert not (tmp_path / "state").exists()
