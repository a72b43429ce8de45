"""Sine, cosine and their inverses, of float32. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.numerics.floats.elementary import HALF, ONE, TWO, float_function, polynomial, sqrt
from intact.numerics.floats.range_reduction import quarter_turns

Reals = NDArray[np.float32]
# (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2 / 2) / r^4 as polynomials of r^2 on |r| <= pi / 4:
SIN = [np.float32(c) for c in (-0.166666641831398, 0.008332747966051102, -0.00019587756833061576)]
COS = [np.float32(c) for c in (0.0416666641831398, -0.001388830249197781, 2.4547787688788958e-05)]
# (f(u) / u - 1) / u^2 of atan on |u| <= tan(pi / 8), of asin on |u| <= 0.5, of sinh on |u| <= 1, all as
# polynomials of u^2:
ATAN = [np.float32(c) for c in (-0.33333316445350647, 0.1999848335981369, -0.1424373835325241,
                                0.10595139116048813, -0.060811545699834824)]  # fmt: skip
ASIN = [np.float32(c) for c in (0.16666755080223083, 0.07495223730802536, 0.04547958821058273,
                                0.02413436770439148, 0.042242538183927536)]  # fmt: skip
PI, HALF_PI, QUARTER_PI = np.float32(3.14159265), np.float32(1.57079633), np.float32(0.785398163)
EIGHTH_TURN = np.float32(0.414213562)  # tan(pi / 8)


@float_function
def sin(x: Reals) -> Reals:
    """Compute the sine, within 1.2e-7, of any finite number; an infinity gives a NaN.

    With ``x = r + n pi / 2`` of `quarter_turns`, for n modulo 4: ``SIN(r^2) r^2 r + r`` with the
    sign of r, ``(COS(r^2) r^2 - 1/2) r^2 + 1``, and the negatives of both.

    Rule N38.
    """
    return _sine_from(x, 0)


@float_function
def cos(x: Reals) -> Reals:
    """Compute the cosine: `sin`, a quarter turn further.

    Rule N38.
    """
    return _sine_from(x, 1)


def _sine_from(x: Reals, quarters: int) -> Reals:
    """Compute sin(x + quarters * pi / 2)."""
    r, n = quarter_turns(x)
    square, turns = r * r, n + np.int32(quarters)
    sine = np.copysign(polynomial(SIN, square) * square * r + r, r)  # the sign of a zero, too
    cosine = (polynomial(COS, square) * square - HALF) * square + ONE
    return np.where(turns & 1, cosine, sine) * np.where(turns & 2, -ONE, ONE)


@float_function
def atan(x: Reals) -> Reals:
    """Compute the arc tangent, with a relative error within 2e-7.

    Of the magnitude a, with the sign of x: ``t = a > 1 ? 1 / a : a``, then ``ATAN(u^2) u^2 u + u`` of
    ``u = t > tan(pi / 8) ? (t - 1) / (t + 1) : t``, pi / 4 added to the former; where a > 1 that from pi / 2.

    Rule N64.
    """
    magnitude = np.abs(x)
    above = magnitude > ONE
    t = np.where(above, ONE / magnitude, magnitude)
    high = t > EIGHTH_TURN
    u = np.where(high, (t - ONE) / (t + ONE), t)
    square = u * u
    y = polynomial(ATAN, square) * square * u + u + np.where(high, QUARTER_PI, np.float32(0))
    return np.asarray(np.copysign(np.where(above, HALF_PI - y, y), x))


@float_function
def asin(x: Reals) -> Reals:
    """Compute the arc sine, with a relative error within 3e-7; a NaN beyond 1.

    Of the magnitude a, with the sign of x: ``ASIN(a^2) a^2 a + a`` up to 0.5; beyond, pi / 2 less twice the
    same of ``sqrt((1 - a) / 2)``.

    Rule N64.
    """
    magnitude = np.abs(x)
    far, y = _half_arc(magnitude)
    return np.copysign(np.where(far, HALF_PI - TWO * y, y), x)


@float_function
def acos(x: Reals) -> Reals:
    """Compute the arc cosine, within 4e-7, by the same halves as `asin`; a NaN beyond 1.

    Rule N64.
    """
    far, y = _half_arc(np.abs(x))
    twice = TWO * y
    return np.where(far, np.where(x < 0, PI - twice, twice), HALF_PI - np.copysign(y, x))


def _half_arc(a: Reals) -> tuple[NDArray[np.bool_], Reals]:
    """Return whether a > 0.5, and asin of a, or of ``sqrt((1 - a) / 2)`` there."""
    far = a > HALF
    u = np.where(far, sqrt((ONE - a) * HALF), a)
    square = u * u
    return far, polynomial(ASIN, square) * square * u + u
