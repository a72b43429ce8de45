"""What code is told that asks whether it is being exported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

__all__ = ["untold"]

_QUESTIONS = ("is_compiling", "is_exporting")


@contextmanager
def untold() -> Iterator[None]:
    """While it is open, `torch.compiler.is_exporting` and `is_compiling` say no.

    Code that goes another way while it is exported may not have been run that way before: a mask that is only
    made then, and has no shape that the rest can add.
    """
    with ExitStack() as stack:
        for name in _QUESTIONS:
            stack.callback(setattr, torch.compiler, name, getattr(torch.compiler, name))
            setattr(torch.compiler, name, _no)
        yield


def _no() -> bool:
    return False
