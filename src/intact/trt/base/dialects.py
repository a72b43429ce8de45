"""Choose the dialect of TensorRT: 8.x and 10.x have different members, and different rules for Quantize
layers.

    rule                                        "8.x"                        "10.x" (the default)
    axis not set                                an error                     per-tensor
    a scale for each channel of an activation   allowed                      refused: weights only
    a zero point that is not zero               no effect, with a warning    refused
    members that TensorRT 10 removed            exist                        do not exist

`set_dialect`, or the environment variable INTACT_TRT_DIALECT, chooses. Where neither does, the dialect is
that of the script (`script_dialect`).
"""

from __future__ import annotations

import os
from types import FrameType
from typing import Literal, cast, get_args

from intact.errors import QuantValueError
from intact.trt.base.script_dialect import caller_frame, calls_removed_members

Dialect = Literal["8.x", "10.x"]

VERSIONS: dict[Dialect, str] = {"8.x": "8.6.1", "10.x": "10.9.0"}
"""Values of ``__version__`` for scripts of each dialect."""

_chosen: list[Dialect] = []


def get_dialect() -> Dialect:
    """Return the dialect by which new networks are checked, as the calling script sees it."""
    return DialectChoice().look().dialect


def set_dialect(name: Dialect) -> None:
    """Choose the dialect for networks that are made from now on.

    Args:
        name: "8.x" or "10.x".
    Raises:
        QuantValueError: It is neither.
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
        if self._dialect is None and calls_removed_members(frame or caller_frame()):
            self._dialect = "8.x"
        return self

    def use_removed_member(self) -> None:
        """Record that a script without a chosen dialect used a member that TensorRT 10 removed."""
        self._dialect = "8.x"


def message_of(dialect: Dialect, message: str) -> str:
    """Return a message that only `dialect` gives, with the name of the other one."""
    other = next(name for name in get_args(Dialect) if name != dialect)
    return f"{message} (TensorRT {dialect}; trt.set_dialect('{other}') follows {other}, which allows it)"


def _check_dialect(name: str, where: str) -> Dialect:
    if name not in get_args(Dialect):
        raise QuantValueError(where, repr(name), "'8.x' or '10.x'", "choose one of the two")
    return cast(Dialect, name)
