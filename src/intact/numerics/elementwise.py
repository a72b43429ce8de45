"""Comparisons, logic, choices, casts and arithmetic of integers, element by element. NORMATIVE.

What ONNX leaves open is fixed here: casts of numbers that do not fit, quotients by 0 (N53).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
INTEGERS = frozenset({"int32", "int64"})
CASTS = frozenset({"uint8", "int8", "bool", "int32", "int64", "float32", "float64"})
"""dtypes from and to which numbers are cast; float16 from and to float32 alone."""
_ORDERED_DTYPES = frozenset({"uint8", "int8", "int32", "int64", "float32", "float64"})
_BOOL, _FLOAT, _FLOAT64 = frozenset({"bool"}), frozenset({"float32"}), frozenset({"float64"})
_NUMBERS = INTEGERS | _FLOAT64


@dataclass(frozen=True)
class Operation:
    """An entry of `ELEMENTWISE`.

    Attributes:
        operands: The number of operands.
        types: dtypes of the operands, which all have the same one; None: any.
        makes: The dtype of the output; "": that of the operands.
        compute: The function, on arrays that broadcast.
    """

    operands: int
    types: frozenset[str] | None
    makes: str
    compute: Callable[..., Array]


def elementwise(name: str, operands: Sequence[Array], dtype: str) -> Array:
    """Apply an operation of `ELEMENTWISE` to arrays that broadcast (N53).

    Args:
        name: A key of `ELEMENTWISE`; `takes` says which dtypes it has.
        operands: As many arrays as the operation has operands.
        dtype: The dtype of the result.
    Returns:
        `dtype`, the shapes broadcast together.
    """
    if name == "cast":
        return cast(operands[0], dtype)
    with np.errstate(all="ignore"):
        return np.asarray(ELEMENTWISE[name].compute(*operands), dtype)


def takes(name: str, operands: Sequence[str], result: str) -> bool:
    """Return whether an operation accepts these dtypes of operands and this dtype of its result."""
    operation = ELEMENTWISE.get(name)
    if operation is None or len(operands) != operation.operands:
        return False
    if name == "cast":
        return {*operands, result} <= CASTS or {*operands, result} == {"float16", "float32"}
    condition, values = (operands[:1], operands[1:]) if name == "where" else ((), operands)
    is_alike = len(set(values)) == 1 and set(condition) <= _BOOL
    has_dtype = operation.types is None or values[0] in operation.types
    return is_alike and has_dtype and result == (operation.makes or values[0])


def cast(x: Array, dtype: str) -> Array:
    """Convert x to another dtype of `CASTS`.

    An integer keeps its lower bits. A float becomes an integer by truncation, saturates at the ends of the
    dtype, and a NaN becomes 0. A cast to float32 rounds to nearest, ties to even. A bool is ``x != 0``.
    """
    if dtype == "bool":
        return np.asarray(x != 0)
    if x.dtype.kind != "f" or np.dtype(dtype).kind == "f":
        with np.errstate(over="ignore"):
            return x.astype(dtype)
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    whole = np.trunc(np.where(np.isnan(x), 0, x).astype(np.float64))
    above, below = (
        whole >= float(high + 1),
        whole < float(low),
    )  # powers of two are float64, their neighbours not
    inside = np.where(above | below, 0, whole).astype(dtype)
    return np.where(above, high, np.where(below, low, inside)).astype(dtype)


def exp64(x: Array) -> Array:
    """Compute e^x of float64: 2^k for the whole part k of x / ln 2, times Taylor's polynomial of the rest.

    Each operation is rounded by itself, so that every machine has the same bits.

    Source: Cody, Waite, "Software Manual for the Elementary Functions", 1980; Taylor's terms up to 13.

    Rule N53.
    """
    finite = np.clip(np.where(np.isnan(x), 0, x), -760, 720)
    k = np.rint(finite * float.fromhex("0x1.71547652b82fep+0"))
    r = (finite - k * float.fromhex("0x1.62e42feep-1")) - k * float.fromhex("0x1.a39ef35793c76p-33")
    y = np.full(x.shape, _TERMS[0])
    for term in _TERMS[1:]:
        y = y * r + term
    half = np.floor(k * 0.5)
    with np.errstate(over="ignore", under="ignore"):
        y = np.ldexp(np.ldexp(y, half.astype(int)), (k - half).astype(int))
    return np.asarray(np.where(np.isnan(x), x, y))


_TERMS = [1 / factorial(n) for n in range(13, -1, -1)]


def _quotient(a: Array, b: Array) -> Array:
    """Divide floats with rounding, and integers towards zero, wrapped around; the quotient by 0 is 0."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    safe = np.where((b == 0) | (b == -1), 1, b).astype(a.dtype)
    floor = np.floor_divide(a, safe)
    towards_zero = floor + ((np.remainder(a, safe) != 0) & ((a < 0) != (safe < 0)))
    return np.where(b == 0, 0, np.where(b == -1, np.negative(a), towards_zero))


def _remainder(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Return `function`, but 0 for the divisors 0 and -1, for which a machine traps or overflows."""

    def remainder(a: Array, b: Array) -> Array:
        is_zero = (b == 0) | (b == -1)
        return np.where(is_zero, 0, function(a, np.where(is_zero, 1, b).astype(a.dtype)))

    return remainder


ELEMENTWISE: dict[str, Operation] = {
    "abs": Operation(1, INTEGERS, "", np.abs),
    "add": Operation(2, _NUMBERS, "", np.add),
    "and": Operation(2, _BOOL, "bool", np.logical_and),
    "bitwise_and": Operation(2, INTEGERS, "", np.bitwise_and),
    "cast": Operation(1, CASTS, "", cast),
    "ceil": Operation(1, _FLOAT, "", np.ceil),
    "div": Operation(2, _NUMBERS, "", _quotient),
    "equal": Operation(2, _ORDERED_DTYPES | _BOOL, "bool", np.equal),
    "exp": Operation(1, _FLOAT64, "", exp64),
    "floor": Operation(1, _FLOAT, "", np.floor),
    "fmod": Operation(2, INTEGERS, "", _remainder(np.fmod)),
    "greater": Operation(2, _ORDERED_DTYPES, "bool", np.greater),
    "greater_or_equal": Operation(2, _ORDERED_DTYPES, "bool", np.greater_equal),
    "is_inf": Operation(1, _FLOAT, "bool", np.isinf),
    "is_nan": Operation(1, _FLOAT, "bool", np.isnan),
    "is_neg_inf": Operation(1, _FLOAT, "bool", np.isneginf),
    "is_pos_inf": Operation(1, _FLOAT, "bool", np.isposinf),
    "less": Operation(2, _ORDERED_DTYPES, "bool", np.less),
    "less_or_equal": Operation(2, _ORDERED_DTYPES, "bool", np.less_equal),
    "max": Operation(2, _NUMBERS, "", np.maximum),
    "min": Operation(2, _NUMBERS, "", np.minimum),
    "mod": Operation(2, INTEGERS, "", _remainder(np.remainder)),
    "mul": Operation(2, _NUMBERS, "", np.multiply),
    "neg": Operation(1, INTEGERS, "", np.negative),
    "not": Operation(1, _BOOL, "bool", np.logical_not),
    "or": Operation(2, _BOOL, "bool", np.logical_or),
    "round": Operation(1, _FLOAT, "", np.rint),
    "sub": Operation(2, _NUMBERS, "", np.subtract),
    "where": Operation(3, None, "", np.where),
    "xor": Operation(2, _BOOL, "bool", np.logical_xor),
}
"""By name. "mod" has the sign of the divisor, "fmod" that of the dividend; "round" ties to even.

Rule N53.
"""
