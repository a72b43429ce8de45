"""Keeps Python's garbage collector from what is old, and returns freed heap memory to the system."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Freeze the garbage collector inside the block, so that it visits only new objects.

    Graphs are many small objects, which are enough to let it walk over everything that the process has
    imported, again and again: a tenth of the time that a small model takes. Whoever keeps objects from it
    already (`gc.freeze`) is left alone.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def tidying() -> Iterator[None]:
    """Collect garbage that the block made, and return freed memory to the system.

    What was there before is not looked at: it may be much, and takes the time that it takes.
    """
    try:
        with gc_frozen():
            try:
                yield
            finally:
                gc.collect()
    finally:
        give_back_heap()


def give_back_heap() -> None:
    """Give freed memory back to the system, where the C library can; elsewhere nothing.

    glibc keeps what lies between blocks in use, and when large blocks have come and gone once it takes the
    next ones from there too.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
