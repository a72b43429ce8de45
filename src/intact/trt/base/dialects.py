"""Choose the dialect of TensorRT: 8.x, 10.x and 11.x have different members, and different rules for Quantize
layers.

    rule                                       "8.x"                     "10.x" (the default)  "11.x"
    axis not set                               an error                  per-tensor            per-tensor
    a scale for each channel of an activation  allowed                   refused               refused
    a zero point that is not zero              no effect, and a warning  refused               refused
    members that TensorRT 10 removed           exist                     do not exist          do not exist
    calibrators, precision flags, ranges       exist                     exist                 do not exist
    types                                      chosen by the builder     as created            the network's

`set_dialect`, or the environment variable INTACT_TRT_DIALECT, chooses. Where neither does, the dialect is
that of the script (`script_dialect`).
"""

from __future__ import annotations

import os
from types import FrameType
from typing import Literal, cast, get_args

from intact.errors import QuantValueError
from intact.trt.base.script_dialect import caller_frame, calls_removed_members, needs_version_11

Dialect = Literal["8.x", "10.x", "11.x"]

VERSIONS: dict[Dialect, str] = {"8.x": "8.6.1", "10.x": "10.9.0", "11.x": "11.1.0"}
"""Values of ``__version__`` for scripts of each dialect."""

_chosen: list[Dialect] = []


def get_dialect() -> Dialect:
    """Return the dialect by which new networks are checked, as the calling script sees it."""
    return DialectChoice().look().dialect


def set_dialect(name: Dialect) -> None:
    """Choose the dialect for networks that are made from now on.

    Args:
        name: "8.x", "10.x" or "11.x".
    Raises:
        QuantValueError: It is none of them.
    """
    _chosen[:] = [_check_dialect(name, "dialect")]


def explicit_dialect() -> Dialect | None:
    """Return the dialect chosen by `set_dialect` or the environment variable; None where neither did."""
    if _chosen:
        return _chosen[-1]
    name = os.environ.get("INTACT_TRT_DIALECT")
    return None if name is None else _check_dialect(name, "INTACT_TRT_DIALECT")


class DialectChoice:
    """Holds the dialect of one script's objects.

    A builder shares it with its networks, configurations and engines.

    Attributes:
        is_explicit: Whether the user chose it, so that no use of a member changes it.
    """

    def __init__(self) -> None:
        chosen = explicit_dialect()
        self.is_explicit = chosen is not None
        self._dialect: Dialect | None = chosen

    @property
    def dialect(self) -> Dialect:
        """The dialect; "10.x" as long as nothing speaks for the older one."""
        return self._dialect or "10.x"

    def look(self, frame: FrameType | None = None) -> DialectChoice:
        """Read the code that is running.

        Return itself, or a new choice where the user chose otherwise since.
        """
        chosen = explicit_dialect()
        if chosen is not None:
            return self if self.is_explicit and self._dialect == chosen else DialectChoice()
        if self._dialect is None:
            frame = frame or caller_frame()
            if calls_removed_members(frame):
                self._dialect = "8.x"
            elif needs_version_11(frame):
                self._dialect = "11.x"
        return self

    def use_removed_member(self, last: Dialect) -> None:
        """Record that a script without a chosen dialect used a member that exists up to `last`."""
        self._dialect = last


def has_members_of(dialect: Dialect, last: Dialect) -> bool:
    """Return whether members that TensorRT had up to `last` exist in `dialect`."""
    order = get_args(Dialect)
    return bool(order.index(dialect) <= order.index(last))


def next_dialect(last: Dialect) -> Dialect:
    """Return the dialect that removed what `last` has."""
    order: tuple[Dialect, ...] = get_args(Dialect)
    return order[order.index(last) + 1]


def message_of(dialect: Dialect, message: str) -> str:
    """Return a message of `dialect`, with the name of a dialect that allows what it refuses."""
    other = "10.x" if dialect == "8.x" else "8.x"
    return f"{message} (TensorRT {dialect}; trt.set_dialect('{other}') follows {other}, which allows it)"


def _check_dialect(name: str, where: str) -> Dialect:
    if name not in get_args(Dialect):
        raise QuantValueError(where, repr(name), "'8.x', '10.x' or '11.x'", "choose one of the three")
    return cast(Dialect, name)
