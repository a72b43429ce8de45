"""Building blocks of float32 functions that have the same bits on every machine. NORMATIVE.

The functions of this folder are made of single float32 operations, in the order written, each rounded by
itself. They call no library function whose last bits depend on the machine. Polynomials are minimax fits with
coefficients in float32, and are evaluated in pairs (Estrin's scheme). A NaN gives a NaN, and no float32
number raises. An error that a docstring states is against the exact function; a test holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.grids.affine import to_float32

Reals = NDArray[np.float32]
Function = Callable[[ArrayLike], Reals]
ONE, TWO, HALF = np.float32(1), np.float32(2), np.float32(0.5)
# Added to a float32 below 2^22 in magnitude, this rounds it to an integer, ties to even. The low bits of the
# sum are that integer.
ROUNDER = np.float32(1.5 * 2**23)
ROUNDER_BITS = np.int32(0x4B400000)


def float_function(formula: Callable[[Reals], Reals]) -> Function:
    """Wrap a function of float32 to accept any real array, return float32 and ignore overflow."""

    @wraps(formula)
    def evaluate(x: ArrayLike) -> Reals:
        with np.errstate(all="ignore"):
            return np.asarray(formula(to_float32(x)), np.float32)

    _DEFINED.add(evaluate)
    return evaluate


_DEFINED = set[Function]()


def is_float_function(value: object) -> bool:
    """Return whether a value was made by `float_function`."""
    return callable(value) and value in _DEFINED


@float_function
def sqrt(x: Reals) -> Reals:
    """Compute the square root, correctly rounded as IEEE 754 wants it."""
    return np.asarray(np.sqrt(x))


def polynomial(coefficients: Sequence[np.float32 | Reals], x: Reals) -> Reals:
    """Compute ``c0 + c1 x + ...`` by Estrin's scheme: ``high * x + low`` of pairs, then of pairs of pairs
    with x^2.

    The chains of dependent operations are shorter than Horner's, which vector units need.

    Args:
        coefficients: From the lowest power on.
        x: float32.
    """
    terms = list(coefficients)
    while len(terms) > 1:
        pairs = [high * x + low for low, high in zip(terms[::2], terms[1::2], strict=False)]
        terms = [*pairs, *terms[2 * len(pairs) :]]
        x = x * x
    return np.asarray(terms[0])


def integer_of_bits(shifted: Reals) -> NDArray[np.int32]:
    """Extract the integer in the low bits of ``x + ROUNDER``."""
    return np.asarray(shifted).view(np.int32) - ROUNDER_BITS


def power_of_two(n: NDArray[np.int32]) -> Reals:
    """Compute 2^n of -126 <= n <= 127, made from its bits."""
    return np.asarray((n + np.int32(127)) << 23).view(np.float32)


def at_least(x: Reals, low: np.float32) -> Reals:
    """Compute low where ``x < low``, else x; a NaN stays."""
    return np.where(x < low, low, x)


def at_most(x: Reals, high: np.float32) -> Reals:
    """Compute high where ``x > high``, else x; a NaN stays."""
    return np.where(x > high, high, x)
