"""Reads `.npy` and `.npz` files, which may be hostile; `.npy` is memory-mapped, `.npz` members are read on
demand.

The headers are parsed here: NumPy's own reader evaluates them as Python literals. Sizes are checked against
the file and `intact.limits` before memory is taken, and nothing is ever unpickled.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, Self
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from intact.errors import FileFormatError, IntactError
from intact.limits import NPZ_BYTES

_MAGIC = b"\x93NUMPY"
_LENGTHS = {1: "<H", 2: "<I", 3: "<I"}
_LONGEST_HEADER, _PIECE = 10_000, 2**20
_ENTRY = re.compile(
    r"""\s*(['"])(descr|fortran_order|shape)\1\s*:"""
    r"""\s*(?:(['"])([^'"\\]*)\3|(True|False)|\(([0-9L,\s]*)\))\s*(,|$)"""
)
_ELEMENT = re.compile(r"[<>|=]?(\?|[biuf][0-9]{1,2}|U[1-9][0-9]{0,5})")
_BROKEN = (BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError, OverflowError,
           KeyError, struct.error, zlib.error)  # fmt: skip
"""Exceptions that the standard library and NumPy raise over damaged files."""


@dataclass(frozen=True)
class _Header:
    """Describes an array in a file: dtype, shape, order and the offset of its bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: str
    start: int

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize


def read_npy(path: Path) -> NDArray:
    """Return the array of an .npy file, read-only; its values stay on disk until they are used.

    Raises:
        FileFormatError: The file is damaged, or holds objects or records; names it.
    """
    where = f"file '{path}'"
    with _reading_errors(where, ".npy"), path.open("rb") as file:
        header, size = _header(file, where), path.stat().st_size
        if header.start + header.nbytes > size:
            raise _format_error(where, f"{size} bytes", f"{header.start + header.nbytes}, as its header says")
        if not header.nbytes:
            return np.empty(header.shape, header.dtype)
        return np.memmap(path, header.dtype, "r", header.start, header.shape, header.order)  # type: ignore[call-overload, no-any-return]


class Npz:
    """Reads the arrays of an .npz file, each when it is asked for.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "two.npz"), ids=np.arange(3), mask=np.ones(3))
    ...     with Npz(Path(folder, "two.npz")) as packed:
    ...         packed.names, packed["ids"]
    (['ids', 'mask'], array([0, 1, 2]))
    """

    def __init__(self, path: Path) -> None:
        self._path, self._where, self._bytes_read = path, f"file '{path}'", 0
        with _reading_errors(self._where, ".npz"):
            self._zip = ZipFile(path)
        self._members = {info.filename.removesuffix(".npy"): info for info in self._zip.infolist()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """The names of all arrays."""
        return list(self._members)

    def __getitem__(self, name: str) -> NDArray:
        """Return the array called `name`.

        Raises:
            FileFormatError: It is damaged, encrypted, holds objects or records, or asks for more than the
                limits.
        """
        where = f"{self._where}: array '{name}'"
        with _reading_errors(where, ".npz"):
            info = self._members[name]
            self._require_plain(info, where)
            with self._zip.open(info) as file:
                header = _header(file, where)
                if header.start + header.nbytes != info.file_size:
                    raise _format_error(
                        where,
                        f"{info.file_size} bytes",
                        f"{header.start + header.nbytes}, as its header says",
                    )
                self._bytes_read += header.nbytes
                if info.compress_type != ZIP_STORED:
                    NPZ_BYTES.check(self._bytes_read, where)
                return _read_elements(file, header, where)

    def _require_plain(self, info: ZipInfo, where: str) -> None:
        if info.flag_bits & 1:
            raise _format_error(where, "an encrypted array", "a file without a password")
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise _format_error(where, f"compression of kind {info.compress_type}", "what numpy.savez writes")
        if info.compress_type == ZIP_STORED and info.file_size > self._path.stat().st_size:
            raise _format_error(where, f"{info.file_size} bytes", "no more than the file has")


def _header(file: IO[bytes], where: str) -> _Header:
    """Return the header of an array of numbers or strings, which `file` is then behind."""
    start = file.read(8)
    length = _LENGTHS.get(start[6]) if len(start) == 8 and start[:6] == _MAGIC else None
    if length is None:
        raise _format_error(where, f"a beginning of {start!r}", "NumPy's signature, version 1 to 3")
    (size,) = struct.unpack(length, file.read(struct.calcsize(length)))
    if size > _LONGEST_HEADER:
        raise _format_error(where, f"a header of {size} bytes", f"at most {_LONGEST_HEADER}")
    text = file.read(size).decode("utf-8" if start[6] == 3 else "latin-1").strip()
    entries = _entries(text)
    descr, order, shape = (entries.get(key) for key in ("descr", "fortran_order", "shape"))
    if descr is None or order is None or shape is None or not _ELEMENT.fullmatch(descr):
        raise _format_error(
            where, f"the header {text[:200]!r}", "an array of numbers or strings: no objects or records"
        )
    sizes = tuple(int(part.rstrip("L")) for part in shape.replace(" ", "").split(",") if part)
    try:
        dtype = np.dtype(descr)
    except TypeError as error:
        raise _format_error(where, f"dtype '{descr}'", "a dtype that NumPy has") from error
    begin = 8 + struct.calcsize(length) + size
    return _Header(dtype, sizes, "F" if order == "True" else "C", begin)


def _entries(text: str) -> dict[str, str]:
    """Return the values of a header as text, by key; {} where it is not written as one."""
    if not (text.startswith("{") and text.endswith("}")):
        return {}
    body, entries, at = text[1:-1].strip(), dict[str, str](), 0
    kinds = {"descr": 4, "fortran_order": 5, "shape": 6}
    while at < len(body):
        match = _ENTRY.match(body, at)
        if match is None or match[2] in entries or match[kinds[match[2]]] is None:
            return {}
        entries[match[2]], at = match[kinds[match[2]]], match.end()
    return entries


def _read_elements(file: IO[bytes], header: _Header, where: str) -> NDArray:
    """Read the elements behind a header piece by piece, so that memory is touched gradually."""
    array = np.empty(header.nbytes, np.uint8)
    view, at = array.data, 0
    while piece := file.read(_PIECE):
        if at + len(piece) > len(view):
            raise _format_error(where, "more bytes than its header says", f"{len(view)}")
        view[at : at + len(piece)] = piece
        at += len(piece)
    if at != len(view):
        raise _format_error(where, f"{at} bytes of values", f"{len(view)}")
    return array.view(header.dtype).reshape(header.shape, order=header.order)  # type: ignore[call-overload, no-any-return]


@contextmanager
def _reading_errors(where: str, suffix: str) -> Iterator[None]:
    try:
        yield
    except IntactError:
        raise
    except _BROKEN as error:
        message = str(error) or type(error).__name__
        raise _format_error(where, f"'{message}'", f"NumPy's {suffix} format without objects") from error


def _format_error(where: str, got: str, want: str) -> FileFormatError:
    return FileFormatError(where, got, want, "write the file again, with numpy.save or numpy.savez")
