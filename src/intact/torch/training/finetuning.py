"""Implement `finetune`: quantization-aware training by the usual recipe, with checkpoints that resume
exactly.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from intact.errors import CalibrationError, QuantValueError
from intact.numerics import SHORT_BITS
from intact.progress import Progress
from intact.torch import distributed
from intact.torch.descriptor import LEARNED_KINDS
from intact.torch.distributed import ProcessGroup
from intact.torch.models.batches import device_of, forward_batch, length_of, move_to
from intact.torch.models.fsdp import average_gradients, equalize, is_sharded, is_sharded_tensor, reshard
from intact.torch.models.modules import require_module
from intact.torch.training.batchnorm import freeze, reestimate_batchnorm
from intact.torch.training.collect_statistics import enabled_quantizers, evaluating, spec_of, weights_of
from intact.torch.training.learn_ranges import (
    PositiveRanges,
    learn_ranges,
    learned_ranges_of,
    learning_quantizers,
    shorten_scales,
)
from intact.torch.training.range_choice import set_range, weight_range
from intact.torch.training.training_checkpoint import read_state, restore, write_state

Data = Iterable[Any] | Callable[[int], Iterable[Any]]
Loss = Callable[[Any, Any], Tensor]
LR_OF_ORIGINAL = 0.01
"""Fine-tuning starts at this share of the original learning rate, and ends at this share of that."""


@dataclass
class FinetuneResult:
    """The result of `finetune`.

    Attributes:
        model: The fine-tuned model.
        history: One record per epoch: epoch (from 1), loss (mean), lr (at its end), metric (what `validate`
            returned, if given), seconds.
        steps: Number of optimizer steps in all.
        resumed_at: The step that a checkpoint was resumed at; 0 for a run from the start.
    """

    model: nn.Module
    history: list[dict[str, Any]] = field(default_factory=list)
    steps: int = 0
    resumed_at: int = 0


def distillation_loss(outputs: Tensor, teacher_outputs: Tensor, temperature: float = 1.0) -> Tensor:
    """Return the cross entropy to the teacher's probabilities, less their entropy, times temperature squared.

    Args:
        outputs, teacher_outputs: Logits, [..., classes].
        temperature: Both are divided by it.
    Source: Hinton et al. 2015, section 2.
    """
    log_p = F.log_softmax(outputs / temperature, -1).flatten(0, -2)
    log_q = F.log_softmax(teacher_outputs / temperature, -1).flatten(0, -2)
    return F.kl_div(log_p, log_q, reduction="batchmean", log_target=True) * temperature**2


def finetune(
    model: nn.Module,
    train_data: Data,
    *,
    epochs: int,
    base_lr: float | None = None,
    lr: float | None = None,
    loss: Loss | None = None,
    teacher: nn.Module | None = None,
    optimizer: Callable[..., Optimizer] | None = None,
    learn: Literal["lsq", "lsq+", "pact"] | None = None,
    learn_start: Literal["calibrated", "paper"] = "calibrated",
    range_decay: float = 0.0,
    scale_bits: int | None = None,
    freeze_scales: bool = True,
    batchnorm: Literal["frozen", "train", "reestimate"] = "frozen",
    validate: Callable[[nn.Module], float] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_steps: int | None = None,
    resume: bool = True,
    seed: int = 0,
    progress: bool = True,
) -> FinetuneResult:
    """Train a calibrated model a little more, quantized, so that its weights adapt to the grid.

    The recipe: about 10% of the original number of epochs; from 1% of the original learning rate, by
    cosine annealing after every step, to 1% of that; scales fixed.

    Args:
        model: Calibrated, its quantizers enabled.
        train_data: Batches (inputs, targets), the inputs as for `calibrate`, once per epoch; or a function
            of the epoch (from 0) that returns them. It must have a length, and be the same for the same seed
            and epoch: torch's generator is seeded from both before every epoch, and a sampler's
            `set_epoch` is called.
        epochs: Number of epochs.
        base_lr: The learning rate of the original training; fine-tuning starts at 1% of it.
        lr: Or the learning rate to start at. One of the two must be given.
        loss: ``loss(outputs, targets)``, a scalar; None: cross entropy. With `teacher`:
            ``loss(outputs, teacher_outputs)``, None: `distillation_loss`; batches then need no targets.
        teacher: A float model that the outputs should follow. Usually better than labels.
        optimizer: ``optimizer(parameters, lr=...)``; None: SGD with momentum 0.9. Where ranges are learned,
            `parameters` are two groups, the ranges in the second.
        learn: Learn the ranges, of weights and activations, with the weights: "lsq" (asymmetric ranges need
            "lsq+"), "lsq+" or "pact"; see `intact.torch.operators.learned_ranges`. Quantizers become ones of
            ``learn_amax=learn``; those that were built with a `learn_amax` keep it, and start where they
            are. None: ranges are fixed, as `freeze_scales` says. A step halves a range at most.
        learn_start: Where ranges start: "calibrated", where they are ("mse" suits few bits); "paper": where
            the paper of `learn` starts them, activations by the first batch. A short schedule hardly
            mends a poor start, and at 8 bits the papers' are wide.
        range_decay: Weight decay of learned ranges, whatever `optimizer` says of the weights.
        scale_bits: Widen learned ranges after the last step until their scales have so many significant bits
            (1..8), as `calibrate` does with 4: fewer codes of 8-bit layers then differ between module and
            file. None: ranges stay as they were learned.
        freeze_scales: True: ranges that `learn` does not make learned ones stay. False: quantizers with
            `learn_amax` train, and the other weights' ranges follow the weights (their maximum, with short
            scales) after every epoch.
        batchnorm: Statistics of BatchNorm: "frozen"; "train": those of each batch, running averages updated;
            "reestimate": frozen, and measured anew over one pass over the data after the last step.
        validate: ``validate(model)`` after each epoch, in eval mode; its result goes to the history.
        checkpoint: File that is written after each epoch, and every `checkpoint_steps` steps.
        resume: Go on from `checkpoint` where it exists. On one thread the result is, bit for bit,
            that of a run without interruption.
        seed: Seeds torch's generator before every epoch.
        progress: Show a progress bar on standard error.
    Returns:
        The model, trained in place, each module in the mode it was in, and the history.
    Raises:
        QuantValueError: (a ValueError) Arguments that contradict each other; data without a length.
        CalibrationError: (a RuntimeError) The loss, or a weight behind an epoch, is NaN or infinite. No step
            is taken on such a loss, and no checkpoint written of such weights.
        FileFormatError: (a ValueError) `checkpoint` is damaged or of a run with other settings.
    Distributed: under torchrun batches are dealt over the processes as by `calibrate` and gradients are
        averaged (DistributedDataParallel): N processes take 1/N of the steps, each with N batches. A model
        that ``torch.distributed.fsdp.fully_shard`` has dealt over them, once calibrated, stays so; its ranges
        are whole, and equal, in every process.
    """
    require_module(model, "finetune")
    _check(epochs, base_lr, lr, batchnorm, checkpoint_steps)
    _check_learning(learn, learn_start, range_decay, scale_bits)
    group = distributed.join()
    start_lr = lr if lr is not None else LR_OF_ORIGINAL * float(base_lr or 0)
    run = _Run(model, train_data, epochs, start_lr, seed, group)
    run.loss, run.teacher = loss or (distillation_loss if teacher else F.cross_entropy), teacher
    run.path = None if checkpoint is None else Path(checkpoint)
    run.checkpoint_steps, run.validate = checkpoint_steps, validate
    run.freeze_scales, run.batchnorm = freeze_scales, batchnorm
    run.learn, run.learn_start = learn, learn_start
    run.range_decay, run.scale_bits = range_decay, scale_bits
    modes = [(module, module.training) for module in model.modules()]
    trainable = [(p, p.requires_grad) for p in model.parameters()]
    try:
        run.prepare(optimizer or _sgd)
        if resume:
            run.resume()
        with Progress("fine-tuning", epochs * run.steps_per_epoch, progress and group.first) as bar:
            run.all_epochs(bar)
        if batchnorm == "reestimate":
            data = distributed.split_batches(run.data_of(epochs), group, run.shared_batches)
            reestimate_batchnorm(model, (batch for _, batch in data), group=group)
    finally:
        for module, training in modes:
            module.training = training
        for parameter, requires_grad in trainable:
            parameter.requires_grad_(requires_grad)
    return run.result


class _Run:
    """One fine-tuning: its settings and its position."""

    loss: Loss
    teacher: nn.Module | None
    path: Path | None
    checkpoint_steps: int | None
    validate: Callable[[nn.Module], float] | None
    freeze_scales: bool
    batchnorm: str
    learn: str | None
    learn_start: str
    range_decay: float
    scale_bits: int | None
    ranges: PositiveRanges
    optimizer: Optimizer
    network: nn.Module

    def __init__(
        self, model: nn.Module, data: Data, epochs: int, lr: float, seed: int, group: ProcessGroup
    ) -> None:
        self.model, self.data, self.epochs, self.lr = model, data, epochs, lr
        self.seed, self.group = seed, group
        self.result = FinetuneResult(model)
        self.step = 0
        self.losses: list[float] = []
        self.random: Tensor | None = None
        self.steps_per_epoch = self._steps_per_epoch()
        self.sharded = is_sharded(model)

    @property
    def shared_batches(self) -> int | None:
        """Return how many batches all processes must run, where they must run equally many; None: all."""
        return self.steps_per_epoch * self.group.size if self.sharded else None

    def data_of(self, epoch: int) -> Iterable[Any]:
        return self.data(epoch) if callable(self.data) else self.data

    def _steps_per_epoch(self) -> int:
        data = self.data_of(0)
        batches = length_of(data)
        if not batches:
            raise QuantValueError(
                "train_data",
                "data without a length" if batches is None else "no batch",
                "data with a number of batches, which the schedule needs",
                "pass a DataLoader or a list, or a function of the epoch that returns one",
            )
        is_split = distributed.is_split(data)
        # Every process must take the same number of steps, so a remainder is left out.
        steps = batches if is_split else batches // self.group.size
        if not steps:
            raise QuantValueError(
                "train_data",
                f"{batches} batches for {self.group.size} processes",
                "a batch for each",
                "use smaller batches",
            )
        return steps

    def prepare(self, optimizer: Callable[..., Optimizer]) -> None:
        """Freeze what is not trained, and make the optimizer."""
        quantizers = enabled_quantizers(self.model)
        for name, quantizer in quantizers.items():
            if not hasattr(quantizer, "_amax") and not quantizer._learn_amax:
                raise QuantValueError(
                    f"quantizer '{name}'",
                    "no range",
                    "a calibrated model",
                    "call intact.torch.calibrate first",
                )
            if self.freeze_scales and self.learn is None:
                for parameter in quantizer.parameters():
                    parameter.requires_grad_(False)
        if self.learn is not None:
            # Every process reads the same batch, and DDP gives all the ranges of the first process.
            torch.manual_seed(self.seed)
            first = next(iter(self.data_of(0))) if self.learn_start == "paper" else None
            learn_ranges(self.model, self.learn, first)
        self.ranges = PositiveRanges(learning_quantizers(self.model))
        reshard(self.model)
        self.optimizer = optimizer(self._parameter_groups(), lr=self.lr)
        self.network = self.model
        if self.sharded:
            equalize((*self.model.parameters(), *self.model.buffers()))
        elif self.group.size > 1:
            self.network = DistributedDataParallel(self.model, broadcast_buffers=self.batchnorm == "train")

    def _parameter_groups(self) -> list[Any]:
        """Return the optimizer's parameters, in two groups where ranges are learned."""
        trainable = [p for p in self.model.parameters() if p.requires_grad]
        learned = {id(p) for p in learned_ranges_of(self.model)}
        ranges = [p for p in trainable if id(p) in learned]
        if not ranges:
            return trainable
        weights = [p for p in trainable if id(p) not in learned]
        return [{"params": weights}, {"params": ranges, "weight_decay": self.range_decay}]

    def settings(self) -> dict[str, Any]:
        return {
            "epochs": self.epochs,
            "steps_per_epoch": self.steps_per_epoch,
            "lr": self.lr,
            "seed": self.seed,
            "optimizer": type(self.optimizer).__name__,
            "freeze_scales": self.freeze_scales,
            "learn": self.learn,
            "learn_start": self.learn and self.learn_start,
            "scale_bits": self.scale_bits,
            "batchnorm": self.batchnorm,
            "processes": self.group.size,
        }

    def resume(self) -> None:
        if self.path is None or not self.path.exists():
            return
        state = read_state(self.path, self.settings())
        position = restore(state, self.model, self.optimizer)
        self.step, self.losses = position["step"], position["losses"]
        self.result.history, self.result.resumed_at = position["history"], self.step
        self.random = state["random"]

    def save(self) -> None:
        if self.path is not None:
            position = {"step": self.step, "losses": self.losses, "history": self.result.history}
            path = self.path if self.group.first else None
            write_state(path, self.model, self.optimizer, position, self.settings())

    def all_epochs(self, bar: Progress) -> None:
        for epoch in range(self.step // self.steps_per_epoch, self.epochs):
            started = time.monotonic()
            self._one_epoch(epoch, bar)
            _require_finite(self.model, epoch)
            record = {
                "epoch": epoch + 1,
                "loss": math.fsum(self.losses) / len(self.losses),
                "lr": self.optimizer.param_groups[0]["lr"],
            }
            if not self.freeze_scales:
                _follow_weights(self.model)
            if self.scale_bits is not None and epoch == self.epochs - 1:
                shorten_scales(self.model, self.scale_bits)
            if self.validate is not None:
                with evaluating(self.model):
                    record["metric"] = float(self.validate(self.model))
                reshard(self.model)
            record["seconds"] = round(time.monotonic() - started, 3)
            self.result.history.append(record)
            self.losses = []
            self.save()
        self.result.steps = self.step

    def _one_epoch(self, epoch: int, bar: Progress) -> None:
        torch.manual_seed(self.seed + epoch)
        data = self.data_of(epoch)
        if callable(set_epoch := getattr(getattr(data, "sampler", None), "set_epoch", None)):
            set_epoch(epoch)
        self.network.train()
        if self.batchnorm != "train":
            freeze(self.model)
        done = self.step - epoch * self.steps_per_epoch  # above 0 after a resume in the middle of an epoch
        for position, (_, batch) in enumerate(distributed.split_batches(data, self.group)):
            if position >= self.steps_per_epoch:
                break
            if position < done:  # the interrupted run took this step
                if position == done - 1 and self.random is not None:
                    torch.set_rng_state(self.random)
                continue
            self._one_step(batch)
            bar.advance(done=self.step)
            inside = self.step % self.steps_per_epoch != 0
            if inside and self.checkpoint_steps and self.step % self.checkpoint_steps == 0:
                self.save()

    def _one_step(self, batch: Any) -> None:
        total = self.epochs * self.steps_per_epoch
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = cosine_lr(self.lr, self.step, total)
        self.optimizer.zero_grad()
        if self.sharded and self.batchnorm == "train":
            equalize(self.model.buffers())
        outputs = forward_batch(self.network, batch)
        loss = self.loss(outputs, self._targets(batch))
        if not math.isfinite(number := float(loss.detach())):
            raise _divergence_error(f"step {self.step}: loss", number)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.sharded:
            average_gradients(self.model.parameters())
        before = self.ranges.ends()
        self.optimizer.step()
        self.ranges.restore_collapsed(before)
        self.step += 1
        self.losses.append(number)

    def _targets(self, batch: Any) -> Any:
        if self.teacher is not None:
            with evaluating(self.teacher):
                return forward_batch(self.teacher, batch)
        if not isinstance(batch, (tuple, list)) or len(batch) < 2:
            raise QuantValueError(
                "train_data",
                f"a batch of {type(batch).__name__}",
                "pairs (inputs, targets)",
                "or pass teacher=",
            )
        return move_to(batch[1], device_of(self.model))


def _require_finite(model: nn.Module, epoch: int) -> None:
    """Raise where a parameter is NaN or infinite; waits for each device once."""
    named = [(name, p) for name, p in model.named_parameters() if p.is_floating_point()]
    finite = [torch.isfinite(_part(p.detach())).all() for _, p in named]
    if finite and not torch.stack([f.to(finite[0].device) for f in finite]).all():
        name = next(name for (name, _), f in zip(named, finite, strict=True) if not f)
        raise _divergence_error(f"epoch {epoch + 1}: '{name}'", math.nan)


def _part(x: Tensor) -> Tensor:
    """Return the part of `x` that this process holds."""
    return x.to_local() if is_sharded_tensor(x) else x  # type: ignore[attr-defined]


def _divergence_error(where: str, number: float) -> CalibrationError:
    return CalibrationError(
        f"finetune, {where}", f"{number}", "a finite number",
        "lower the learning rate, look for NaN in the batches, or clip gradients in the optimizer",
    )  # fmt: skip


def cosine_lr(start: float, step: int, steps: int) -> float:
    """Return the learning rate of `step`: from `start`, along half a cosine, to 1% of it at the last of
    `steps`.
    """
    end = LR_OF_ORIGINAL * start
    return end + (start - end) * (1 + math.cos(math.pi * step / max(steps - 1, 1))) / 2


def _sgd(parameters: list[nn.Parameter], lr: float) -> Optimizer:
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


def _follow_weights(model: nn.Module) -> None:
    """Set every weight's range to the maximum of its present values."""
    quantizers = enabled_quantizers(model)
    for name, weight in weights_of(model).items():
        if not quantizers[name]._learn_amax:
            ends = weight_range(name, weight, spec_of(quantizers[name]), "max", {"scale_bits": SHORT_BITS})
            set_range(quantizers[name], ends, None)


def _check_learning(learn: str | None, start: str, range_decay: float, scale_bits: int | None) -> None:
    if learn is not None and learn not in LEARNED_KINDS:
        raise QuantValueError(
            "finetune: learn", repr(learn), f"one of {LEARNED_KINDS}, or None", "correct the argument"
        )
    if start not in ("calibrated", "paper"):
        raise QuantValueError(
            "finetune: learn_start", repr(start), "'calibrated' or 'paper'", "correct the argument"
        )
    if not range_decay >= 0:
        raise QuantValueError(
            "finetune: range_decay", str(range_decay), "a number >= 0", "correct the argument"
        )
    if scale_bits is not None and scale_bits not in range(1, 9):
        raise QuantValueError(
            "finetune: scale_bits", repr(scale_bits), "1..8, or None", "correct the argument"
        )


def _check(
    epochs: int, base_lr: float | None, lr: float | None, batchnorm: str, checkpoint_steps: int | None
) -> None:
    def require(condition: bool, where: str, got: object, want: str) -> None:
        if not condition:
            raise QuantValueError(f"finetune: {where}", str(got), want, "correct the argument")

    require(epochs >= 1, "epochs", epochs, "at least 1")
    require((base_lr is None) != (lr is None), "base_lr, lr", f"{base_lr}, {lr}", "exactly one of the two")
    require((base_lr or lr or 0) > 0, "learning rate", base_lr or lr, "a number above 0")
    modes = ("frozen", "train", "reestimate")
    require(batchnorm in modes, "batchnorm", repr(batchnorm), f"one of {modes}")
    require(
        checkpoint_steps is None or checkpoint_steps >= 1, "checkpoint_steps", checkpoint_steps, "at least 1"
    )
