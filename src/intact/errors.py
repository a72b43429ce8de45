"""The exceptions of INTact: one root, few children, each message with its four slots.

    IntactError
    +-- QuantValueError (also ValueError)   a value, shape or dtype that cannot be quantized
    +-- CalibrationError (also RuntimeError) statistics that are missing, damaged or contradictory
    +-- UnsupportedError (also TypeError)   something that a format, an opset or a build cannot express
    +-- FileFormatError (also ValueError)   a file that is damaged, hostile or of another version
    +-- MissingExtraError (also ImportError) an optional dependency that is not installed

Every message reads ``where: got X, want Y. Fix: Z``. Code that does not know the tensor's or node's
name raises the fact; the layer that knows it adds it once with `at`.
"""

from __future__ import annotations

from typing import Self


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
        return f"{self.where}: got {self.got}, want {self.want}. Fix: {self.fix}"

    def at(self, name: str) -> Self:
        """The same error, its place prefixed with `name` (a tensor, node, module or file)."""
        return type(self)(f"{name}: {self.where}", self.got, self.want, self.fix)


class QuantValueError(IntactError, ValueError):
    """A value, shape or dtype that cannot be quantized as asked."""


class CalibrationError(IntactError, RuntimeError):
    """Statistics that are missing, damaged or contradict each other."""


class UnsupportedError(IntactError, TypeError):
    """Something that the chosen format, opset, device or build cannot express."""


class FileFormatError(IntactError, ValueError):
    """A file that is damaged, hostile, or of a version that this build does not read."""


class MissingExtraError(IntactError, ImportError):
    """An optional dependency is not installed."""

    @classmethod
    def of(cls, package: str, extra: str, needed_for: str) -> Self:
        """The standard message for `package`, which ``pip install intact[extra]`` brings."""
        return cls(
            needed_for,
            f"no package '{package}'",
            f"'{package}' to be importable",
            f"run: pip install 'intact[{extra}]'",
        )
