"""Change some of the calls that a model's code makes while it is traced, by one mode that sees them all."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from torch.overrides import TorchFunctionMode

__all__ = ["CallChange", "ChangedCalls"]


class CallChange(Protocol):
    """Runs some functions in another way.

    Attributes:
        names: Names of these functions; of an overload the part in front of the dot.
        sees_all: Calls of other functions come to `perform`, too.
    """

    names: Collection[str]
    sees_all: bool

    def perform(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the call; return NotImplemented to let PyTorch make it."""


class ChangedCalls(TorchFunctionMode):
    """Lets changes make the calls inside the context; calls that they make are not changed again.

    Args:
        changes: Functions that two of them name go to the first.
    """

    def __init__(self, *changes: CallChange) -> None:
        super().__init__()
        self._changes = changes

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "").partition(".")[0]
        for change in self._changes:
            if name in change.names or change.sees_all:
                result = change.perform(name, func, args, kwargs)
                if result is not NotImplemented:
                    return result
        return func(*args, **kwargs)
