"""Implement `reconstruct`: learn the rounding of few-bit weights block by block, from a few unlabelled
batches.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from intact.errors import QuantValueError
from intact.job_pool import InProcess, JobPool
from intact.progress import Progress
from intact.torch import distributed
from intact.torch.distributed import ProcessGroup, RankPool
from intact.torch.models.batches import Forward, forward_batch
from intact.torch.models.fsdp import require_whole
from intact.torch.models.modules import require_module
from intact.torch.qdq.run_exporter import is_dynamic
from intact.torch.reconstruction.block_data import collect_block_data
from intact.torch.reconstruction.blocks import ReconstructionBlock, find_blocks
from intact.torch.reconstruction.optimize_block import BlockReport, LearnSettings, learn_block
from intact.torch.reconstruction.parallel_parts import (
    PartLearner,
    float_copy,
    gradients_off,
    learn_part,
    read_part,
)
from intact.torch.reconstruction.reconstruction_checkpoint import FinishedBlocks, copies_of, fingerprint
from intact.torch.training.collect_statistics import enabled_quantizers

__all__ = ["BlockReport", "ReconstructionResult", "reconstruct"]

QDROP = 0.5
"""The share of activations that stay in float while a block learns, as in the paper."""


@dataclass(frozen=True)
class ReconstructionResult:
    """The result of `reconstruct`; `print` it.

    Attributes:
        model: The model, changed in place.
        blocks: What became of each block, in order.
        left: Path of each weight quantizer whose weight keeps its rounding -> why.
        resumed_at: How many of the blocks were finished already in `state`.
    """

    model: nn.Module
    blocks: tuple[BlockReport, ...] = ()
    left: dict[str, str] = field(default_factory=dict)
    resumed_at: int = 0

    def __str__(self) -> str:
        width = max((len(b.path) for b in self.blocks), default=5)
        lines = [f"{'block':{width}s}  error before     after  weights moved"]
        lines += [
            f"{b.path:{width}s}  {b.before:12.2e}  {b.after:8.2e}  {100 * b.moved:12.1f}%"
            for b in self.blocks
        ]
        lines += [f"{name}: left, {reason}" for name, reason in self.left.items()]
        return "\n".join(lines)


def reconstruct(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    method: Literal["adaround", "brecq"] = "brecq",
    steps: int = 300,
    batch_size: int = 32,
    qdrop: float | None = None,
    learn_scales: bool | None = None,
    blocks: Sequence[str] | None = None,
    inputs: Literal["reconstructed", "float"] = "reconstructed",
    pool: JobPool | None = None,
    state: str | os.PathLike[str] | None = None,
    resume: bool = True,
    forward: Forward | None = None,
    seed: int = 0,
    progress: bool = True,
) -> ReconstructionResult:
    """Learn how the weights of a calibrated model are rounded, so that its parts answer as in float.

    Part by part, from the inputs to the outputs: with what the quantized model in front of it answers, the
    part shall answer as in the float model. No labels are used, and no scale of a weight changes: choose them
    before, `calibrate(..., weight_method="mse")` where there are few bits. Afterwards each weight holds
    values of its grid, which its quantizer, the exported file and the engine map to exactly the codes that
    were learned; calibrating weights anew would choose other grids and lose them.

    Args:
        model: Calibrated, with its float weights; graph mode's, or built of quantized modules.
        batches: Inputs as for `calibrate`; 1,024 images are usual. All are kept in memory, and so are the
            inputs and answers of one part.
        method: "adaround": layer by layer, rounding alone (Nagel et al. 2020). "brecq": block by block (Li et
            al. 2021, with a plain squared error), with QDrop (Wei et al. 2022) and learned ranges of the
            activations inside. A layer outside of all blocks is one.
        steps: Steps of each part. The papers take 20,000; see docs/how-to/few-bits.md for what 300 give.
        batch_size: Samples of one step.
        qdrop: The probability with which each activation is left as in the float model, in 0..1; None: 0.5
            for "brecq", 0 for "adaround".
        learn_scales: Learn ranges of activations that belong to one part alone, from where they are, as LSQ
            does ("lsq+" where they have a zero point); None: for "brecq".
        blocks: For "brecq": shell patterns of the paths of modules that are blocks. None: the largest modules
            with at most 8 layers that are no `nn.Sequential` and are called once.
        inputs: What each part reads while it learns. "reconstructed": what the quantized model in front of it
            answers by then; one part waits for the other. "float": what it reads in the float model; parts
            are learned independently, in any number of processes, with the same result
            (docs/decisions/0038-distributed-calibration.md).
        pool: Learns parts in other processes, `intact.ray_pool.RayPool` on other machines; needs
            ``inputs="float"``. None: this process, or those of torchrun.
        state: File that is replaced after each part.
        resume: Go on from `state` where it exists. On one thread the result is, bit for bit, that of a run
            without interruption.
        forward: ``forward(model, batch)``, as for `calibrate`.
        seed: Of the samples of each step and of QDrop; torch's own generator is left alone.
        progress: Show a progress bar on standard error.
    Returns:
        The model, changed in place, and what became of each part. One whose answers to all samples did not
        come closer to the float ones keeps its rounding to nearest.
    Raises:
        QuantValueError: (a ValueError) No batch, an argument out of its range, a pool with nothing to do for
            it, a quantizer without a range, no weight to reconstruct, or a part without one row per
            sample.
        FileFormatError: (a ValueError) `state` is damaged or of another run.
    Distributed: under torchrun every process needs the same model and all batches, and has the result. With
        ``inputs="float"`` the parts are dealt over them; else each does all the work.
    """
    require_module(model, "reconstruct")
    settings = _settings(method, steps, batch_size, qdrop, learn_scales)
    _require(inputs in ("reconstructed", "float"), "inputs", repr(inputs), "'reconstructed' or 'float'")
    alone = inputs == "float"
    _require(
        alone or pool is None, "pool", f"one with inputs={inputs!r}", "inputs='float': parts that can wait"
    )
    group = distributed.join()
    require_whole(model, "reconstruct", "reconstruct first, and shard what came out")
    batch_list, run = list(batches), forward or forward_batch
    _require(bool(batch_list), "batches", "none", "at least one")
    _require_ranges(model)
    block_list, left = find_blocks(model, lambda: run(model, batch_list[0]), method, blocks)
    _require(
        bool(block_list), "model", f"no weight to reconstruct ({_first(left)})", "a layer with a parameter"
    )
    run_settings: dict[str, Any] = {
        "method": method,
        "seed": seed,
        "inputs": inputs,
        "blocks": [b.path for b in block_list],
    }
    run_settings |= vars(settings)
    path = None if state is None else Path(state)
    if path is not None:
        run_settings |= fingerprint(model, batch_list)
    finished = FinishedBlocks(path if group.first else None, run_settings)
    if resume:
        finished.resume(model, block_list, path)
    start = len(finished.reports)
    distributed.require_same("reconstruct: finished parts", start, group)
    with Progress("reconstructing", settings.steps * len(block_list), progress and group.first) as bar:
        bar.advance(done=settings.steps * start)
        if alone:
            threads = (pool and pool.threads) or torch.get_num_threads()
            parts = PartLearner(model, block_list, batch_list, run, settings, seed, threads)
            _learn_apart(parts, finished, pool or _pool_of(group), bar)
        else:
            _learn_in_turn(model, block_list, batch_list, run, settings, seed, finished, bar)
    return ReconstructionResult(model, tuple(finished.reports), left, start)


def _learn_in_turn(
    model: nn.Module, block_list: Sequence[ReconstructionBlock], batches: Sequence[Any], run: Forward,
    settings: LearnSettings, seed: int, finished: FinishedBlocks, bar: Progress,
) -> None:  # fmt: skip
    """Learn each part behind those that are finished."""
    reference = float_copy(model)
    finished.put_into(model, block_list)
    with gradients_off(model):
        for number, block in enumerate(block_list[len(finished.reports) :], len(finished.reports)):
            bar.advance(f"reconstructing {block.path}", settings.steps * number)
            data = collect_block_data(model, reference, block.path, batches, run)
            report = learn_block(model, block, data, settings, seed + number, bar)
            finished.add(copies_of(model, block), report)


def _learn_apart(parts: PartLearner, finished: FinishedBlocks, pool: JobPool, bar: Progress) -> None:
    """Learn each part by itself. The model changes when all are learned."""
    blocks, start = parts.blocks, len(finished.reports)
    learned = pool.map(learn_part, parts, range(start, len(blocks)))
    for block, part_bytes in zip(blocks[start:], learned, strict=True):
        finished.add(*read_part(part_bytes, block))
        bar.advance(f"reconstructed {block.path}", parts.settings.steps * len(finished.reports))
    finished.put_into(parts.model, blocks)


def _pool_of(group: ProcessGroup) -> JobPool:
    return InProcess() if group.size == 1 else RankPool(group)


def _settings(
    method: str, steps: int, batch_size: int, qdrop: float | None, learn_scales: bool | None
) -> LearnSettings:
    _require(method in ("adaround", "brecq"), "method", repr(method), "'adaround' or 'brecq'")
    _require(steps >= 1, "steps", steps, "at least 1")
    _require(batch_size >= 1, "batch_size", batch_size, "at least 1")
    by_blocks = method == "brecq"
    share = (QDROP if by_blocks else 0.0) if qdrop is None else float(qdrop)
    _require(0 <= share <= 1, "qdrop", share, "a probability, 0..1")
    return LearnSettings(steps, batch_size, share, by_blocks if learn_scales is None else bool(learn_scales))


def _require(condition: bool, where: str, got: object, want: str) -> None:
    if not condition:
        raise QuantValueError(f"reconstruct: {where}", str(got), want, "correct the argument")


def _first(left: dict[str, str]) -> str:
    return next((f"{name}: {reason}" for name, reason in left.items()), "no quantizer of a weight is enabled")


def _require_ranges(model: nn.Module) -> None:
    for name, quantizer in enabled_quantizers(model).items():
        if not quantizer._if_quant or quantizer._if_calib or is_dynamic(quantizer):
            raise QuantValueError(
                f"quantizer '{name}'", "no range, or one that is not used", "a calibrated model",
                "call intact.torch.calibrate first, or disable() the quantizer",
            )  # fmt: skip
