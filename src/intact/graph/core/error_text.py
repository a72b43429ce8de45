"""Quote messages of other libraries, and errors of code that a file misled, in errors of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from intact.errors import FileFormatError, IntactError, UnsupportedError

_MISLED = (ArithmeticError, AssertionError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""Exceptions that Python raises where a node has sizes, axes or numbers that no node has."""


@contextmanager
def naming_errors(where: str) -> Iterator[None]:
    """Name a node or a pass in errors about an invalid file.

    Raises:
        UnsupportedError: In place of what Python raises. Errors of INTact stay.
    """
    try:
        yield
    except IntactError:
        raise
    except _MISLED as error:
        raise UnsupportedError(
            where,
            f"'{type(error).__name__}: {first_line(error, 150)}'",
            "attributes and inputs that its operator allows",
            "let onnx.checker check the model; if it passes, report the model to INTact",
        ) from error


def first_line(error: BaseException, limit: int = 300) -> str:
    """Return the message of `error` in one line of at most `limit` characters."""
    return re.sub(r"\s+", " ", str(error).strip())[:limit]


def root(error: BaseException) -> BaseException:
    """Return the first of the errors that led to `error`."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


_KINDS: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"PK\x03\x04", "a zip archive", "unpack it first; what torch.save wrote is exported by torch.onnx"),
    (0, b"\x1f\x8b", "a file that gzip packed", "unpack it first"),
    (0, b"BZh", "a file that bzip2 packed", "unpack it first"),
    (0, b"\xfd7zXZ", "a file that xz packed", "unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "a file that zstd packed", "unpack it first"),
    (257, b"ustar", "a tar archive", "unpack it first"),
    (4, b"TFL3", "a TensorFlow Lite model", "convert it with tf2onnx"),
    (0, b"\x89HDF", "a file of HDF5", "convert it with tf2onnx"),
    (0, b"version https://git-lfs", "a pointer of Git LFS", "fetch the file itself: git lfs pull"),
    (0, b"<", "a text, as a web page is", "download the file itself"),
)
"""Offset, magic bytes, name and remedy of each kind of file that is often mistaken for a model."""


def unreadable(where: str, error: BaseException, data: bytes = b"") -> FileFormatError:
    """Return the error for a file that is no readable model: by its first bytes, or by the parser's
    message."""
    for start, magic, kind, fix in _KINDS:
        if data[start : start + len(magic)] == magic:
            return FileFormatError(where, kind, "an ONNX model", fix)
    return FileFormatError(
        where, first_line(error), "an ONNX model", "check the path, or export the model again"
    )
