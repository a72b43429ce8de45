"""Make `torch.compiler.is_exporting()` and `is_compiling()` return False inside a context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

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
