"""JSON that every client reads alike: no NaN, no infinity, no half of a surrogate pair, no name twice."""

from __future__ import annotations

import json
from collections import Counter
from math import isfinite
from typing import Any

_DEEPEST = 128  # values inside each other


def parse_strict(text: str | bytes) -> Any:
    """Return the value of a text of strict JSON.

    Raises:
        ValueError: It is none: damaged, with NaN, a number beyond float64, an integer of more than 4,300
            digits, half of a surrogate pair, a name twice in one object, or nested too deep.
    """
    try:
        value = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_parse_float, parse_int=_parse_int,
            object_pairs_hook=_parse_object,
        )  # fmt: skip
        _check_values(value)
    except RecursionError as error:
        raise ValueError("values nested too deep") from error
    return value


def encode_strict(value: Any) -> bytes:
    """Return strict JSON in ASCII.

    Raises:
        ValueError: A number is NaN or infinite.
    """
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()


def _check_values(value: Any) -> None:
    """Refuse half surrogates and depth, without recursion."""
    depth, layer = 0, [value]
    while layer:
        depth += 1
        inner: list[Any] = []
        for part in layer:
            if isinstance(part, str):
                part.encode()  # UnicodeEncodeError is a ValueError
            elif isinstance(part, dict):
                inner += [*part, *part.values()]
            elif isinstance(part, list):
                inner += part
        if depth > _DEEPEST:
            raise ValueError("values nested too deep")
        layer = inner


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _parse_float(text: str) -> float:
    if not isfinite(value := float(text)):
        raise ValueError(f"{text[:40]} is beyond float64")
    return value


def _parse_int(text: str) -> int:
    value = int(text)
    try:
        float(value)
    except OverflowError as error:
        raise ValueError("an integer beyond float64") from error
    return value


def _parse_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"'{twice[:80]}' stands twice in one object")
    return record
