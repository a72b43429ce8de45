"""Bytes of a mapped file, of which only those that were asked for last count as memory of the process."""

from __future__ import annotations

import mmap
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray


class MappedBytes:
    """Maps a file that is not empty.

    Args:
        file: Open for reading; it may be closed then.

    Attributes:
        whole: All its bytes.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.whole = memoryview(self._mapping)

    def bytes_at(self, begin: int, nbytes: int) -> NDArray[np.uint8]:
        """Return a read-only view of a byte range.

        Earlier views stay valid; their pages may have been dropped and are read again.

        Args:
            begin: The first byte.
            nbytes: Their number.
        Returns:
            uint8, shape [nbytes].
        """
        if hasattr(mmap, "MADV_DONTNEED"):
            self._mapping.madvise(mmap.MADV_DONTNEED)
        return np.frombuffer(self._mapping, np.uint8)[begin : begin + nbytes]
