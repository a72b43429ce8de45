"""Safetensors files of every dtype, tensor by tensor from a mapping; written whole or not at all.

The package `safetensors` has no NumPy dtypes for bfloat16 and floats of 8 bits. Source: its README, "Format".
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, TypeGuard

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from intact.atomic import replacing
from intact.errors import FileFormatError, QuantValueError, UnsupportedError
from intact.formats.mapped_bytes import MappedBytes
from intact.limits import METADATA_ENTRIES
from intact.reading import LARGEST_HEADER, reading

_DTYPES: dict[str, np.dtype] = {
    name: np.dtype(dtype)
    for name, dtype in {
        "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
        "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": ml_dtypes.bfloat16,
        "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
        "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    }.items()
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


@dataclass(frozen=True)
class StoredTensor:
    """Describes one tensor of a safetensors file.

    Attributes:
        dtype: Of its numbers.
        shape: Its sizes.
        offset: Where its bytes begin in the file; 0 in files to be written.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return prod(self.shape) * self.dtype.itemsize


class SafetensorsFile:
    """Reads a safetensors file; tensors come one by one from the mapped file.

    Args:
        path: The file.

    Attributes:
        metadata: Texts by name.
        tensors: Every name with its `StoredTensor`, in the header's order.

    Raises:
        FileFormatError: The file is damaged, or has a dtype that is not known.
        FileAccessError: It cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.where = f"file '{os.fspath(path)}'"
        with reading(path), Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = struct.unpack("<Q", file.read(8))[0] if size >= 8 else -1
            if not 0 < length <= min(size - 8, LARGEST_HEADER):
                raise self._error(f"{size} bytes with a header of {length}", "a safetensors file")
            header = self._json(file.read(length))
            self._file = MappedBytes(file)
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
            raise self._error("metadata that is no table of texts", "texts by name")
        METADATA_ENTRIES.check(len(header), self.where)
        self.metadata: dict[str, str] = metadata
        self.tensors = {name: self._entry(name, entry, 8 + length, size) for name, entry in header.items()}

    def read(self, name: str) -> NDArray:
        """Return a tensor in its own dtype, read-only.

        Raises:
            QuantValueError: The file has no such tensor.
        """
        if name not in self.tensors:
            raise QuantValueError(
                "tensor", f"'{name}'", f"one of the {len(self.tensors)} names in {self.where}", "see .tensors"
            )
        tensor = self.tensors[name]
        return self._file.bytes_at(tensor.offset, tensor.nbytes).view(tensor.dtype).reshape(tensor.shape)

    def _entry(self, name: str, entry: Any, base: int, size: int) -> StoredTensor:
        fields: dict[str, Any] = entry if isinstance(entry, dict) else {}
        dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
        if not isinstance(dtype, str) or dtype not in _DTYPES:
            raise self._error(f"tensor '{name:.80}' of dtype {dtype!r:.20}", f"one of {', '.join(_DTYPES)}")
        begin, end = offsets if _are_sizes(offsets) and len(offsets) == 2 else (1, 0)
        if not _are_sizes(shape) or not begin <= end <= size - base:
            raise self._error(f"tensor '{name:.80}' at {offsets!r:.60}", "bytes within the file")
        tensor = StoredTensor(_DTYPES[dtype], tuple(shape), base + begin)
        if tensor.nbytes != end - begin:
            raise self._error(f"tensor '{name:.80}' of shape {shape!r:.60}", f"{end - begin} bytes")
        return tensor

    def _json(self, text: bytes) -> dict[str, Any]:
        try:
            header = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._error("a header that is no JSON", "a safetensors file") from error
        if not isinstance(header, dict):
            raise self._error("a header that is no table", "a safetensors file")
        return header

    def _error(self, got: str, want: str) -> FileFormatError:
        return FileFormatError(self.where, got, want, "the file is damaged: fetch it again")


def _are_sizes(values: Any) -> TypeGuard[list[int]]:
    return (
        isinstance(values, list)
        and all(type(v) is int and 0 <= v < 2**62 for v in values)
        and len(values) < 33
    )


def write_safetensors(
    path: str | os.PathLike[str],
    tensors: Mapping[str, StoredTensor],
    load: Callable[[str], NDArray],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a safetensors file, one tensor at a time; it appears whole or not at all.

    Args:
        path: The file.
        tensors: Every name with dtype and shape.
        load: Gives the tensor of a name when its turn comes.
        metadata: Texts by name.

    Raises:
        UnsupportedError: The format does not have a dtype.
        QuantValueError: A tensor is of another dtype or shape than announced.
        FileAccessError: The system refuses something.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise UnsupportedError(
                f"tensor '{name}'", str(tensor.dtype), f"one of {', '.join(_DTYPES)}", "convert it first"
            )
        begin, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end],
        }  # fmt: skip
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, tensor in tensors.items():
            array = load(name)
            if array.dtype != tensor.dtype or array.shape != tensor.shape:
                raise QuantValueError(
                    f"tensor '{name}'", f"{array.dtype} {list(array.shape)}",
                    f"{tensor.dtype} {list(tensor.shape)}", "announce what is written",
                )  # fmt: skip
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
