"""Keeps Python's garbage collector from what is old, and returns freed heap memory to the system."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_NEW_OBJECTS = 50_000
"""So many are made between two runs of the collector: about 10 MB of nodes and values."""


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Freeze the garbage collector inside the block, so that it visits only new objects, and those rarely.

    Graphs are many small objects, which are enough to let it walk over everything that the process has
    imported, again and again: a tenth of the time that a small model takes. Nearly all of them live until
    the block ends, so that it finds nothing among the new ones either: a fifth of the time that a graph of
    20,000 nodes takes to compile. Whoever keeps objects from it already (`gc.freeze`) is left alone.
    """
    if gc.get_freeze_count():
        yield
        return
    thresholds = gc.get_threshold()
    gc.freeze()
    if thresholds[0]:  # 0: it runs when it is asked to
        gc.set_threshold(max(_NEW_OBJECTS, thresholds[0]), *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
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
