"""Memory for packed weights: contiguous, and on huge pages where the system has them.

The weights of a network need more small pages than the TLB holds. Each TLB miss costs the time of about a
thousand products.
"""

from __future__ import annotations

import mmap
import threading

import numpy as np
from numpy.typing import NDArray

from intact.processes import renew_in_child

ALIGNMENT = 64
"""Arrays begin at a multiple of a cache line."""
LARGE_PAGE = 2 << 20
CHUNK = 32 << 20
"""Address space that is allocated at a time; the system backs each page when it is first written."""


class Pages:
    """Allocates arrays one behind the other. A chunk is freed when its last array is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._room = np.empty(0, np.uint8)
        renew_in_child(self)

    def after_fork(self) -> None:
        """Renew the lock."""
        self._lock = threading.Lock()

    def copy(self, array: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Copy dense bytes to a multiple of `ALIGNMENT`."""
        with self._lock:
            nbytes = -(-array.size // ALIGNMENT) * ALIGNMENT
            if nbytes > self._room.size:
                self._room = _chunk(max(CHUNK, nbytes))
            place, self._room = self._room[: array.size], self._room[nbytes:]
        place[:] = array
        return place


def _chunk(nbytes: int) -> NDArray[np.uint8]:
    nbytes = -(-nbytes // LARGE_PAGE) * LARGE_PAGE + LARGE_PAGE
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
        room = np.frombuffer(memory, np.uint8)
    else:
        room = np.empty(nbytes, np.uint8)
    return room[-room.ctypes.data % LARGE_PAGE :]


WEIGHTS = Pages()
"""The packed weights of all engines of the process."""
