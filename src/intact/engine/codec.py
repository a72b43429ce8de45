"""Encode frozen records as JSON values and decode them, as their dataclass fields tell.

A field whose name in files is another than in code says it: ``field(metadata={"key": "ending"})``.

Reading is strict: a value must have exactly the declared type, an object exactly the declared fields. What
comes out is what the constructor's annotations promise, whoever wrote the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from math import isfinite
from types import UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from intact.errors import FileFormatError

_LARGEST = 2**62  # of an integer: native code adds and multiplies a few of them in 64 bits
_FIX = "restore the file from its source, or build it again"


def encode(value: Any) -> Any:
    """Convert `value` to types of `json.dumps`: records become objects, tuples lists, NumPy scalars
    numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        keys = _keys(type(value))
        plain = {keys[name]: _encode_field(hint, getattr(value, name)) for name, hint in hints.items()}
        kind = getattr(value, "kind", None)
        return plain if kind is None else {"kind": kind, **plain}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _encode_field(hint: Any, value: Any) -> Any:
    """Encode a field; one declared as a float is written as a float, even where it holds an integer."""
    plain = encode(value)
    real = hint is float or (float in get_args(hint) and int not in get_args(hint))
    return float(plain) if real and plain is not None else plain


def decode(kind: Any, value: Any, where: str) -> Any:
    """Convert JSON to a `kind`: a record, a tuple, a union, a literal or a plain type.

    Raises:
        FileFormatError: It is something else; names `where` and the place below it.
    """
    try:
        return _reader(kind)(value)
    except FileFormatError as error:
        raise FileFormatError(where + error.where, error.got, error.want, error.fix) from error


def format_error(where: str, value: Any, want: str) -> FileFormatError:
    """Return the error for a `value` of another type or form than the format wants."""
    return FileFormatError(where, f"{value!r:.60}", want, _FIX)


Reader = Callable[[Any], Any]


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar}


@cache
def _keys(kind: Any) -> Mapping[str, str]:
    """Return the key in a file for each field of a record."""
    return {entry.name: entry.metadata.get("key", entry.name) for entry in fields(kind)}


@cache
def _reader(kind: Any) -> Reader:
    """Return the function that reads a `kind`. It is cached, because a plan has thousands of values."""
    origin, options = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _record(kind)
    if origin is tuple:
        return _list(_reader(options[0])) if options[-1] is Ellipsis else _entries([*map(_reader, options)])
    if origin in (Union, UnionType):
        return _union(options)
    if origin is Literal:
        return _literal(options)
    return _plain(kind)


def _record(kind: Any) -> Reader:
    names = {key: name for name, key in _keys(kind).items()}
    readers = {key: _reader(_hints(kind)[name]) for key, name in names.items()}

    def read(value: Any) -> Any:
        if not isinstance(value, dict) or value.keys() != readers.keys():
            raise format_error("", value, f"an object with the fields {', '.join(readers)}")
        items = {}
        for key, reader in readers.items():
            try:
                items[names[key]] = reader(value[key])
            except FileFormatError as error:
                raise _below(f".{key}", error) from error
        return kind(**items)

    return read


def _list(reader: Reader) -> Reader:
    def read(value: Any) -> Any:
        return _entries([reader] * len(value) if isinstance(value, list) else [])(value)

    return read


def _entries(readers: Sequence[Reader]) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(readers):
            raise format_error("", value, f"{len(readers)} entries" if isinstance(value, list) else "a list")
        items = []
        for reader, item in zip(readers, value, strict=True):
            try:
                items.append(reader(item))
            except FileFormatError as error:
                raise _below(f"[{len(items)}]", error) from error
        return tuple(items)

    return read


def _union(options: tuple[Any, ...]) -> Reader:
    """Return the reader of a union.

    At most one option is no plain type: its error explains best what is wrong.
    """
    rest = [option for option in options if option is not type(None)]
    plain = {option: _reader(option) for option in rest[:-1]}
    optional, last = len(rest) < len(options), _reader(rest[-1])

    def read(value: Any) -> Any:
        if value is None and optional:
            return None
        return plain.get(type(value), last)(value)

    return read


def _literal(options: tuple[Any, ...]) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is str and value in options:
            return value
        raise format_error("", value, f"one of {', '.join(map(repr, options))}")

    return read


def _plain(kind: type) -> Reader:
    want, within = _PLAIN[kind]

    def read(value: Any) -> Any:
        if type(value) is kind and within(value):
            return value
        raise format_error("", value, want)

    return read


_PLAIN: dict[type, tuple[str, Callable[[Any], bool]]] = {
    str: ("text", lambda value: True),
    bool: ("true or false", lambda value: True),
    int: ("an integer", lambda value: -_LARGEST < value < _LARGEST),
    float: ("a finite number with a decimal point", isfinite),
}


def _below(place: str, error: FileFormatError) -> FileFormatError:
    return FileFormatError(place + error.where, error.got, error.want, error.fix)
