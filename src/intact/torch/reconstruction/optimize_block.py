"""Optimize one block: the rounding of its weights and, on request, ranges of its activations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from intact.progress import Progress
from intact.torch.graph_mode.quantized_forward import running_part
from intact.torch.models.batches import real_tensors
from intact.torch.nn.modules import _quantizer_state
from intact.torch.nn.modules.tensor_quantizer import TensorQuantizer
from intact.torch.operators import fake_quantize as ops
from intact.torch.reconstruction.adaround import SoftRounding, beta_at
from intact.torch.reconstruction.block_data import BlockData, Call, random_mask
from intact.torch.reconstruction.blocks import ReconstructionBlock
from intact.torch.training.bias_correction import corrected_biases, undo_bias_correction
from intact.torch.training.collect_statistics import evaluating, spec_of
from intact.torch.training.learn_ranges import PositiveRanges

ROUNDING_WAY = 20.0
"""Largest total change of V by Adam, over any number of steps: as the papers' 20,000 steps of 1e-3."""

RANGE_WAY = 0.3
"""Largest change of a range by Adam, as a share of its start. Half a cosine anneals its steps to 0."""

REGULARIZER = 2.0
"""The weight of the regularizer's mean, beside an error that is 1 for rounding to nearest.

The papers add 0.01 times its sum to an error in the unit of the activations. Both are made relative here, so
that one value suits blocks of every size and scale.
"""

EVALUATED = 128
"""Samples that run at a time where nothing is learned."""


@dataclass(frozen=True)
class LearnSettings:
    """Settings of every block; see `reconstruct`."""

    steps: int
    batch_size: int
    qdrop: float
    learn_scales: bool


@dataclass(frozen=True)
class BlockReport:
    """Reports what became of one block.

    Attributes:
        path: The block.
        weights: Its weight quantizers.
        before: Squared error of its output with weights rounded to nearest, relative to the float output's
            squares.
        after: The same now.
        moved: Share of the weights that are not rounded to nearest any more.
    """

    path: str
    weights: tuple[str, ...]
    before: float
    after: float
    moved: float


def learn_block(
    model: nn.Module,
    block: ReconstructionBlock,
    data: BlockData,
    settings: LearnSettings,
    seed: int,
    bar: Progress,
) -> BlockReport:
    """Learn `block`, and keep the result if its outputs for all samples came closer to the float ones.

    Args:
        model: Quantized; its weights and ranges in `block` change.
        block: The part to learn.
        data: Its inputs and float answers.
        settings: How.
        seed: Of everything random.
        bar: Advances by ``settings.steps``.
    """
    job = _Job(model, block, data, settings, seed)
    before = job.error()
    start_state = job.state()
    after = before
    try:
        if before:
            job.learn(before, bar)
        after = job.error()
    finally:  # also where somebody presses Ctrl-C: half-learned ranges would fit no weight
        helps = after < before
        if not helps:
            job.restore(start_state)
    square, moved = _square(data), job.share_moved() if helps else 0.0
    after = after if helps else before
    return BlockReport(block.path, tuple(block.weights), before / square, after / square, moved)


def _square(data: BlockData) -> float:
    """Return the mean square of the float outputs; 1 where they are 0 throughout."""
    answers = [x for x, _ in data.answers.leaves]
    return float(_error(answers, [torch.zeros_like(x) for x in answers])) or 1.0


class _Job:
    """Holds one block while it is learned."""

    def __init__(
        self,
        model: nn.Module,
        block: ReconstructionBlock,
        data: BlockData,
        settings: LearnSettings,
        seed: int,
    ) -> None:
        self._module = model.get_submodule(block.path)
        self._data, self._settings = data, settings
        self._weights = {name: model.get_parameter(path) for name, path in block.weights.items()}
        self._quantizers = {name: _quantizer(model, name) for name in block.weights}
        self._activations = {name: _quantizer(model, name) for name in block.activations}
        self._rounding = nn.ModuleList(
            _soft(self._quantizers[name], weight) for name, weight in self._weights.items()
        )
        # The nearest codes, before anything is learned.
        self._nearest = [torch.clamp(torch.round(_steps(r, w)), r.low, r.high) for r, w in self._pairs()]
        device = next(iter(self._weights.values())).device
        self._rows = torch.Generator().manual_seed(seed)
        self._masks = torch.Generator(device).manual_seed(seed)

    def _pairs(self) -> list[tuple[SoftRounding, Tensor]]:
        return list(zip(self._rounding, self._weights.values(), strict=True))  # type: ignore[arg-type]

    # ---- what it is now ----

    def error(self) -> float:
        """Return the mean squared error of the block's outputs for all samples, everything quantized."""
        total, count = 0.0, 0
        with evaluating(self._module):
            for rows in torch.split(torch.arange(self._data.rows), EVALUATED):
                answers = self._run(self._data.quantized.take(rows))
                targets = self._data.answers.take(rows)
                total += float(_error(answers, targets)) * len(rows)
                count += len(rows)
        return total / count

    def share_moved(self) -> float:
        """Return the share of the weights whose codes are not the nearest."""
        now = [torch.round(_steps(r, w)) for r, w in self._pairs()]
        differing = sum(int((a != b).sum()) for a, b in zip(now, self._nearest, strict=True))
        return differing / max(sum(n.numel() for n in self._nearest), 1)

    def state(self) -> list[Tensor]:
        """Return copies of everything that learning changes."""
        return [x.detach().clone() for x in self._tensors_to_learn()]

    @torch.no_grad()
    def restore(self, state: list[Tensor]) -> None:
        for x, saved in zip(self._tensors_to_learn(), state, strict=True):
            x.copy_(saved)

    def _tensors_to_learn(self) -> Iterator[Tensor]:
        yield from self._weights.values()
        yield from corrected_biases(self._module).values()
        for quantizer in self._activations.values():
            yield from ranges_of(quantizer)

    def _run(self, call: Call) -> list[Tensor]:
        args, kwargs = call
        with running_part():
            return real_tensors(self._module(*args, **kwargs))

    # ---- learning ----

    def learn(self, before: float, bar: Progress) -> None:
        """Learn for `steps` steps. The weights become values of their grids at the end.

        Bias correction is undone first, because it made up for the rounding that changes here.
        """
        undo_bias_correction(self._module)
        steps = self._settings.steps
        with ExitStack() as stack:
            # `evaluating` sets modes, but turns gradients off as well.
            stack.enter_context(evaluating(self._module))
            stack.enter_context(torch.enable_grad())
            learned = stack.enter_context(_learning_ranges(self._activations, self._settings.learn_scales))
            stack.enter_context(self._learning_hooks())
            rounding = torch.optim.Adam(self._rounding.parameters(), lr=ROUNDING_WAY / steps)
            ranges = _range_optimizer(learned, steps)
            keeper = PositiveRanges(learned)
            for step in range(steps):
                loss = self._loss(before, step / steps)
                rounding.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                rounding.step()
                if ranges is not None:
                    ends = keeper.ends()
                    _anneal(ranges, step / steps)
                    ranges.step()
                    ranges.zero_grad()
                    keeper.restore_collapsed(ends)
                bar.advance()
        self._finish()

    @torch.no_grad()
    def _finish(self) -> None:
        for soft, weight in self._pairs():
            weight.copy_(soft.weight())

    def _loss(self, before: float, progress: float) -> Tensor:
        rows = torch.randint(self._data.rows, (self._settings.batch_size,), generator=self._rows)
        answers = self._run(self._data.mix_inputs(rows, self._settings.qdrop, self._masks))
        loss = _error(answers, self._data.answers.take(rows)) / before
        beta = beta_at(progress)
        if beta is not None:
            sizes = [soft.v.numel() for soft, _ in self._pairs()]
            sums = [soft.regularizer(beta) * n for (soft, _), n in zip(self._pairs(), sizes, strict=True)]
            loss = loss + REGULARIZER * torch.stack(sums).sum() / sum(sizes)
        return loss

    @contextmanager
    def _learning_hooks(self) -> Iterator[None]:
        """Make weight quantizers return the soft weight, and those of activations keep a share in float
        (QDrop).
        """
        share = self._settings.qdrop

        def keep_share(_: nn.Module, args: tuple[Any, ...], quantized: Tensor) -> Tensor:
            return torch.lerp(quantized, args[0], random_mask(quantized, share, self._masks))

        handles = [
            self._quantizers[name].register_forward_hook(lambda *_, soft=soft: soft())
            for name, soft in zip(self._weights, self._rounding, strict=True)
        ]
        for quantizer in self._activations.values() if share else ():
            if quantizer.pre_quant_scale is None:  # it quantizes a scaled input, which is not its argument
                handles.append(quantizer.register_forward_hook(keep_share))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def ranges_of(quantizer: TensorQuantizer) -> list[Tensor]:
    """Return the ends of the range of `quantizer`."""
    return [getattr(quantizer, name) for name in ("_amin", "_amax") if hasattr(quantizer, name)]


def _quantizer(model: nn.Module, name: str) -> TensorQuantizer:
    quantizer = model.get_submodule(name)
    assert isinstance(quantizer, TensorQuantizer)
    return quantizer


def _soft(quantizer: TensorQuantizer, weight: Tensor) -> SoftRounding:
    low, high = (None, quantizer._get_amax(weight))
    if not quantizer.symmetric:
        low, high = quantizer._get_range(weight)
    spec = spec_of(quantizer)
    scale, zero_point = ops.scale_and_zero_point(
        weight,
        high.detach(),
        None if low is None else low.detach(),
        format=quantizer.format,
        axis=quantizer._axes_for(weight, high),
        narrow=quantizer.narrow_range,
    )
    return SoftRounding(weight, scale, spec.qmin - zero_point, spec.qmax - zero_point)


@torch.no_grad()
def _steps(soft: SoftRounding, weight: Tensor) -> Tensor:
    return weight.to(torch.float32) / soft.scale


def _error(answers: list[Tensor], targets: list[Tensor]) -> Tensor:
    """Return the mean squared error over the elements of all outputs, in float32 at least."""
    work = [torch.promote_types(want.dtype, torch.float32) for want in targets]
    sums = [
        F.mse_loss(a.to(dtype), b.to(dtype), reduction="sum")
        for a, b, dtype in zip(answers, targets, work, strict=True)
    ]
    return torch.stack(sums).sum() / sum(want.numel() for want in targets)


@contextmanager
def _learning_ranges(
    activations: dict[str, TensorQuantizer], enabled: bool
) -> Iterator[list[TensorQuantizer]]:
    """Make the ranges of `activations` learned ones inside the context, as LSQ does."""
    learned = [q for q in activations.values() if enabled and _can_learn(q)]
    for quantizer in learned:
        _quantizer_state.learn(quantizer, "lsq" if quantizer.symmetric else "lsq+")
    try:
        yield learned
    finally:
        for quantizer in learned:
            _quantizer_state.fix(quantizer)


def _can_learn(quantizer: TensorQuantizer) -> bool:
    return isinstance(quantizer.num_bits, int) and not quantizer._learn_amax and hasattr(quantizer, "_amax")


def _range_optimizer(learned: list[TensorQuantizer], steps: int) -> torch.optim.Optimizer | None:
    """Return an Adam whose steps are in the unit of each range; None without ranges."""
    groups = []
    for quantizer in learned:
        ends = torch.stack([end.detach().abs().max() for end in ranges_of(quantizer)])
        rate = RANGE_WAY / steps * float(ends.max())
        groups.append({"params": ranges_of(quantizer), "lr": rate, "rate": rate})
    return torch.optim.Adam(groups) if groups else None


def _anneal(optimizer: torch.optim.Optimizer, progress: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = group["rate"] * (1 + math.cos(math.pi * progress)) / 2
