"""GGUF files: read tensor by tensor from a mapping, and written whole or not at all.

Nothing that a file says is believed before it is checked against the size of the file.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from intact.atomic import replacing
from intact.errors import FileFormatError, QuantValueError, UnsupportedError
from intact.formats.ggml_blocks import CODECS
from intact.formats.ggml_types import GGML_TYPES, TYPE_OF_NUMBER, GgmlType
from intact.formats.gguf_fields import GgufCursor, GgufField, read_field
from intact.formats.mapped_bytes import MappedBytes
from intact.limits import METADATA_ENTRIES, TENSOR_ELEMENTS
from intact.numerics import BlockWeights
from intact.reading import reading

MAGIC, VERSIONS, ALIGNMENT = b"GGUF", (2, 3), 32
_ALIGNMENT_KEY = "general.alignment"
_MOST_AXES = 4
Bytes = NDArray[np.uint8]
Tensor = BlockWeights | NDArray


@dataclass(frozen=True)
class GgufTensor:
    """Describes one tensor of a file.

    Attributes:
        kind: Its type.
        shape: The longest-lasting axis first, as NumPy has it: the reverse of the file's order.
        offset: Where its bytes begin in the file; 0 in files to be written.
    """

    kind: GgmlType
    shape: tuple[int, ...]
    offset: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return prod(self.shape) // self.kind.block_size * self.kind.nbytes


class GgufFile:
    """Reads a GGUF file; tensors come one by one from the mapped file.

    Args:
        path: The file.

    Attributes:
        version: 2 or 3.
        metadata: Every key with its `GgufField`, in the file's order.
        tensors: Every name with its `GgufTensor`, in the file's order.

    Raises:
        FileFormatError: The file is damaged, of another version, or in big-endian order.
        FileAccessError: It cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.where = f"file '{os.fspath(path)}'"
        with reading(path), Path(path).open("rb") as file:
            if os.fstat(file.fileno()).st_size < 24:
                raise FileFormatError(self.where, "fewer than 24 bytes", "a GGUF file", "fetch it again")
            self._file: MappedBytes | None = MappedBytes(file)
        cursor = GgufCursor(self._file.whole, self.where)
        self.version, tensors, entries = _head(cursor)
        self.metadata = _read_metadata(cursor, entries)
        self.alignment = _alignment(self.metadata, self.where)
        self.tensors = _read_tensors(cursor, tensors, self.alignment)

    def __enter__(self) -> GgufFile:
        return self

    def __exit__(self, *_: object) -> None:
        """Forget the mapping; arrays that were read stay valid, and keep the file mapped."""
        self._file = None

    def raw(self, name: str) -> Bytes:
        """Return the bytes of a tensor, uint8 [...], read-only; for blocks [..., blocks, nbytes].

        Raises:
            QuantValueError: The file has no such tensor.
        """
        tensor = self._tensor(name)
        if self._file is None:
            raise QuantValueError("tensor", f"'{name}' of a file that was closed", "an open one", "open it")
        flat = self._file.bytes_at(tensor.offset, tensor.nbytes)
        if tensor.kind.dtype is not None:
            return flat
        rows, blocks = tensor.shape[:-1], tensor.shape[-1] // tensor.kind.block_size
        return flat.reshape(*rows, blocks, tensor.kind.nbytes)

    def read(self, name: str) -> Tensor:
        """Return a tensor: `BlockWeights`, or an array of numbers in the file's own dtype, read-only.

        Raises:
            QuantValueError: The file has no such tensor.
            UnsupportedError: Its type has no codes and scales of its own, such as IQ2_XXS.
            FileFormatError: A scale is no number.
        """
        tensor, raw = self._tensor(name), self.raw(name)
        if tensor.kind.dtype is not None:
            return raw.view(tensor.kind.dtype).reshape(tensor.shape)
        codec = CODECS.get(tensor.kind.name)
        if codec is None:
            raise UnsupportedError(
                f"tensor '{name}'", f"type {tensor.kind.name}", ", ".join(CODECS),
                "read a file that was written in one of these types",
            )  # fmt: skip
        try:
            return codec.unpack(raw)
        except FileFormatError as error:
            raise error.at(f"{self.where}, tensor '{name}'") from error

    def _tensor(self, name: str) -> GgufTensor:
        if name not in self.tensors:
            raise QuantValueError(
                "tensor", f"'{name}'", f"one of the {len(self.tensors)} names in {self.where}", "see .tensors"
            )
        return self.tensors[name]


def write_gguf(
    path: str | os.PathLike[str],
    metadata: Mapping[str, GgufField],
    tensors: Mapping[str, GgufTensor],
    load: Callable[[str], Tensor | Bytes],
    *,
    version: int = 3,
) -> None:
    """Write a GGUF file, one tensor at a time; it appears whole or not at all.

    A file that is read and written with the same metadata and tensors has the same bytes again.

    Args:
        path: The file.
        metadata: Every key with its value.
        tensors: Every name with type and shape.
        load: Gives the tensor of a name when its turn comes: weights of just that grid, an array of that
            dtype, or the bytes.
        version: 2 or 3.

    Raises:
        QuantValueError: A tensor does not fit its type.
        FileAccessError: The system refuses something.
    """
    alignment = _alignment(metadata, f"file '{os.fspath(path)}'")
    with replacing(path) as file:
        file.write(MAGIC + struct.pack("<IQQ", version, len(tensors), len(metadata)))
        for name, field in metadata.items():
            file.write(_text(name) + struct.pack("<I", field.number) + field.raw)
        offset = 0
        for name, tensor in tensors.items():
            _check_shape(name, tensor)
            file.write(
                _text(name) + struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape[::-1])
            )
            file.write(struct.pack("<IQ", tensor.kind.number, offset))
            offset += -(-tensor.nbytes // alignment) * alignment
        file.write(bytes(-file.tell() % alignment))
        for name, tensor in tensors.items():
            raw = tensor_bytes(name, tensor, load(name))
            file.write(np.ascontiguousarray(raw).data)
            file.write(bytes(-tensor.nbytes % alignment))


def tensor_bytes(name: str, target: GgufTensor, tensor: Tensor | Bytes) -> Bytes:
    """Return the bytes of a tensor of the type that `target` says.

    Args:
        name: Of the tensor.
        target: Its type and shape in the file.
        tensor: Numbers, block weights, or bytes that are copied.
    Returns:
        uint8 [bytes].
    Raises:
        QuantValueError: The tensor is of another shape, dtype or grid.
    """
    kind = target.kind
    if isinstance(tensor, BlockWeights):
        codec = CODECS.get(kind.name)
        if codec is None or tensor.format != codec.format or tensor.shape != target.shape:
            raise _fit_error(name, target, f"{tensor.format} {list(tensor.shape)}")
        raw = codec.pack(tensor)
    elif kind.dtype is not None and tensor.dtype == kind.dtype and tensor.shape == target.shape:
        raw = np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)
    else:
        raw = tensor
    if raw.dtype != np.uint8 or raw.size != target.nbytes:
        raise _fit_error(name, target, f"{raw.dtype} {list(raw.shape)}")
    return raw


def _fit_error(name: str, target: GgufTensor, got: str) -> QuantValueError:
    return QuantValueError(
        f"tensor '{name}'",
        got,
        f"{target.kind.name} {list(target.shape)}",
        "give a tensor of that type and shape",
    )


def _text(name: str) -> bytes:
    return struct.pack("<Q", len(name.encode())) + name.encode()


def _check_shape(name: str, tensor: GgufTensor) -> None:
    if not 1 <= len(tensor.shape) <= _MOST_AXES or tensor.shape[-1] % tensor.kind.block_size:
        raise QuantValueError(
            f"tensor '{name}'", f"shape {list(tensor.shape)}",
            f"1 to {_MOST_AXES} axes, the last a multiple of {tensor.kind.block_size} for {tensor.kind.name}",
            "choose a type with smaller blocks",
        )  # fmt: skip


# -- the header of a file


def _head(cursor: GgufCursor) -> tuple[int, int, int]:
    if bytes(cursor.take(4)) != MAGIC:
        raise cursor.error("no 'GGUF' at the beginning", "a GGUF file")
    version = cursor.uint32()
    if version not in VERSIONS:
        big_endian = version & 0xFFFF == 0
        got = "big-endian numbers" if big_endian else f"version {version}"
        raise FileFormatError(
            cursor.where, got, "version 2 or 3, little-endian", "convert the file with llama.cpp's tools"
        )
    return version, cursor.count(24), cursor.count(13)


def _read_metadata(cursor: GgufCursor, count: int) -> dict[str, GgufField]:
    METADATA_ENTRIES.check(count, cursor.where)
    metadata: dict[str, GgufField] = {}
    for _ in range(count):
        key = cursor.string()
        if key in metadata:
            raise cursor.error(f"the key {key!r:.60} again", "every key once")
        metadata[key] = read_field(cursor)
    return metadata


def _alignment(metadata: Mapping[str, GgufField], where: str) -> int:
    field = metadata.get(_ALIGNMENT_KEY)
    if field is None:
        return ALIGNMENT
    value = field.value if field.kind == "uint32" else None
    if not isinstance(value, int) or not 0 < value <= 2**20 or value & (value - 1):
        raise FileFormatError(
            where,
            f"{_ALIGNMENT_KEY} {value!r:.40}",
            "a uint32 that is a power of 2, at most 2^20",
            "fetch it again",
        )
    return value


def _read_tensors(cursor: GgufCursor, count: int, alignment: int) -> dict[str, GgufTensor]:
    METADATA_ENTRIES.check(count, cursor.where)
    entries = dict(_tensor_entries(cursor, count))
    if len(entries) != count:
        raise cursor.error("a name of a tensor again", "every name once")
    base, offset = -(-cursor.position // alignment) * alignment, 0
    tensors = {}
    for name, tensor in entries.items():
        where = f"tensor '{name:.80}'"
        if tensor.offset != offset:
            raise cursor.error(f"{where} at {tensor.offset}", f"{offset}, behind the one before it")
        if base + offset + tensor.nbytes > len(cursor.data):
            raise cursor.error(f"{where} of {tensor.nbytes:,} bytes beyond the end", "a whole file")
        tensors[name] = GgufTensor(tensor.kind, tensor.shape, base + offset)
        offset += -(-tensor.nbytes // alignment) * alignment
    return tensors


def _tensor_entries(cursor: GgufCursor, count: int) -> Iterator[tuple[str, GgufTensor]]:
    for _ in range(count):
        name, axes = cursor.string(), cursor.uint32()
        if not 1 <= axes <= _MOST_AXES:
            raise cursor.error(f"{axes} axes", f"1 to {_MOST_AXES}")
        shape = tuple(cursor.uint64() for _ in range(axes))[::-1]
        TENSOR_ELEMENTS.check(_elements(shape), f"{cursor.where}, tensor '{name:.80}'")
        number = cursor.uint32()
        kind = TYPE_OF_NUMBER.get(number)
        if kind is None:
            raise cursor.error(f"a tensor of type {number}", f"one of {', '.join(GGML_TYPES)}")
        if shape[-1] % kind.block_size:
            raise cursor.error(f"{kind.name} of {shape[-1]} columns", f"a multiple of {kind.block_size}")
        yield name, GgufTensor(kind, shape, cursor.uint64())


def _elements(shape: Sequence[int]) -> int:
    """Count elements, axes of size 0 as 1, so that no size is hidden by another."""
    return prod(max(size, 1) for size in shape)
