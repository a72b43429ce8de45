"""Arithmetic with sizes in floats, as exporters write ``int(height / 14)`` and ``floor(width * 0.5)``."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isfinite

from intact.engine.lower.passes.size_walk import Size, compute_size
from intact.engine.steps import Dim
from intact.engine.steps.base.dims import is_never_negative

_MOST_OF_FACTOR = 2**8  # the numerator of a float that sizes are multiplied by
_MOST_EXACT = 2**24  # whole numbers that float32 holds


@dataclass(frozen=True)
class Quotient:
    """A size over a whole number. No plan holds one: it waits for the Floor, Ceil or Cast behind it.

    Float32 rounds ``size / divisor`` to a whole number only where it is one, as long as the size is below
    2**24: others are off by ``1 / divisor`` at least, more than half a unit in the last place. Where the
    divisor is a power of two the quotient is exact, and further arithmetic is as well.
    """

    size: Dim
    divisor: int


Number = Size | Quotient


def number_of_float(value: float) -> Number:
    """Return a float of a graph as a number, or None where products with it would be rounded."""
    if not isfinite(value):
        return None
    ratio = Fraction(value)
    if ratio.denominator == 1:
        return ratio.numerator if abs(ratio.numerator) <= _MOST_EXACT else None
    is_short = max(abs(ratio.numerator), ratio.denominator) <= _MOST_OF_FACTOR
    return Quotient(ratio.numerator, ratio.denominator) if is_short else None


def whole_size(number: Number) -> Size:
    """Return a size; None of a quotient."""
    return None if isinstance(number, Quotient) else number


def compute_number(function: str, a: Number, b: Number) -> Number:
    """Return "+", "-" or "*" of exact numbers and any `expression` of sizes; else None.

    "/" is a quotient of integers; `divide` has that of floats.
    """
    if not isinstance(a, Quotient) and not isinstance(b, Quotient):
        return compute_size(function, a, b)
    if not _is_exact(a) or not _is_exact(b) or function not in ("+", "-", "*"):
        return None
    (a_size, p), (b_size, q) = _parts(a), _parts(b)
    if function == "*":
        return _simplify(compute_size("*", a_size, b_size), p * q)
    above = compute_size(function, compute_size("*", a_size, q), compute_size("*", b_size, p))
    return _simplify(above, p * q)


def divide(a: Number, b: Number) -> Number:
    """Return a quotient of floats: an exact number over a positive constant; else None."""
    if not _is_exact(a) or not _is_exact(b):
        return None
    (size, p), (divisor, q) = _parts(a), _parts(b)
    if not isinstance(divisor, int) or divisor <= 0:
        return None
    return _simplify(compute_size("*", size, q), p * divisor)


def round_down(number: Number) -> Size:
    """Round as Floor and as Cast to integers do; None of what may be negative."""
    return _round(number, 0)


def round_up(number: Number) -> Size:
    """Round as Ceil does; None of what may be negative."""
    return _round(number, 1)


def _round(number: Number, up: int) -> Size:
    if not isinstance(number, Quotient):
        return number
    if not is_never_negative(number.size):
        return None
    return compute_size("/", compute_size("+", number.size, up * (number.divisor - 1)), number.divisor)


def _is_exact(number: Number) -> bool:
    """Return whether float32 holds a number without rounding."""
    return number is not None and _parts(number)[1].bit_count() == 1


def _parts(number: Number) -> tuple[Size, int]:
    return (number.size, number.divisor) if isinstance(number, Quotient) else (number, 1)


def _simplify(size: Size, divisor: int) -> Number:
    if size is None:
        return None
    if isinstance(size, int):
        common = gcd(size, divisor)
        size, divisor = size // common, divisor // common
    return size if divisor == 1 else Quotient(size, divisor)
