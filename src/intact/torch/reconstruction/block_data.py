"""Collect what a block reads behind the quantized part of the model in front of it, and its target
outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from intact.errors import QuantValueError
from intact.torch.models.batches import Forward, real_tensors
from intact.torch.private_torch import pytree
from intact.torch.training.collect_statistics import collecting, enabled_quantizers, evaluating

Call = tuple[tuple[Any, ...], dict[str, Any]]


class _BlockDoneError(Exception):
    """Raised when the block has returned, because the rest of the model need not run."""


class Samples:
    """Holds nested values of several batches, from which samples are selected.

    Args:
        where: For messages.
        batches: For each batch the same nest of tuples, lists and dicts. A tensor whose first size is that of
            the batch's samples is one row per sample; everything else must be the same in every batch.
        sizes: Samples of each batch.
    """

    def __init__(self, where: str, batches: Sequence[Any], sizes: Sequence[int]) -> None:
        self._where, self._sizes = where, sizes
        flat = [pytree.tree_flatten(batch) for batch in batches]
        self._spec = flat[0][1]
        if any(spec != self._spec for _, spec in flat):
            raise self._differ("another nest of arguments")
        self.leaves = [self._join(values) for values in zip(*(leaves for leaves, _ in flat), strict=True)]
        self.rows = sum(sizes)

    def take(self, rows: Tensor) -> Any:
        """Return the samples with these numbers, int64 [n], in the nest of one batch."""
        return self.nest([x[rows] if is_rows else x for x, is_rows in self.leaves])

    def nest(self, leaves: list[Any]) -> Any:
        """Return `leaves` in the nest of one batch."""
        return pytree.tree_unflatten(leaves, self._spec)

    def _join(self, values: tuple[Any, ...]) -> tuple[Any, bool]:
        """Return one value for all batches, and whether it has a row for every sample."""
        first = values[0]
        if not isinstance(first, Tensor):
            if any(isinstance(v, Tensor) or v != first for v in values):
                raise self._differ(f"an argument {first!r:.40} and others")
            return first, False
        if all(x.dim() and x.shape[0] == n for x, n in zip(values, self._sizes, strict=True)):
            if len({x.shape[1:] for x in values}) > 1:
                raise self._differ(f"samples of shapes {sorted({tuple(x.shape[1:]) for x in values})}")
            return torch.cat(values), True
        if not all(torch.equal(x, first) for x in values):
            raise self._differ("a tensor without a row for every sample")
        return first, False

    def _differ(self, got: str) -> QuantValueError:
        return QuantValueError(
            f"reconstruct: {self._where}", f"batches with {got}", "samples of one form, along the first axis",
            "pass batches of equal sizes, or name other blocks",
        )  # fmt: skip


class BlockData:
    """Holds inputs and target outputs of one block.

    Attributes:
        quantized: What it reads in the quantized model: everything in front of it as it is by now.
        floating: What it reads in the float model.
        answers: What it answers there: its tensors of a floating type.
    """

    def __init__(
        self, where: str, quantized: list[Call], floating: list[Call], answers: list[Any], batches: list[int]
    ) -> None:
        targets = [real_tensors(answer) for answer in answers]
        rows = [{x.shape[0] if x.dim() else 0 for x in tensors} for tensors in targets]
        # Windows of images and heads of attention are rows as well; positions of a sequence are none.
        if not all(
            len(row_counts) == 1 and max(row_counts) and max(row_counts) % size == 0
            for row_counts, size in zip(rows, batches, strict=True)
        ):
            raise QuantValueError(
                f"reconstruct: {where}", f"answers with {rows[0]} rows to batches of {batches[0]}",
                "tensors whose first axis is the batch's, or a multiple", "name other blocks by blocks=[...]",
            )  # fmt: skip
        sizes = [max(row_counts) for row_counts in rows]
        self.floating = Samples(where, floating, sizes)
        same = quantized is floating
        self.quantized = self.floating if same else Samples(where, quantized, sizes)
        self.answers = Samples(where, targets, sizes)
        self.rows = self.answers.rows

    def mix_inputs(self, rows: Tensor, share: float, generator: torch.Generator) -> Call:
        """Return inputs of these samples, each element that of the float model with the probability
        `share`.
        """
        if not share or self.quantized is self.floating:
            return self.quantized.take(rows)  # type: ignore[no-any-return]
        leaves = []
        for (x, is_rows), (exact, _) in zip(self.quantized.leaves, self.floating.leaves, strict=True):
            leaf = x[rows] if is_rows else x
            if is_rows and x.is_floating_point():
                leaf = torch.lerp(leaf, exact[rows], random_mask(leaf, share, generator))
            leaves.append(leaf)
        return self.quantized.nest(leaves)  # type: ignore[no-any-return]


def random_mask(like: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Return 1 for elements of `like` with the probability `share`, to 1/256, and else 0.

    Shape, dtype and layout are those of `like`, so that ``torch.lerp(a, b, random_mask(...))`` takes the
    selected elements from b. It draws a random byte per element, eight at a time. `bernoulli_` and `where`
    cost ten times as much here.
    """
    threshold = round(256 * share)
    out = torch.zeros_like(like)
    if threshold:
        eights = torch.empty((like.numel() + 7) // 8, dtype=torch.int64, device=like.device)
        bits = eights.random_(-(2**63), None, generator=generator).view(torch.uint8)[: like.numel()]
        out.as_strided([like.numel()], [1]).copy_(bits <= threshold - 1)  # dense, whatever the order
    return out


def collect_block_data(
    model: nn.Module, reference: nn.Module, path: str, batches: Sequence[Any], run: Forward
) -> BlockData:
    """Run `batches` through both models up to the block at `path`.

    Args:
        model: Quantized; blocks in front of this one are reconstructed.
        reference: The same with the float weights; its quantizers let everything through.
        path: The block.
        batches: What both models get.
        run: ``run(model, batch)``.
    Raises:
        QuantValueError: The block's tensors do not have one row per sample along their first axis.
    """
    quantized, _ = _calls(model, path, batches, run)
    floating, answers = _float_calls(reference, path, batches, run)
    sizes = [_rows_of(batch) for batch in batches]
    return BlockData(f"block '{path}'", quantized, floating, answers, sizes)


def collect_float_data(reference: nn.Module, path: str, batches: Sequence[Any], run: Forward) -> BlockData:
    """Run `batches` through the float model only, whose inputs of the block it shall read."""
    floating, answers = _float_calls(reference, path, batches, run)
    sizes = [_rows_of(batch) for batch in batches]
    return BlockData(f"block '{path}'", floating, floating, answers, sizes)


def _float_calls(
    reference: nn.Module, path: str, batches: Sequence[Any], run: Forward
) -> tuple[list[Call], list[Any]]:
    with collecting(enabled_quantizers(reference), {}):
        return _calls(reference, path, batches, run)


def _rows_of(batch: Any) -> int:
    """Return the size of the first tensor in `batch`."""
    return next((x.shape[0] for x in pytree.tree_leaves(batch) if isinstance(x, Tensor) and x.dim()), 1)


def _calls(model: nn.Module, path: str, batches: Iterable[Any], run: Forward) -> tuple[list[Call], list[Any]]:
    """Return the calls of the module at `path`, and its outputs."""
    block, calls, answers = model.get_submodule(path), list[Call](), list[Any]()

    def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
        calls.append(_clone_tensors((args, kwargs)))  # the block may write into them

    def leave(module: nn.Module, args: Any, answer: Any) -> None:
        answers.append(_clone_tensors(answer))
        raise _BlockDoneError

    # Outside of graph mode's hooks at the call, because the block runs these hooks by itself as well.
    handles = [
        block.register_forward_pre_hook(enter, prepend=True, with_kwargs=True),
        block.register_forward_hook(leave),
    ]
    try:
        with evaluating(model):
            for batch in batches:
                with suppress(_BlockDoneError):
                    run(model, batch)
    finally:
        for handle in handles:
            handle.remove()
    return calls, answers


def _clone_tensors(value: Any) -> Any:
    return pytree.tree_map(lambda x: x.detach().clone() if isinstance(x, Tensor) else x, value)
