"""Other people's messages in ours."""

from __future__ import annotations

import re

from intact.errors import FileFormatError


def first_line(error: BaseException, limit: int = 300) -> str:
    """The message of `error` in one line of at most `limit` characters."""
    return re.sub(r"\s+", " ", str(error).strip())[:limit]


def root(error: BaseException) -> BaseException:
    """The first of the errors that led to `error`."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def unreadable(where: str, error: BaseException) -> FileFormatError:
    """That `where` cannot be read as a model, and why."""
    return FileFormatError(
        where, first_line(error), "an ONNX model", "check the path, or export the model again"
    )
