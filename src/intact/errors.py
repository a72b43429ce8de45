"""The exceptions of INTact: one root, few children, each message with its four slots.

    IntactError
    +-- QuantValueError (also ValueError)   a value, shape or dtype that cannot be quantized
    +-- CalibrationError (also RuntimeError) statistics that are missing, damaged or contradictory
    +-- UnsupportedError (also TypeError)   something that a format, an opset or a build cannot express
    +-- FileFormatError (also ValueError)   a file that is damaged, hostile or of another version
    +-- FileAccessError (also OSError)      a file that the system does not let us read or write
    +-- MissingExtraError (also ImportError) an optional dependency that is not installed

Every message reads ``where: got X, want Y. Fix: Z``. Code that does not know the tensor's or node's
name raises the fact; the layer that knows it adds it once with `at`.
"""

from __future__ import annotations

import os
from typing import Any, Literal, Self

from intact.terminal import printable


class IntactError(Exception):
    """Root of every error that INTact raises on purpose.

    Args:
        where: The argument, tensor, node or file that is at fault.
        got: What was found there.
        want: What would have been accepted.
        fix: What the user can do about it; a full sentence without its final period.
    """

    def __init__(self, where: str, got: str, want: str, fix: str) -> None:
        super().__init__(where, got, want, fix)
        self.where, self.got, self.want, self.fix = where, got, want, fix

    def __str__(self) -> str:
        """Return the message as one printable line; the attributes keep names unchanged."""
        return printable(f"{self.where}: got {self.got}, want {self.want}. Fix: {self.fix}")

    def at(self, name: str) -> Self:
        """Return the same error, its place prefixed with `name` (a tensor, node, module or file)."""
        return type(self)(f"{name}: {self.where}", self.got, self.want, self.fix)


class QuantValueError(IntactError, ValueError):
    """A value, shape or dtype that cannot be quantized as asked."""


class CalibrationError(IntactError, RuntimeError):
    """Statistics that are missing, damaged or contradict each other."""


class UnsupportedError(IntactError, TypeError):
    """Something that the chosen format, opset, device or build cannot express."""


class FileFormatError(IntactError, ValueError):
    """A file that is damaged, hostile, or of a version that this build does not read."""


class FileAccessError(IntactError, OSError):
    """A file that the system does not let us read or write: missing, protected, a full disk.

    Attributes:
        errno: The system's number for it, as every `OSError` has; None where there was none.
    """

    def __init__(self, where: str, got: str, want: str, fix: str) -> None:
        super().__init__(where, got, want, fix)
        self.args = (where, got, want, fix)  # `OSError` takes the first ones for its own
        self.errno = self.strerror = self.filename = None

    @classmethod
    def of(cls, path: str | os.PathLike[str], error: OSError, done: Literal["read", "written"]) -> Self:
        """Build the error for an `OSError` that reading or writing `path` raised."""
        wants = {
            "read": ("a file that can be read", "correct the path, or the file's permissions"),
            "written": (
                "a file name in a folder that can be written, with room for it",
                "make room, or choose another path",
            ),
        }
        reason = error.strerror or str(error) or type(error).__name__
        access_error = cls(f"file '{os.fspath(path)}'", f"'{reason}' when it was {done}", *wants[done])
        access_error.errno = error.errno
        return access_error

    def at(self, name: str) -> Self:
        """Return the same error with a prefixed place, as `IntactError.at`."""
        access_error = super().at(name)
        access_error.errno = self.errno
        return access_error

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, {**vars(self), "errno": self.errno}


DISTRIBUTION = "intact-quant"
"""Name of INTact on package indexes, where `intact` is another project."""


class ClashingInstallationError(IntactError, ImportError):
    """Another project's files lie in the folder of this package."""


_LONGEST_PATH, _LONGEST_NAME = 4095, 255


def require_path(path: object) -> None:
    """Refuse anything that does not name a file.

    Raises:
        QuantValueError: `path` is no str, bytes or `os.PathLike`.
        FileAccessError: No system has files of such a name: Path.exists, for one, raises an error of its own.
    """
    if not isinstance(path, str | bytes | os.PathLike):
        raise QuantValueError(
            "path", f"a {type(path).__name__}", "the name of a file", "give a str or a Path"
        )
    name = os.fsencode(path)
    if b"\0" in name or len(name) > _LONGEST_PATH or max(map(len, name.split(b"/"))) > _LONGEST_NAME:
        shown = os.fsdecode(name[:60]).replace("\0", "\\0")
        raise FileAccessError(
            f"file '{shown}'", f"a name of {len(name)} bytes, or with a zero byte",
            f"names of at most {_LONGEST_NAME} bytes", "correct the path",
        )  # fmt: skip


class MissingExtraError(IntactError, ImportError):
    """An optional dependency is not installed."""

    @classmethod
    def of(cls, package: str, extra: str, needed_for: str) -> Self:
        """Return the standard message for `package`, which ``pip install intact-quant[extra]`` brings."""
        return cls(
            needed_for,
            f"no package '{package}'",
            f"'{package}' to be importable",
            f"run: pip install '{DISTRIBUTION}[{extra}]'",
        )


class StaleRangeWarning(UserWarning):
    """A weight has changed since the range that it is quantized with was chosen."""


class SecondRoundingWarning(UserWarning):
    """Codes of a file are rounded to others, which loses more than to keep them."""


class NotQuantizedWarning(UserWarning):
    """A model that was to run in int8 has nothing quantized in it, and runs in float."""
