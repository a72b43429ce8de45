"""Collect garbage and return freed heap memory to the system."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def tidying() -> Iterator[None]:
    """Collect garbage that the block made, and return freed memory to the system.

    What was there before is not looked at: it may be much, and takes the time that it takes.
    """
    frozen = gc.get_freeze_count() > 0
    if not frozen:
        gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        if not frozen:
            gc.unfreeze()
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
