"""Safetensors files of bytes, mapped into memory: every array on a cache line, with room behind it.

The format is that of safetensors, and its library reads these files. Two things it does not promise are
kept here: data start at multiples of `ALIGNMENT` in the file, and at least `SLACK` zero bytes follow each
array, so that kernels may read mapped weights as they read their own memory.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from intact.atomic import replacing
from intact.engine.codec import format_error
from intact.reading import LARGEST_HEADER, reading

ALIGNMENT = 64
SLACK = 64  # kSlack of the native runtime

Bytes = NDArray[np.uint8]


def padded_size(size: int) -> int:
    """Return the bytes that an array of `size` bytes takes in the file."""
    return -(-size // ALIGNMENT) * ALIGNMENT + SLACK


def write(path: str | os.PathLike[str], arrays: Mapping[str, NDArray], metadata: Mapping[str, str]) -> None:
    """Write `arrays` in their order, and `metadata`, whole or not at all."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + padded_size(array.nbytes)
        header[name] = {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    with replacing(path) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).data)
            file.write(bytes(padded_size(array.nbytes) - array.nbytes))


def read(path: str | os.PathLike[str], *, copy: bool = False) -> tuple[dict[str, str], dict[str, Bytes]]:
    """Read the metadata and the arrays of a file that `write` made, as views of the mapped file.

    Nothing of the data is touched; each array includes its padding. `copy`: as views of a copy in memory,
    which starts on a cache line as a mapped file does.

    Raises:
        FileFormatError: The file is no such file.
        FileAccessError: The file cannot be read.
    """
    where = f"file '{os.fspath(path)}'"
    with reading(path), Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 8:
            raise format_error(where, f"{size} bytes", "a plan file")
        length = struct.unpack("<Q", file.read(8))[0]
        if length > min(size - 8, LARGEST_HEADER) or (8 + length) % ALIGNMENT:
            raise format_error(where, f"a header of {length} bytes", "a plan file")
        header = _json(where, file.read(length))
        data = (
            _read_copy(where, file, size)
            if copy
            else np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        )
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise format_error(where, "a header without metadata", "a plan file")
    return metadata, _views(where, header, data[8 + length :])


def _read_copy(where: str, file: BinaryIO, size: int) -> Bytes:
    """Read the whole file into memory of its own, read-only."""
    block = np.empty(size + ALIGNMENT, np.uint8)
    data = block[-block.ctypes.data % ALIGNMENT :][:size]
    file.seek(0)
    if file.readinto(data.data) != size:  # type: ignore[attr-defined]
        raise format_error(where, f"fewer than {size} bytes", "a file that nobody shortens meanwhile")
    data.flags.writeable = False
    return data


def _json(where: str, text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise format_error(where, f"a header that is no JSON ({error})", "a plan file") from error
    if not isinstance(header, dict):
        raise format_error(where, header, "a plan file")
    return header


def _views(where: str, header: Mapping[str, Any], data: Bytes) -> dict[str, Bytes]:
    views: dict[str, Bytes] = {}
    end = 0
    for name, entry in header.items():
        begin, offsets = end, entry.get("data_offsets") if isinstance(entry, dict) else None
        after = offsets[1] if isinstance(offsets, list) and len(offsets) == 2 else None
        if type(after) is not int or not begin < after <= data.size:
            raise format_error(where, entry, f"an array from byte {begin} on within the file")
        end = after
        expected = {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}
        if entry != expected or end % ALIGNMENT:
            raise format_error(where, entry, f"{expected}")
        views[name] = data[begin:end]
    if end != data.size:
        raise format_error(where, f"{data.size - end} bytes of no array", "none")
    return views
