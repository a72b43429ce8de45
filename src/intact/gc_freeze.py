"""Python's collector of cycles, kept from what does not concern it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Let the collector look at the objects alone that are made meanwhile.

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
