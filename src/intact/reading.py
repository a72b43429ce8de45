"""Opens files for reading; errors of the system become `FileAccessError`."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from intact.errors import FileAccessError, FileFormatError, IntactError, require_path

_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}  # fmt: skip

LARGEST_HEADER = 100_000_000
"""Bytes of a safetensors file's header; the limit of the package `safetensors`."""


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise errors of opening and reading `path` as INTact's; pipes are refused, because opening them blocks.

    Raises:
        FileAccessError: There is no such file, or it cannot be read; names the path.
        FileFormatError: It is no regular file, nor a link to one.
    """
    try:
        require_regular(path)
        yield
    except IntactError:
        raise
    except OSError as error:
        raise FileAccessError.of(path, error, "read") from error


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Read a file.

    Raises:
        FileAccessError, FileFormatError: As for `reading`.
    """
    with reading(path):
        return Path(path).read_bytes()


def require_regular(path: str | os.PathLike[str]) -> None:
    """Refuse what cannot be read twice, before anything waits for it: pipes, devices, folders.

    Raises:
        FileFormatError: It is no regular file, nor a link to one; names the path.
        OSError: There is no such file.
    """
    require_path(path)
    where = f"file '{os.fspath(path)}'"
    try:
        mode = Path(path).stat().st_mode
    except ValueError as error:  # a name with a zero byte
        raise FileFormatError(where, f"'{error}'", "the name of a file", "check the path") from error
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no file")
        raise FileFormatError(where, kind, "a file that can be read twice", "check the path")
