"""A cache bounded by memory that drops the least recently used entry first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from intact.engine.steps import Shape
from intact.limits import KEPT_BYTES
from intact.processes import renew_in_child

Key = tuple[object, ...]
"""Shapes of the inputs, and the values of some, in the model's order; then what values made of sizes."""
Kept = TypeVar("Kept")

MOST_DECIDED = 8
"""Sets of values that decide between branches for which an engine has plans of their own."""

_LEAST = 1024  # bytes of anything that is kept, with its key


def key_of(shapes: Mapping[str, Shape], values: Mapping[str, NDArray[Any]]) -> Key:
    """Return the cache key of a set of inputs, by shapes and values."""
    return tuple(shapes.values()), tuple(array.tobytes() for array in values.values())


class Recent(Generic[Kept]):
    """LRU cache keyed by input shapes.

    Keeps entries up to `KEPT_BYTES` in total, and always the newest. Thread-safe; concurrent misses may build
    an entry twice.

    Args:
        nbytes: Return the bytes that an entry holds.
    """

    def __init__(self, nbytes: Callable[[Kept], int] = lambda value: 0) -> None:
        self._nbytes = nbytes
        self._kept: dict[Key, tuple[Kept, int]] = {}
        self._held = 0
        self._lock = Lock()
        renew_in_child(self)

    def after_fork(self) -> None:
        """Renew the lock, and count what is held: a thread may have been between two lines of `put`."""
        self._lock, self._held = Lock(), sum(nbytes for _, nbytes in self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def last(self) -> Kept:
        """Return the entry that was used last."""
        with self._lock:
            return next(reversed(self._kept.values()))[0]

    def peek(self, key: Key, default: Kept) -> Kept:
        """Return the entry for `key`, else `default`. The call does not count as use."""
        with self._lock:
            return self._kept.get(key, (default, 0))[0]

    def get(self, key: Key, make: Callable[[], Kept]) -> Kept:
        """Return the entry for `key`. Calls `make` where it is missing."""
        with self._lock:
            entry = self._kept.pop(key, None)
            if entry is not None:
                self._kept[key] = entry  # the last used is the last in line
                return entry[0]
        value = make()
        self.put(key, value)
        return value

    def put(self, key: Key, value: Kept) -> None:
        """Store this for `key`.

        Entries used longest ago are dropped where all together take too much memory.
        """
        nbytes, most = _LEAST + self._nbytes(value), KEPT_BYTES.most
        with self._lock:
            _, before = self._kept.pop(key, (None, 0))
            self._kept[key] = value, nbytes
            self._held += nbytes - before
            while self._held > most and len(self._kept) > 1:
                _, gone = self._kept.pop(next(iter(self._kept)))
                self._held -= gone
