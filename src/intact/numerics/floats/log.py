"""Logarithms of float32. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.numerics.floats.elementary import HALF, ONE, float_function, polynomial
from intact.numerics.floats.exp import LN2_HIGH, LN2_LOW

Reals = NDArray[np.float32]
# (log(1 + f) - f + f^2 / 2) / f^3 on sqrt(1/2) - 1 <= f <= sqrt(2) - 1:
LOG = [np.float32(c) for c in (0.3333331346511841, -0.25000008940696716, 0.2000211924314499,
                               -0.1666799634695053, 0.14219550788402557, -0.1240558996796608,
                               0.11888178437948227, -0.11675652861595154, 0.06746608018875122)]  # fmt: skip
SQRT_HALF_BITS = np.int32(0x3F3504F3)
SMALLEST_NORMAL, SCALE_UP = np.float32(2.0**-126), np.float32(2.0**23)


@float_function
def log(x: Reals) -> Reals:
    """Compute the natural logarithm, within 1 ulp; minus infinity at zero, a NaN below.

    ``x = 2^k (1 + f)`` with ``sqrt(1/2) <= 1 + f < sqrt(2)``, and then
    ``((LOG(f) f f^2 - f^2 / 2 + k LN2_LOW) + f) + k LN2_HIGH``; a denormal x is multiplied by 2^23 before.
    """
    denormal = x < SMALLEST_NORMAL
    bits = np.where(denormal, x * SCALE_UP, x).view(np.int32)
    power = (bits - SQRT_HALF_BITS) >> 23
    f = (bits - (power << 23)).view(np.float32) - ONE
    k = power.astype(np.float32) - np.where(denormal, np.float32(23), np.float32(0))
    square = f * f
    y = polynomial(LOG, f) * f * square - HALF * square + k * LN2_LOW + f + k * LN2_HIGH
    y = np.where(x < np.float32(np.inf), y, x)  # infinity and NaN stay
    return np.where(x < 0, np.float32(np.nan), np.where(x == 0, np.float32(-np.inf), y))


def log1p(u: Reals) -> Reals:
    """Compute log(1 + u): log(w) of ``w = fl32(1 + u)``, plus the rounding error of w over w.

    An infinity stays.
    """
    w = ONE + u
    return np.where(u < np.float32(np.inf), log(w) + (u - (w - ONE)) / w, u)
