"""Arrays of a mapped file, compared with their checksums when they are first asked for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from intact.engine.codec import format_error
from intact.engine.compact_constants import Stored
from intact.engine.files.panel_codes import PanelCodes
from intact.engine.model_pieces import Views
from intact.kernels import crc32

Key = TypeVar("Key", bound=Hashable)
OtherForm = Stored | Views | PanelCodes
"""Of a constant that a file does not hold as it is: `widen` makes it, of a shape."""


class Verified(Mapping[Key, NDArray[Any]]):
    """Arrays of a mapped file. Each is compared with its checksum when it is first asked for.

    Those that the file holds in another form are made then; `[]` keeps them, `borrow` does not.

    Args:
        where: The file, for errors.
        arrays: With their checksums.
        stored: Of what the file holds in another form: this, the shape, and the checksum.
    """

    def __init__(
        self,
        where: str,
        arrays: Mapping[Key, tuple[NDArray, int]],
        stored: Mapping[Key, tuple[OtherForm, tuple[int, ...], int]] | None = None,
    ) -> None:
        self._where, self._arrays, self._stored = where, dict(arrays), dict(stored or {})
        self._sound: set[Key] = set()

    def __getitem__(self, key: Key) -> NDArray:
        if key not in self._arrays:
            self._arrays[key] = self.borrow(key), self._stored[key][2]
        return self.borrow(key)

    def borrow(self, key: Key) -> NDArray:
        """Return an array for a while: what the file holds in another form is made anew each time."""
        if key in self._arrays:
            array, checksum = self._arrays[key]
        else:
            stored, shape, checksum = self._stored[key]
            array = stored.widen(shape)
        if key not in self._sound:
            if crc32(array) != checksum:
                raise format_error(f"{self._where}: array {key!r}", "bytes that do not match their checksum",
                                 "the bytes that were written")  # fmt: skip
            self._sound.add(key)
        return array

    def peek(self, key: Key) -> NDArray:
        """Return an array of the same shape and dtype, whose elements nobody has verified or made."""
        if key in self._arrays:
            return self._arrays[key][0]
        stored, shape, _ = self._stored[key]
        return np.broadcast_to(np.zeros((), np.float32 if isinstance(stored, Stored) else np.uint8), shape)

    def checksum(self, key: Key) -> int:
        """Return the CRC-32 that the JSON stores for an array."""
        return self._stored[key][2] if key in self._stored else self._arrays[key][1]

    def __contains__(self, key: object) -> bool:
        return key in self._arrays or key in self._stored

    def __iter__(self) -> Iterator[Key]:
        return iter(dict.fromkeys((*self._arrays, *self._stored)))

    def __len__(self) -> int:
        return len(self._arrays.keys() | self._stored.keys())

    def verify(self, keys: Iterable[Key], threads: int = 1) -> None:
        """Compare these arrays now, so that a damaged file is refused before anything runs."""
        if threads == 1:
            self._verify_all(keys)
            return
        waiting = list(keys)
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(self._verify_all, [waiting[first::threads] for first in range(threads)]):
                pass

    def _verify_all(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.borrow(key)
