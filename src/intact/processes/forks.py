"""Renews locks and thread pools in the child of a fork, where the threads that held them do not exist.

`renew_in_child` names an object whose `after_fork` is called there. `cached_property` is functools' without
its lock: that of Python 3.11 is one for all instances of a class, held while the value is computed.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakSet

T = TypeVar("T", bound="Renewable")


class Renewable(Protocol):
    """An object with locks or threads."""

    def after_fork(self) -> None:
        """Replace locks, and drop threads. Another thread may have been at any line of its code."""
        ...


_renewables: WeakSet[Any] = WeakSet()


def renew_in_child(owner: T) -> T:
    """Call ``owner.after_fork()`` in every child of a fork, while the object lives; return it."""
    _renewables.add(owner)
    return owner


def never_free(thing: object) -> None:
    """Keep an object until the process ends: its destructor would wait for threads of the parent."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _renew_all() -> None:
    for owner in list(_renewables):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


if TYPE_CHECKING:  # type checkers know functools' own alone
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):
        """`functools.cached_property` without a lock: two threads at once may both compute the value."""

        def __init__(self, func: Callable[[Any], Any]) -> None:
            super().__init__(func)
            self.lock = nullcontext()
