"""The error function of float32, and the normal distribution's tail. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.numerics.floats.elementary import (
    ONE,
    ROUNDER,
    TWO,
    at_most,
    float_function,
    integer_of_bits,
    polynomial,
)

Reals = NDArray[np.float32]
# Phi(-a) on 0 <= a <= 5.96, in eight pieces around 0, 0.8, 1.6, ...: polynomials of a / 0.8 - its integer.
PIECES = np.float32(1.25)
TAIL_END = np.float32(5.96)
TAIL = np.array([
    (0.5, 0.21185539662837982, 0.054799288511276245, 0.008197535760700703,
     0.0006871382356621325, 3.1671203032601625e-05, 7.933114147817832e-07, 1.0716337150995514e-08),
    (-0.3191538453102112, -0.2317533940076828, -0.08873680979013443, -0.017915528267621994,
     -0.0019072608556598425, -0.00010707323235692456, -3.170577656419482e-06, -4.954346977115165e-08),
    (1.0984363143506926e-06, 0.07416077703237534, 0.056791651993989944, 0.017198992893099785,
     0.0024412760976701975, 0.00017130645574070513, 6.086224402679363e-06, 1.109173197733071e-07),
    (0.03402869403362274, 0.008904301561415195, -0.014761103317141533, -0.00909945648163557,
     -0.0018801168771460652, -0.00017101263802032918, -7.401122275041416e-06, -1.5755317406274116e-07),
    (8.681100007379428e-05, -0.009330011904239655, -0.001335824141278863, 0.002531789243221283,
     0.0009431760990992188, 0.00011870671733049676, 6.47545903120772e-06, 1.6551541648368584e-07),
    (-0.003534480929374695, 0.0003000746655743569, 0.0017211508238688111, -7.397398439934477e-05,
     -0.0002997308038175106, -6.1893901147414e-05, -4.669110239774454e-06, -1.5542190112682874e-07),
    (0.0004063949454575777, 0.0007356738788075745, -0.00024404365103691816, -0.00018496550910640508,
     4.567701034829952e-05, 2.198899346694816e-05, 2.336662873858586e-06, 9.760289998439475e-08),
], np.float32)  # fmt: skip
# erf(x) / x as a polynomial of x^2 on |x| <= 1; (tanh(x) / x - 1) / x^2 likewise on |x| <= 0.63.
ERF_SMALL, SQRT_2 = np.float32(0.9), np.float32(1.41421356)
ERF = [np.float32(c) for c in (1.1283791065216064, -0.3761262595653534, 0.1128358542919159,
                               -0.026853812858462334, 0.005188328213989735, -0.0008010196615941823,
                               7.853862189222127e-05)]  # fmt: skip


@float_function
def erf(x: Reals) -> Reals:
    """Compute the error function, within 1.2e-7, with a relative error within 3e-7.

    Of the magnitude, with the sign of x: below 0.9 ``ERF(x^2) |x|``; beyond, ``1 - 2 Phi(-sqrt(2) |x|)``.

    Rule N38.
    """
    magnitude = np.abs(x)
    small = polynomial(ERF, x * x) * magnitude
    large = ONE - TWO * normal_tail(magnitude * SQRT_2)
    return np.copysign(np.where(magnitude < ERF_SMALL, small, large), x)


def normal_tail(a: Reals) -> Reals:
    """Compute Phi(-a) for a >= 0, within 7e-8, by one polynomial of `TAIL` per piece; flat beyond 5.96."""
    u = at_most(a, TAIL_END) * PIECES
    shifted = u + ROUNDER
    piece = integer_of_bits(shifted) & 7
    return polynomial([row[piece] for row in TAIL], u - (shifted - ROUNDER))
