"""Memory for what kernels read over and over: side by side, on large pages where the system has them.

A network's weights lie on thousands of small pages, more than a processor remembers the places of; each one
that it looks up again takes the time of some thousand products.
"""

from __future__ import annotations

import mmap
import threading

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
"""Where arrays begin: multiples of a line of the cache."""
LARGE_PAGE = 2 << 20
CHUNK = 32 << 20
"""Address space that is taken at a time; memory follows page by page, when it is written."""


class Pages:
    """Hands out arrays one behind the other. A chunk is freed when no array in it is left."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._room = np.empty(0, np.uint8)

    def copy(self, array: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The same bytes, at a multiple of `ALIGNMENT`."""
        with self._lock:
            taken = -(-array.size // ALIGNMENT) * ALIGNMENT
            if taken > self._room.size:
                self._room = _chunk(max(CHUNK, taken))
            place, self._room = self._room[: array.size], self._room[taken:]
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
"""Of the whole process: packed weights of all engines."""
