"""Hyperbolic functions and their inverses, of float32. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.numerics.floats.elementary import HALF, ONE, TWO, at_most, float_function, polynomial, sqrt
from intact.numerics.floats.exp import NORMAL_END, exp, normal_exp
from intact.numerics.floats.log import log, log1p

Reals = NDArray[np.float32]
TANH_SMALL = np.float32(0.625)
TANH = [np.float32(c) for c in (-0.33333274722099304, 0.13331274688243866, -0.05372511222958565,
                                0.020589778199791908, -0.005648261401802301)]  # fmt: skip
SINH = [np.float32(c) for c in (0.1666666716337204, 0.008333350531756878, 0.000198360561626032,
                                2.817501808749512e-06)]  # fmt: skip
LN2, QUARTER = np.float32(0.693147181), np.float32(0.25)
FAR = np.float32(2.0**30)  # from here on, adding 1 to the square of a number does not change it


@float_function
def tanh(x: Reals) -> Reals:
    """Compute the hyperbolic tangent, with a relative error within 1.5e-7.

    Of the magnitude, with the sign of x: below 0.625 ``|x| + |x|^3 TANH(x^2)``; beyond,
    ``1 - 2 / (exp(min(2 |x|, 87)) + 1)``.

    Rule N38.
    """
    magnitude, square = np.abs(x), x * x
    small = polynomial(TANH, square) * square * magnitude + magnitude
    large = ONE - TWO / (normal_exp(at_most(magnitude * TWO, NORMAL_END)) + ONE)
    return np.copysign(np.where(magnitude < TANH_SMALL, small, large), x)


@float_function
def sinh(x: Reals) -> Reals:
    """Compute the hyperbolic sine, with a relative error within 5e-7; infinite where float32 ends.

    Of the magnitude a, with the sign of x: ``SINH(a^2) a^2 a + a`` up to 1; beyond, ``e - 0.25 / e`` with
    ``e = e^a / 2``.

    Rule N64.
    """
    magnitude = np.abs(x)
    square = magnitude * magnitude
    e = _half_exp(magnitude)
    small = polynomial(SINH, square) * square * magnitude + magnitude
    return np.copysign(np.where(magnitude > ONE, e - QUARTER / e, small), x)


@float_function
def cosh(x: Reals) -> Reals:
    """Compute the hyperbolic cosine as ``e + 0.25 / e`` with ``e = e^|x| / 2``, with a relative error
    within 5e-7.

    Rule N64.
    """
    e = _half_exp(np.abs(x))
    return np.asarray(e + QUARTER / e)


def _half_exp(a: Reals) -> Reals:
    """Compute e^a / 2 of a >= 0, as ``(h / 2) h`` with ``h = e^(a / 2)``: it overflows later than e^a."""
    h = exp(a * HALF)
    return np.asarray(h * HALF * h)


@float_function
def asinh(x: Reals) -> Reals:
    """Compute the inverse hyperbolic sine, with a relative error within 4e-7.

    Of the magnitude a, with the sign of x: ``log1p(a + a^2 / (1 + sqrt(a^2 + 1)))``, from 2^30 on
    ``log(a) + ln 2``.

    Rule N64.
    """
    a = np.abs(x)
    square = a * a
    near = log1p(a + square / (ONE + sqrt(square + ONE)))
    return np.copysign(np.where(a < FAR, near, log(a) + LN2), x)


@float_function
def acosh(x: Reals) -> Reals:
    """Compute the inverse hyperbolic cosine, with a relative error within 4e-7; a NaN below 1.

    ``log1p(t + sqrt(t (t + 2)))`` with ``t = x - 1``, ``log(x) + ln 2`` from 2^30.

    Rule N64.
    """
    t = x - ONE
    near = log1p(t + sqrt(t * (t + TWO)))
    y = np.where(x < FAR, near, log(x) + LN2)
    return np.where(x < ONE, np.float32(np.nan), y)


@float_function
def atanh(x: Reals) -> Reals:
    """Compute the inverse hyperbolic tangent, with a relative error within 4e-7; infinite at 1, a NaN beyond.

    Of the magnitude a, with the sign of x: ``log1p((a + a) / (1 - a)) / 2``.

    Rule N64.
    """
    a = np.abs(x)
    u = np.asarray((a + a) / (ONE - a), np.float32)
    return np.asarray(np.copysign(HALF * log1p(u), x))
