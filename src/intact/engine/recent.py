"""What was used last is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from intact.engine.steps import Shape

Key = tuple[object, ...]
"""Shapes of the inputs, and the values of some, in the model's order; then what values made of sizes."""
Kept = TypeVar("Kept")

MOST_KEPT = 8
"""Sets of input shapes, or values that decide between branches, that an engine keeps ready."""


def key_of(shapes: Mapping[str, Shape], values: Mapping[str, NDArray[Any]]) -> Key:
    """What tells one set of inputs from another."""
    return tuple(shapes.values()), tuple(array.tobytes() for array in values.values())


class Recent(Generic[Kept]):
    """Something for each of the sets of inputs that came last.

    Any number of threads may ask at once: what two of them miss, both make.
    """

    def __init__(self) -> None:
        self._found: dict[Key, Kept] = {}

    def __len__(self) -> int:
        return len(self._found)

    @property
    def last(self) -> Kept:
        """What was used last."""
        return next(reversed(self._found.values()))

    def get(self, key: Key, make: Callable[[], Kept]) -> Kept:
        """What there is for `key`, made where it is missing."""
        found = self._found.pop(key, None)
        if found is None:
            found = make()
        self._found[key] = found  # the last used is the last in line
        while len(self._found) > MOST_KEPT:
            self._found.pop(next(iter(self._found)), None)
        return found
