"""Frozen records to JSON values and back, driven by their dataclass fields: one rule for every record.

Reading is strict: a value must have exactly the declared type, an object exactly the declared fields. What
comes out is what the constructor's annotations promise, whoever wrote the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from intact.errors import FileFormatError

_LARGEST = 2**62  # of an integer: native code adds and multiplies a few of them in 64 bits
_FIX = "restore the file from its source, or build it again"


def encode(value: Any) -> Any:
    """`value` as `json.dumps` takes it: records become objects, tuples lists, NumPy scalars numbers."""
    if is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        plain = {name: _encode_field(hint, getattr(value, name)) for name, hint in hints.items()}
        kind = getattr(value, "kind", None)
        return plain if kind is None else {"kind": kind, **plain}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _encode_field(hint: Any, value: Any) -> Any:
    """A real number is written as one, even where a record was given an integer."""
    plain = encode(value)
    real = hint is float or (float in get_args(hint) and int not in get_args(hint))
    return float(plain) if real and plain is not None else plain


def decode(kind: Any, value: Any, where: str) -> Any:
    """`value`, as it came out of JSON, as a `kind`: a record, a tuple, a union, a literal or a plain type.

    Raises:
        FileFormatError: It is something else; names `where`, the place in the text.
    """
    origin, options = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _record(kind, value, where)
    if origin is tuple:
        return _tuple(options, value, where)
    if origin in (Union, UnionType):
        return _union(options, value, where)
    if origin is Literal:
        if value in options and type(value) is type(options[options.index(value)]):
            return value
    elif type(value) is kind and _in_range(value):
        return value
    raise unexpected(where, value, _said(kind))


def unexpected(where: str, value: Any, want: str) -> FileFormatError:
    """The error for a `value` that stands where something else should."""
    return FileFormatError(where, f"{value!r:.60}", want, _FIX)


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar}


def _record(kind: Any, value: Any, where: str) -> Any:
    hints = _hints(kind)
    if not isinstance(value, dict) or value.keys() != hints.keys():
        raise unexpected(where, value, f"an object with the fields {', '.join(hints)}")
    return kind(**{name: decode(hint, value[name], f"{where}.{name}") for name, hint in hints.items()})


def _tuple(options: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise unexpected(where, value, "a list")
    if options[-1] is Ellipsis:
        options = options[:1] * len(value)
    if len(options) != len(value):
        raise unexpected(where, value, f"{len(options)} entries")
    return tuple(
        decode(o, item, f"{where}[{i}]") for i, (o, item) in enumerate(zip(options, value, strict=True))
    )


def _union(options: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in options:
        return None
    rest = [option for option in options if option is not type(None)]
    # At most one option of a union is not a plain type: that one explains best what is wrong.
    for option in rest[:-1]:
        if type(value) is option:
            return decode(option, value, where)
    return decode(rest[-1], value, where)


def _in_range(value: Any) -> bool:
    if isinstance(value, float):
        return bool(np.isfinite(value))
    return not isinstance(value, int) or -_LARGEST < value < _LARGEST


def _said(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(repr, get_args(kind)))}"
    return {str: "text", int: "an integer", float: "a finite number with a decimal point"}.get(
        kind, getattr(kind, "__name__", str(kind))
    )
