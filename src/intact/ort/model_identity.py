"""`ModelIdentity`: the content of the model of a session, by hash, and whether its file has changed since."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STATUS = tuple[int, int, int]
_CODE_OPERATORS = (
    b"DequantizeLinear", b"QLinearConv", b"QLinearMatMul", b"QLinearAdd", b"MatMulInteger", b"ConvInteger",
    b"MatMulNBits", b"DynamicQuantizeLSTM", b"QGemm", b"GatherBlockQuantized",
)  # fmt: skip
"""Operator names of models that hold codes."""
_CHUNK = 1 << 24
MOST_BYTES = 2 << 30
"""The size of a model, external data included, above which it is left alone: to hash it takes seconds."""


@dataclass(frozen=True)
class ModelIdentity:
    """Identifies a model by its content.

    Attributes:
        digest: SHA-256 of the file and its external data, in hexadecimal digits.
        path: The file; None: the program gave bytes.
        content: These bytes; None: there is a file.
        has_codes: Whether operators of quantized models are named in it.
        nbytes: The size of the file and of its external data.
        statuses: (time of change in ns, size, inode) of each file that was read.
    """

    digest: str
    path: Path | None
    content: bytes | None
    has_codes: bool
    nbytes: int
    statuses: dict[str, _STATUS]

    @property
    def is_unchanged(self) -> bool:
        """True where the files are those that were hashed, as far as the system says."""
        return all(_status(Path(name)) == status for name, status in self.statuses.items())

    def is_same_content(self) -> bool:
        """Return whether the files still have this content: reads them again."""
        if self.path is None:
            return True
        again = identify(self.path)
        return again is not None and again.digest == self.digest


def identify(source: str | os.PathLike[str] | bytes) -> ModelIdentity | None:
    """Return the identity of a model; None where its file cannot be read or has data in unexpected places.

    Args:
        source: The path of an ONNX file, or its bytes.
    """
    sha = hashlib.sha256()
    if isinstance(source, bytes):
        if _external_files(source, Path()):  # which folder they are in, the session's options say
            return None
        sha.update(source)
        return ModelIdentity(sha.hexdigest(), None, source, _has_codes(source), len(source), {})
    path = Path(source).absolute()
    try:
        statuses = {str(path): _status(path)}
        if path.stat().st_size > MOST_BYTES:
            return None
        with _map_file(path) as view:
            sha.update(view)
            is_quantized, nbytes = _has_codes(view), len(view)
            names = _external_files(view, path.parent)
        statuses |= {str(name): _status(name) for name in names}
        if sum(0 if status is None else status[1] for status in statuses.values()) > MOST_BYTES:
            return None
        for name in names:
            nbytes += _update_from_file(sha, name)
    except (OSError, ValueError):
        return None
    if any(status is None for status in statuses.values()):
        return None
    identity = ModelIdentity(
        sha.hexdigest(), path, None, is_quantized, nbytes,
        {name: status for name, status in statuses.items() if status is not None},
    )  # fmt: skip
    return identity if identity.is_unchanged else None


def _status(path: Path) -> _STATUS | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


@contextmanager
def _map_file(path: Path) -> Iterator[mmap.mmap | bytes]:
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            yield view


def _has_codes(view: mmap.mmap | bytes) -> bool:
    return any(view.find(name) >= 0 for name in _CODE_OPERATORS)


def _external_files(view: mmap.mmap | bytes, folder: Path) -> list[Path]:
    """Return the files beside a model that its tensors name as their location, in the order of names.

    An entry of `external_data` is the message {key: "location", value: name}, whose bytes are looked for:
    the file is parsed only when it is quantized. What the search misses, the file's loader still reads.
    """
    names: set[str] = set()
    marker, start = b"\x0a\x08location\x12", 0
    while (start := view.find(marker, start)) >= 0:
        start += len(marker)
        length = view[start] if start < len(view) else 0
        shift = 7
        position = start + 1
        if length >= 0x80:
            length = (length & 0x7F) | (view[position] << shift if position < len(view) else 0)
            position += 1
        names.add(bytes(view[position : position + length]).decode("utf-8"))
    return [folder / name for name in sorted(names)]


def _update_from_file(sha: hashlib._Hash, path: Path) -> int:
    nbytes = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            sha.update(chunk)
            nbytes += len(chunk)
    return nbytes
