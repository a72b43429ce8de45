"""NaN and infinities: where they come from, and how outputs that hold them are compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from intact.errors import CalibrationError

_SHOWN = 3
"""So many tensors are named in an error."""


def squared_error(ours: Tensor, want: Tensor) -> tuple[float, float]:
    """Squared error of an output, and the square of what it should be, over values that should be finite.

    Masked logits are -inf in the float model, and have no distance. A value that should be finite and is not
    is all lost, as are all values of another shape, in which a model that draws lots may answer.
    """
    ours, want = ours.double(), want.double()
    finite = want.isfinite()
    want = want.where(finite, 0)
    square = float(want.square().sum())
    if ours.shape != want.shape:
        return square, square
    difference = (ours.where(finite, 0) - want).where(ours.isfinite(), want)
    return float(difference.where(finite, 0).square().sum()), square


@torch.no_grad()
def require_numbers(model: nn.Module) -> None:
    """
    Raises:
        CalibrationError: Parameters hold NaN; names them.
    """
    broken = [
        f"'{name}' ({int(x.isnan().sum())} of {x.numel():,})"
        for name, x in model.named_parameters()
        if x.is_floating_point() and not x.is_meta and bool(x.sum().isnan()) and bool(x.isnan().any())
    ]
    if broken:
        raise CalibrationError(
            f"parameter {_named(broken)}", "NaN", "numbers",
            "load weights that were trained, or train again without the steps that made NaN of them",
        )  # fmt: skip


@contextmanager
def nonfinite_explained(model: nn.Module, number: int = 0, batch: Any = None) -> Iterator[None]:
    """Let a CalibrationError say which tensors of the batch, or else of the model, hold NaN or infinities."""
    try:
        yield
    except CalibrationError as error:
        causes = [f"input{name} of batch {number}" for name in _nonfinite_leaves(batch)]
        causes = causes or [f"parameter '{name}'" for name, x in model.named_parameters() if _is_broken(x)]
        if not causes:
            raise
        got = f"{error.got}; {_named(causes)} {'has' if len(causes) == 1 else 'have'} such values"
        raise CalibrationError(error.where, got, error.want, error.fix) from error


def _nonfinite_leaves(batch: Any) -> list[str]:
    """Tensors of a batch that hold NaN or infinities, by their place in it: "['mask']", "[0]", ""."""
    leaves, _ = pytree.tree_flatten_with_path(batch)
    return [pytree.keystr(place) for place, x in leaves if _is_broken(x)]


def _is_broken(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point() and not bool(x.isfinite().all())


def _named(causes: list[str]) -> str:
    more = f" and {len(causes) - _SHOWN} more" if len(causes) > _SHOWN else ""
    return f"{', '.join(causes[:_SHOWN])}{more}"
