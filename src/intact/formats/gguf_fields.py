"""The metadata of GGUF files: typed values that are written back byte for byte.

Source: the GGUF specification of ggml, versions 2 and 3.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from intact.errors import FileFormatError, QuantValueError
from intact.limits import METADATA_ENTRIES

Value = bool | int | float | str
STRING, ARRAY = 8, 9
_NUMBERS = {
    "uint8": (0, "<u1"), "int8": (1, "<i1"), "uint16": (2, "<u2"), "int16": (3, "<i2"), "uint32": (4, "<u4"),
    "int32": (5, "<i4"), "float32": (6, "<f4"), "bool": (7, "<u1"), "uint64": (10, "<u8"),
    "int64": (11, "<i8"), "float64": (12, "<f8"),
}  # fmt: skip
_NAMES = {number: name for name, (number, _) in _NUMBERS.items()} | {STRING: "string"}
_DTYPES = {number: np.dtype(dtype) for number, dtype in _NUMBERS.values()}
_BOOL = 7
_STRUCTS = dict(zip(_NUMBERS, "BbHhIif?Qqd", strict=True))


class GgufCursor:
    """Reads a GGUF header from its bytes, and refuses what lies beyond the end.

    Args:
        data: The whole file.
        where: How errors name it.
    """

    def __init__(self, data: memoryview, where: str) -> None:
        self.data, self.where, self.position = data, where, 0

    def error(self, got: str, want: str) -> FileFormatError:
        """Build an error that names the file and the position."""
        return FileFormatError(
            f"{self.where}, byte {self.position}", got, want, "the file is damaged, or no GGUF file"
        )

    def take(self, size: int) -> memoryview:
        """Return the next bytes.

        Raises:
            FileFormatError: There are fewer.
        """
        if size > len(self.data) - self.position:
            raise self.error(f"{size:,} bytes beyond the end", f"at most {len(self.data) - self.position:,}")
        self.position += size
        return self.data[self.position - size : self.position]

    def uint32(self) -> int:
        """Return the next unsigned integer of 4 bytes. Errors as for `take`."""
        return int(struct.unpack("<I", self.take(4))[0])

    def uint64(self) -> int:
        """Return the next unsigned integer of 8 bytes. Errors as for `take`."""
        return int(struct.unpack("<Q", self.take(8))[0])

    def strings(self, count: int) -> list[str]:
        """Return the next strings. Errors as for `string`."""
        data, position, end, texts = self.data, self.position, len(self.data), list[str]()
        read_size = struct.Struct("<Q").unpack_from
        for _ in range(count):
            start = position + 8
            stop = start + read_size(data, position)[0] if start <= end else end + 1
            if stop > end:
                self.position = position
                self.string()  # raises
            try:
                texts.append(str(data[start:stop], "utf-8"))
            except UnicodeDecodeError:
                self.position = position
                self.string()  # raises
            position = stop
        self.position = position
        return texts

    def string(self) -> str:
        """Return the next string.

        Raises:
            FileFormatError: It is longer than the file, or no UTF-8.
        """
        text = bytes(self.take(self.uint64()))
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            raise self.error("bytes that are no UTF-8", "text") from error

    def count(self, least: int) -> int:
        """Return the next count of things of at least `least` bytes each.

        Raises:
            FileFormatError: More than the rest of the file holds.
        """
        number = self.uint64()
        if number > (len(self.data) - self.position) // least:
            raise self.error(f"{number:,} entries", "as many as the file has room for")
        return number


@dataclass(frozen=True)
class GgufField:
    """Holds one value of the metadata as the file stores it.

    Attributes:
        kind: "uint8" ... "float64", "bool", "string" or "array".
        raw: The bytes behind the number of the kind.
    """

    kind: str
    raw: bytes

    @classmethod
    def of(cls, kind: str, value: Value | Sequence[Value]) -> GgufField:
        """Build a field; a list or tuple becomes an array of `kind`.

        Args:
            kind: GGUF's name of the type of a value.
            value: One value, or a sequence.
        Raises:
            QuantValueError: There is no such kind, or it does not hold the value.
        """
        if isinstance(value, list | tuple):
            number = STRING if kind == "string" else _NUMBERS.get(kind, (-1, ""))[0]
            if number < 0:
                raise _value_error(kind, value)
            return cls(
                "array", struct.pack("<IQ", number, len(value)) + b"".join(_raw(kind, v) for v in value)
            )
        return cls(kind, _raw(kind, value))

    @property
    def value(self) -> Value | list[Value]:
        """The value in Python: a number, a bool, text, or a list of these."""
        cursor = GgufCursor(memoryview(self.raw), "the metadata")
        return _value(cursor, ARRAY if self.kind == "array" else _number(self.kind))

    @property
    def number(self) -> int:
        """The number of the kind in files."""
        return ARRAY if self.kind == "array" else _number(self.kind)


def read_field(cursor: GgufCursor) -> GgufField:
    """Read one value: the number of its kind, and as many bytes as it takes.

    Raises:
        FileFormatError: The kind is none, an array holds arrays or more strings than the limit, or the bytes
            are beyond the end.
    """
    number = cursor.uint32()
    begin = cursor.position
    if number == ARRAY:
        _skip_array(cursor)
        return GgufField("array", bytes(cursor.data[begin : cursor.position]))
    _skip(cursor, number)
    return GgufField(_NAMES[number], bytes(cursor.data[begin : cursor.position]))


def _skip(cursor: GgufCursor, number: int) -> None:
    if number == STRING:
        cursor.string()
    elif number not in _DTYPES:
        raise cursor.error(f"a value of kind {number}", "one of the kinds 0 to 12")
    elif number == _BOOL:
        _check_bools(cursor, bytes(cursor.take(1)))
    else:
        cursor.take(_DTYPES[number].itemsize)


def _skip_array(cursor: GgufCursor) -> None:
    number = cursor.uint32()
    if number == STRING:
        count = cursor.count(8)
        METADATA_ENTRIES.check(count, cursor.where)
        for _ in range(count):
            cursor.string()
        return
    if number not in _DTYPES:
        raise cursor.error(f"an array of kind {number}", "an array of numbers or strings")
    size = _DTYPES[number].itemsize
    array = bytes(cursor.take(cursor.count(size) * size))
    if number == _BOOL:
        _check_bools(cursor, array)


def _check_bools(cursor: GgufCursor, array: bytes) -> None:
    if array.strip(b"\0\1"):
        raise cursor.error("a bool that is neither 0 nor 1", "0 or 1")


def _value(cursor: GgufCursor, number: int) -> Value | list[Value]:
    if number == STRING:
        return cursor.string()
    if number != ARRAY:
        return _python(cursor, number, 1)[0]
    number = cursor.uint32()
    count = cursor.uint64()
    return [*cursor.strings(count)] if number == STRING else _python(cursor, number, count)


def _python(cursor: GgufCursor, number: int, count: int) -> list[Value]:
    dtype = _DTYPES[number]
    values = np.frombuffer(cursor.take(count * dtype.itemsize), dtype)
    listed: list[Value] = (values.astype(bool) if number == _BOOL else values).tolist()
    return listed


def _number(kind: str) -> int:
    return STRING if kind == "string" else _NUMBERS[kind][0]


def _raw(kind: str, value: object) -> bytes:
    if kind == "string" and isinstance(value, str):
        text = value.encode()
        return struct.pack("<Q", len(text)) + text
    fits = isinstance(value, bool) if kind == "bool" else isinstance(value, int | float)
    if kind not in _NUMBERS or not fits:
        raise _value_error(kind, value)
    try:
        return struct.pack("<" + _STRUCTS[kind], value)
    except (struct.error, OverflowError) as error:
        raise _value_error(kind, value) from error


def _value_error(kind: str, value: object) -> QuantValueError:
    kinds = ", ".join([*_NUMBERS, "string"])
    return QuantValueError(
        f"metadata of kind '{kind}'", f"{value!r:.60}", f"a value of one of {kinds}", "change one"
    )
