"""Sizes of a plan: numbers, names of free sizes, and expressions of these.

An expression is text, so that it stands wherever a name may stand, in ONNX files too: "=" and JSON, such as
``=["*", "batch", 12]``. Numbers are whole. "/" rounds towards zero as ONNX's Div does, and "mod" has the
sign of the divisor, as its Mod.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

from intact.errors import QuantValueError

Dim = int | str
"""A size; the name of one that the first run with it fixes, such as "batch"; or an expression of names."""

_LARGEST = 2**62  # as in plan files
_LONGEST = 2_000  # characters of an expression


def _quotient(a: int, b: int) -> int | None:
    if not b:
        return None
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_FUNCTIONS: dict[str, Callable[[int, int], int | None]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": _quotient,
    "mod": lambda a, b: a % b if b else None, "max": max, "min": min,
    "broadcast": lambda a, b: a if b == 1 else b,
}  # fmt: skip


def expression(function: str, a: Dim, b: Dim) -> Dim | None:
    """Return a function of two sizes, simplified.

    Of "+", "-", "*", "/", "mod", "max", "min", and the size that both broadcast to.

    Args:
        function: "+", "-", "*", "/", "mod", "max", "min" or "broadcast".
        a, b: Sizes.
    Returns:
        A number, a name or an expression; None where it would divide by zero, or grow too long.
    """
    if isinstance(a, int) and isinstance(b, int):
        return _FUNCTIONS[function](a, b)
    if function in ("+", "*") and isinstance(a, int):
        a, b = b, a  # numbers stand last
    if (function, b) in (("+", 0), ("-", 0), ("*", 1), ("/", 1)) or (
        function in ("max", "min", "broadcast") and a == b
    ):
        return a
    if function == "-" and isinstance(b, int):
        return expression("+", a, -b)
    if function == "-" and a == b:
        return 0
    tree = _tree(a)
    chained = isinstance(tree, tuple) and tree[0] == function and function in ("+", "*")
    if chained and isinstance(b, int) and isinstance(tree[2], int):
        return expression(function, _text(tree[1]), _FUNCTIONS[function](tree[2], b) or 0)
    if function == "/" and isinstance(tree, tuple) and tree[0] == "*" and b in map(_text, tree[1:]):
        return _text(
            tree[2] if _text(tree[1]) == b else tree[1]
        )  # exact, whatever the sizes: none is negative
    if function == "broadcast":
        if _is_bounded(a, b):
            return b
        if _is_bounded(b, a):
            return a
    text = _text((function, tree, _tree(b)))
    return text if isinstance(text, int) or len(text) <= _LONGEST else None


def _is_bounded(a: Dim, b: Dim) -> bool:
    """Return whether a is ``min(b, n)`` with n above 1, so that it equals b where both broadcast."""
    tree = _tree(a)
    if not isinstance(tree, tuple) or tree[0] != "min":
        return False
    rest = [part for part in tree[1:] if part != _tree(b)]
    return len(rest) == 1 and isinstance(rest[0], int) and rest[0] > 1


def value_of(dim: Dim, sizes: Mapping[str, int]) -> int | None:
    """Evaluate a size; None where a name in it is not known, or it is beyond any tensor's.

    Args:
        dim: The size.
        sizes: What free sizes turned out to be, by name.
    """
    if isinstance(dim, int):
        return dim
    value = sizes.get(dim)
    return _compute(_tree(dim), sizes) if value is None and dim.startswith("=") else value


def values_of(dims: Iterable[Dim], sizes: Mapping[str, int], where: str) -> tuple[int, ...]:
    """Evaluate sizes.

    Raises:
        QuantValueError: One is not known; names `where`.
    """
    values = list[int]()
    for dim in dims:
        if (value := value_of(dim, sizes)) is None:
            raise QuantValueError(
                where, f"the size {dim}", "sizes that the plan's inputs tell",
                "give inputs of the shapes that the model was made for",
            )  # fmt: skip
        values.append(value)
    return tuple(values)


@lru_cache(maxsize=4096)
def names_in(dim: Dim) -> frozenset[str]:
    """Return the names of free sizes in a size: none of a number, itself of a name."""
    return frozenset(_names(_tree(dim)))


def is_never_negative(dim: Dim) -> bool:
    """Return whether a size is certainly 0 or more, whatever the free ones are."""
    return _is_never_negative(_tree(dim))


def _is_never_negative(tree: Any) -> bool:
    if isinstance(tree, int):
        return tree >= 0
    if isinstance(tree, str):
        return True
    if tree[0] == "mod":
        return _is_never_negative(tree[2])
    test = any if tree[0] == "max" else all
    return tree[0] != "-" and test(map(_is_never_negative, tree[1:]))


def _compute(tree: Any, sizes: Mapping[str, int]) -> int | None:
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return sizes.get(tree)
    a, b = _compute(tree[1], sizes), _compute(tree[2], sizes)
    value = None if a is None or b is None else _FUNCTIONS[tree[0]](a, b)
    return value if value is not None and abs(value) < _LARGEST else None


def _names(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, tuple):
        for part in tree[1:]:
            yield from _names(part)


@lru_cache(maxsize=4096)
def _tree(dim: Dim) -> Any:
    """Parse a size into (function, a, b), of which a and b are such again, names or numbers."""
    if isinstance(dim, str) and dim.startswith("=[") and len(dim) <= _LONGEST:
        try:
            return _check(json.loads(dim[1:]))
        except (ValueError, RecursionError):
            pass
    return dim


def _check(parsed: Any) -> Any:
    if isinstance(parsed, list) and len(parsed) == 3 and parsed[0] in _FUNCTIONS:
        return parsed[0], _check(parsed[1]), _check(parsed[2])
    if type(parsed) is str and parsed and not parsed.startswith("="):
        return parsed
    if type(parsed) is int and abs(parsed) < _LARGEST:
        return parsed
    raise ValueError(parsed)


@cache
def _text(tree: Any) -> Dim:
    if not isinstance(tree, tuple):
        return tree  # type: ignore[no-any-return]
    return "=" + json.dumps(tree, separators=(",", ":"))
