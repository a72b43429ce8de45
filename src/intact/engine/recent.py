"""What was used last is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from intact.engine.steps import Shape

Key = tuple[Shape, ...]
"""Shapes of the inputs, in the model's order."""
Kept = TypeVar("Kept")

MOST_SHAPES = 8
"""Sets of input shapes that an engine keeps ready."""


class Recent(Generic[Kept]):
    """Something for each of the sets of input shapes that came last.

    Any number of threads may ask at once: what two of them miss, both make.
    """

    def __init__(self) -> None:
        self._found: dict[Key, Kept] = {}

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: Key, make: Callable[[], Kept]) -> Kept:
        """What there is for `key`, made where it is missing."""
        found = self._found.pop(key, None)
        if found is None:
            found = make()
        self._found[key] = found  # the last used is the last in line
        while len(self._found) > MOST_SHAPES:
            self._found.pop(next(iter(self._found)), None)
        return found
