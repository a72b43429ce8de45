"""Run torch.export as in eager code: below `torch.vmap`, and without its flags being seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from intact.torch.operators.grouped_matmul import WholeProducts
from intact.torch.operators.recurrent import WholeLayers
from intact.torch.private_torch import export_below_transforms, has_transforms
from intact.torch.tracing.assertions import PassingAssertions
from intact.torch.tracing.changed_calls import ChangedCalls
from intact.torch.tracing.user_frames import user_frames

__all__ = ["hide_export"]

_FLAGS = ("is_compiling", "is_exporting")


@contextmanager
def hide_export() -> Iterator[None]:
    """Make `torch.compiler.is_exporting` and `is_compiling` return False inside the context.

    Code that branches on them may never have run the other branch. For example, it makes a mask only under
    export, whose shape does not broadcast.
    """
    with ExitStack() as stack:
        for name in _FLAGS:
            stack.callback(setattr, torch.compiler, name, getattr(torch.compiler, name))
            setattr(torch.compiler, name, _return_false)
        yield


def _return_false() -> bool:
    return False


__all__ = ["export_program"]

_BATCHED_TENSOR = "fake tensor in the exported program constant's list"
"""The words of torch.export for a batched tensor that meets a parameter."""


def export_program(*args: Any, export: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return what `torch.export.export` does, with operators on whole batches in place of `torch.vmap`.

    Recurrent layers and products of groups are one operator each, and assertions on values pass.

    Args:
        *args, **options: Those of `torch.export.export`.
        export: torch's function, where its name stands for another one.
    """
    with ChangedCalls(WholeLayers(), WholeProducts(), PassingAssertions()), user_frames():
        try:
            program = (export or torch.export.export)(*args, **options)
        except RuntimeError as error:
            if _BATCHED_TENSOR not in str(error):
                raise
        else:
            if not has_transforms(program):
                return program
        return export_below_transforms(*args, **options)
