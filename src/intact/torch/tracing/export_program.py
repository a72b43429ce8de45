"""Run torch.export, and record below `torch.vmap` where a model calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from intact.torch.private_torch import export_below_transforms, has_transforms

__all__ = ["export_program"]

_BATCHED_TENSOR = "fake tensor in the exported program constant's list"
"""The words of torch.export for a batched tensor that meets a parameter."""


def export_program(*args: Any, export: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return what `torch.export.export` does, with operators on whole batches in place of `torch.vmap`.

    Args:
        *args, **options: Those of `torch.export.export`.
        export: torch's function, where its name stands for another one.
    """
    try:
        program = (export or torch.export.export)(*args, **options)
    except RuntimeError as error:
        if _BATCHED_TENSOR not in str(error):
            raise
    else:
        if not has_transforms(program):
            return program
    return export_below_transforms(*args, **options)
