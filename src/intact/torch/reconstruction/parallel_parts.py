"""Learn parts independently of each other: each is a job for any process that has the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from intact.processes import cached_property
from intact.progress import Progress
from intact.torch.models.batches import Forward
from intact.torch.models.modules import deep_copy
from intact.torch.reconstruction.block_data import collect_float_data
from intact.torch.reconstruction.blocks import ReconstructionBlock
from intact.torch.reconstruction.optimize_block import BlockReport, LearnSettings, learn_block
from intact.torch.reconstruction.reconstruction_checkpoint import copies_of, tensors_of
from intact.torch.training.bias_correction import corrected_biases, undo_bias_correction

_REPORT = "report"  # beside names that have a dot


@dataclass
class PartLearner:
    """Holds what all jobs have in common.

    Attributes:
        model: Calibrated; every job leaves it as it was.
        blocks: The parts.
        batches: What the model reads.
        run: ``run(model, batch)``.
        settings: How each part is learned.
        seed: That of part 0; the next one has the next.
        threads: Torch's, in any process.
    """

    model: nn.Module
    blocks: Sequence[ReconstructionBlock]
    batches: Sequence[Any]
    run: Forward
    settings: LearnSettings
    seed: int
    threads: int

    @cached_property
    def reference(self) -> nn.Module:
        """Return the model with the biases of the float one: itself, unless biases were corrected."""
        return float_copy(self.model) if corrected_biases(self.model) else self.model


def learn_part(common: PartLearner, number: int) -> bytes:
    """Learn part `number` on its inputs in the float model, and return its tensors and report as bytes."""
    model, block = common.model, common.blocks[number]
    with _threads(common.threads), gradients_off(model):
        data = collect_float_data(common.reference, block.path, common.batches, common.run)
        before = copies_of(model, block)
        try:
            bar = Progress("", None, False)
            report = learn_block(model, block, data, common.settings, common.seed + number, bar)
            learned = copies_of(model, block)
        finally:
            with torch.no_grad():
                for name, place in tensors_of(model, block).items():
                    place.copy_(before[name])
    figures = torch.tensor([report.before, report.after, report.moved], dtype=torch.float64)
    return save(learned | {_REPORT: figures})


def read_part(data: bytes, block: ReconstructionBlock) -> tuple[dict[str, Tensor], BlockReport]:
    """Return the tensors and the report that `learn_part` returned for `block`."""
    tensors = load(data)
    before, after, moved = tensors.pop(_REPORT).tolist()
    return tensors, BlockReport(block.path, tuple(block.weights), before, after, moved)


def float_copy(model: nn.Module) -> nn.Module:
    """Return a copy with the float weights and biases.

    Its quantizers still quantize; see `collect_block_data`.
    """
    reference = deep_copy(model).requires_grad_(False)
    undo_bias_correction(reference)
    return reference


@contextmanager
def gradients_off(model: nn.Module) -> Iterator[None]:
    """Turn gradients of all parameters of `model` off inside the context."""
    trainable = [(p, p.requires_grad) for p in model.parameters()]
    model.requires_grad_(False)
    try:
        yield
    finally:
        for parameter, requires_grad in trainable:
            parameter.requires_grad_(requires_grad)


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Set torch's number of threads inside the context."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
