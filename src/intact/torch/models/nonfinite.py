"""Find where NaN and infinities come from, and compare outputs that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from intact.errors import CalibrationError
from intact.torch.private_torch import pytree

_SHOWN = 3
"""Number of tensors that an error lists."""


def squared_error(ours: Tensor, want: Tensor) -> tuple[float, float]:
    """Return the squared error of an output and the sum of squares of its target, over finite target values.

    Masked logits are -inf in the float model, and have no distance. A value that should be finite and is not
    counts as lost entirely. So do all values of an output of another shape, as models that sample may return.
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
    """Raise for parameters that hold NaN.

    Raises:
        CalibrationError: Names the parameters.
    """
    broken = [
        f"'{name}' ({int(x.isnan().sum())} of {x.numel():,})"
        for name, x in model.named_parameters()
        if x.is_floating_point() and not x.is_meta and bool(x.sum().isnan()) and bool(x.isnan().any())
    ]
    if broken:
        raise CalibrationError(
            f"parameter {_join_causes(broken)}", "NaN", "numbers",
            "load weights that were trained, or train again without the steps that made NaN of them",
        )  # fmt: skip


@contextmanager
def explain_nonfinite(model: nn.Module, number: int = 0, batch: Any = None) -> Iterator[None]:
    """Name the tensors of the batch, or else of the model, with NaN or infinities in a CalibrationError
    raised inside.
    """
    try:
        yield
    except CalibrationError as error:
        causes = [f"input{name} of batch {number}" for name in _nonfinite_leaves(batch)]
        causes = causes or [f"parameter '{name}'" for name, x in model.named_parameters() if _is_broken(x)]
        if not causes:
            raise
        got = f"{error.got}; {_join_causes(causes)} {'has' if len(causes) == 1 else 'have'} such values"
        raise CalibrationError(error.where, got, error.want, error.fix) from error


def _nonfinite_leaves(batch: Any) -> list[str]:
    """Return the places in a batch of tensors with NaN or infinities: "['mask']", "[0]", ""."""
    leaves, _ = pytree.tree_flatten_with_path(batch)
    return [pytree.keystr(place) for place, x in leaves if _is_broken(x)]


def _is_broken(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point() and not bool(x.isfinite().all())


def _join_causes(causes: list[str]) -> str:
    more = f" and {len(causes) - _SHOWN} more" if len(causes) > _SHOWN else ""
    return f"{', '.join(causes[:_SHOWN])}{more}"
