"""Functions of floats that give the same bits on every machine. NORMATIVE.

Every operation is one float32 operation, rounded by itself, in the order written; no library function is
called whose last bits depend on the machine. Polynomials are minimax fits whose coefficients were rounded to
float32, evaluated in pairs (Estrin's scheme). A NaN gives a NaN; no function raises for any float32 number.

The errors stated are against the exact function of the float32 argument, and are held by tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

import numpy as np
from numpy.typing import ArrayLike, NDArray

from intact.numerics.grids.affine import to_float32
from intact.numerics.turns import quarter_turns

Reals = NDArray[np.float32]
Function = Callable[[ArrayLike], Reals]

ONE, TWO, HALF = np.float32(1), np.float32(2), np.float32(0.5)

# Adding this rounds a float32 below 2^22 in magnitude to an integer, ties to even, and leaves that integer in
# the low bits of the sum.
ROUNDER = np.float32(1.5 * 2**23)
ROUNDER_BITS = np.int32(0x4B400000)

LOG2_E = np.float32(1.44269504)
# ln 2 = LN2_HIGH + LN2_LOW; an integer below 2^15 times LN2_HIGH, which has 9 bits, is exact.
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
EXP_LOW, EXP_HIGH = np.float32(-104), np.float32(89)  # beyond: 0 and infinity
NORMAL_END = np.float32(87)  # e^x is a normal number as far as this on both sides
# Coefficients from the lowest power on. (exp(r) - 1 - r) / r^2 on |r| <= 0.35:
EXP = [np.float32(c) for c in (0.4999999403953552, 0.16666515171527863, 0.04166845977306366,
                               0.008369430899620056, 0.0013813059777021408)]  # fmt: skip
# (2^f - 1) / f on |f| <= 0.5:
EXP2 = [np.float32(c) for c in (0.6931471824645996, 0.24022647738456726, 0.05550331994891167,
                                0.009618439711630344, 0.0013399136951193213,
                                0.00015353165508713573)]  # fmt: skip
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
TANH_SMALL = np.float32(0.625)
TANH = [np.float32(c) for c in (-0.33333274722099304, 0.13331274688243866, -0.05372511222958565,
                                0.020589778199791908, -0.005648261401802301)]  # fmt: skip
# (log(1 + f) - f + f^2 / 2) / f^3 on sqrt(1/2) - 1 <= f <= sqrt(2) - 1:
LOG = [np.float32(c) for c in (0.3333331346511841, -0.25000008940696716, 0.2000211924314499,
                               -0.1666799634695053, 0.14219550788402557, -0.1240558996796608,
                               0.11888178437948227, -0.11675652861595154, 0.06746608018875122)]  # fmt: skip
# (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2 / 2) / r^4 as polynomials of r^2 on |r| <= pi / 4:
SIN = [np.float32(c) for c in (-0.166666641831398, 0.008332747966051102, -0.00019587756833061576)]
COS = [np.float32(c) for c in (0.0416666641831398, -0.001388830249197781, 2.4547787688788958e-05)]
# (f(u) / u - 1) / u^2 of atan on |u| <= tan(pi / 8), of asin on |u| <= 0.5, of sinh on |u| <= 1, all as
# polynomials of u^2:
ATAN = [np.float32(c) for c in (-0.33333316445350647, 0.1999848335981369, -0.1424373835325241,
                                0.10595139116048813, -0.060811545699834824)]  # fmt: skip
ASIN = [np.float32(c) for c in (0.16666755080223083, 0.07495223730802536, 0.04547958821058273,
                                0.02413436770439148, 0.042242538183927536)]  # fmt: skip
SINH = [np.float32(c) for c in (0.1666666716337204, 0.008333350531756878, 0.000198360561626032,
                                2.817501808749512e-06)]  # fmt: skip
PI, HALF_PI, QUARTER_PI = np.float32(3.14159265), np.float32(1.57079633), np.float32(0.785398163)
EIGHTH_TURN = np.float32(0.414213562)  # tan(pi / 8)
LN2, QUARTER = np.float32(0.693147181), np.float32(0.25)
FAR = np.float32(2.0**30)  # from here on, 1 added to a square is lost
SQRT_HALF_BITS = np.int32(0x3F3504F3)
SMALLEST_NORMAL, SCALE_UP = np.float32(2.0**-126), np.float32(2.0**23)
GELU_LINEAR, GELU_CUBIC = np.float32(1.59576912), np.float32(0.044715)  # 2 sqrt(2 / pi)
GELU_TANH_LOW, SILU_LOW, HARD_LOW = np.float32(-16), np.float32(-128), np.float32(-3)
MISH_HIGH = np.float32(20)  # from here on it is x
SIXTH, LEAK = np.float32(1 / 6), np.float32(0.01)


def _function(formula: Callable[[Reals], Reals]) -> Function:
    """Any real array in, float32 out, with no warning about what overflows on the way."""

    @wraps(formula)
    def evaluate(x: ArrayLike) -> Reals:
        with np.errstate(all="ignore"):
            return np.asarray(formula(to_float32(x)), np.float32)

    return evaluate


@_function
def exp(x: Reals) -> Reals:
    """e^x within 2 ulp, denormal results too; 0 below -104, infinity where float32 ends.

    ``n = rne(x * log2(e))``, ``r = x - n * LN2_HIGH - n * LN2_LOW``, ``1 + r + r^2 EXP(r)``, times 2^n in two
    exact factors, so that a denormal result is rounded once.
    """
    small = x < EXP_LOW
    y, n = _exp_fraction(_at_most(np.where(small, np.float32(0), x), EXP_HIGH))
    half = n >> 1
    y = y * _power_of_two(half) * _power_of_two(n - half)
    return np.where(small, np.float32(0), y)


@_function
def log(x: Reals) -> Reals:
    """The natural logarithm, within 1 ulp; minus infinity of zeros, a NaN of what is below.

    ``x = 2^k (1 + f)`` with ``sqrt(1/2) <= 1 + f < sqrt(2)``, and then
    ``((LOG(f) f f^2 - f^2 / 2 + k LN2_LOW) + f) + k LN2_HIGH``; a denormal x is multiplied by 2^23 before.
    """
    denormal = x < SMALLEST_NORMAL
    bits = np.where(denormal, x * SCALE_UP, x).view(np.int32)
    power = (bits - SQRT_HALF_BITS) >> 23
    f = (bits - (power << 23)).view(np.float32) - ONE
    k = power.astype(np.float32) - np.where(denormal, np.float32(23), np.float32(0))
    square = f * f
    y = _polynomial(LOG, f) * f * square - HALF * square + k * LN2_LOW + f + k * LN2_HIGH
    y = np.where(x < np.float32(np.inf), y, x)  # and a NaN
    return np.where(x < 0, np.float32(np.nan), np.where(x == 0, np.float32(-np.inf), y))


@_function
def sqrt(x: Reals) -> Reals:
    """The square root, correctly rounded as IEEE 754 wants it."""
    return np.asarray(np.sqrt(x))


@_function
def erf(x: Reals) -> Reals:
    """The error function, within 1.2e-7, and 3e-7 of its own size.

    Of the magnitude, with the sign of x: below 0.9 ``ERF(x^2) |x|``; beyond, ``1 - 2 Phi(-sqrt(2) |x|)``.
    """
    magnitude = np.abs(x)
    small = _polynomial(ERF, x * x) * magnitude
    large = ONE - TWO * _normal_tail(magnitude * SQRT_2)
    return np.copysign(np.where(magnitude < ERF_SMALL, small, large), x)


@_function
def tanh(x: Reals) -> Reals:
    """Within 1.5e-7 of its own size.

    Of the magnitude, with the sign of x: below 0.625 ``|x| + |x|^3 TANH(x^2)``; beyond,
    ``1 - 2 / (exp(min(2 |x|, 87)) + 1)``.
    """
    magnitude, square = np.abs(x), x * x
    small = _polynomial(TANH, square) * square * magnitude + magnitude
    large = ONE - TWO / (_normal_exp(_at_most(magnitude * TWO, NORMAL_END)) + ONE)
    return np.copysign(np.where(magnitude < TANH_SMALL, small, large), x)


@_function
def sigmoid(x: Reals) -> Reals:
    """1 / (1 + e^-x), within 3e-7 of its own size down to -87, where it becomes constant.

    ``(x < 0 ? e : 1) / (1 + e)`` with ``e = exp(max(-|x|, -87))``.
    """
    e = _normal_exp(_at_least(-np.abs(x), -NORMAL_END))
    return np.asarray(np.where(x < 0, e, ONE) / (ONE + e))


@_function
def gelu(x: Reals) -> Reals:
    """x Phi(x), the form with erf, within 2e-7 max(1, |x|).

    ``t = Phi(-|x|)``, ``max(x, -5.96) * (x < 0 ? t : 1 - t)``: at minus infinity -8e-9.
    """
    tail = _normal_tail(np.abs(x))
    return np.asarray(_at_least(x, -TAIL_END) * np.where(x < 0, tail, ONE - tail))


@_function
def gelu_tanh(x: Reals) -> Reals:
    """The form with tanh: ``max(x, -16) * sigmoid(2 sqrt(2 / pi) * (x + 0.044715 x^3))``."""
    inner = x * x * x * GELU_CUBIC + x
    return np.asarray(_at_least(x, GELU_TANH_LOW) * sigmoid(inner * GELU_LINEAR))


@_function
def silu(x: Reals) -> Reals:
    """x sigmoid(x), also called swish: ``max(x, -128) * sigmoid(x)``."""
    return np.asarray(_at_least(x, SILU_LOW) * sigmoid(x))


@_function
def hard_sigmoid(x: Reals) -> Reals:
    """``clamp(x * fl32(1 / 6) + 0.5, 0, 1)``, PyTorch's slope."""
    return _at_most(_at_least(x * SIXTH + HALF, np.float32(0)), ONE)


@_function
def hard_swish(x: Reals) -> Reals:
    """``max(x, -3) * hard_sigmoid(x)``."""
    return np.asarray(_at_least(x, HARD_LOW) * hard_sigmoid(x))


@_function
def sin(x: Reals) -> Reals:
    """The sine, within 1.2e-7, of any finite number; a NaN of infinities.

    With ``x = r + n pi / 2`` of `quarter_turns`, for n modulo 4: ``SIN(r^2) r^2 r + r`` with the
    sign of r, ``(COS(r^2) r^2 - 1/2) r^2 + 1``, and the negatives of both.
    """
    return _sine_from(x, 0)


@_function
def cos(x: Reals) -> Reals:
    """The cosine: `sin`, a quarter turn further."""
    return _sine_from(x, 1)


def _sine_from(x: Reals, quarters: int) -> Reals:
    r, n = quarter_turns(x)
    square, turns = r * r, n + np.int32(quarters)
    sine = np.copysign(_polynomial(SIN, square) * square * r + r, r)  # of a zero, too
    cosine = (_polynomial(COS, square) * square - HALF) * square + ONE
    return np.where(turns & 1, cosine, sine) * np.where(turns & 2, -ONE, ONE)


@_function
def atan(x: Reals) -> Reals:
    """The angle of a tangent, within 2e-7 of its own size.

    Of the magnitude a, with the sign of x: ``t = a > 1 ? 1 / a : a``, then ``ATAN(u^2) u^2 u + u`` of
    ``u = t > tan(pi / 8) ? (t - 1) / (t + 1) : t``, pi / 4 added to the former; where a > 1 that from pi / 2.
    """
    magnitude = np.abs(x)
    above = magnitude > ONE
    t = np.where(above, ONE / magnitude, magnitude)
    high = t > EIGHTH_TURN
    u = np.where(high, (t - ONE) / (t + ONE), t)
    square = u * u
    y = _polynomial(ATAN, square) * square * u + u + np.where(high, QUARTER_PI, np.float32(0))
    return np.asarray(np.copysign(np.where(above, HALF_PI - y, y), x))


@_function
def asin(x: Reals) -> Reals:
    """The angle of a sine, within 3e-7 of its own size; a NaN beyond 1.

    Of the magnitude a, with the sign of x: ``ASIN(a^2) a^2 a + a`` up to 0.5; beyond, pi / 2 less twice the
    same of ``sqrt((1 - a) / 2)``.
    """
    magnitude = np.abs(x)
    far, y = _half_arc(magnitude)
    return np.copysign(np.where(far, HALF_PI - TWO * y, y), x)


@_function
def acos(x: Reals) -> Reals:
    """The angle of a cosine, within 4e-7; a NaN beyond 1. By the same halves as `asin`."""
    far, y = _half_arc(np.abs(x))
    twice = TWO * y
    return np.where(far, np.where(x < 0, PI - twice, twice), HALF_PI - np.copysign(y, x))


def _half_arc(a: Reals) -> tuple[NDArray[np.bool_], Reals]:
    """(whether a > 0.5, asin of a, or of ``sqrt((1 - a) / 2)`` there)."""
    far = a > HALF
    u = np.where(far, sqrt((ONE - a) * HALF), a)
    square = u * u
    return far, _polynomial(ASIN, square) * square * u + u


@_function
def sinh(x: Reals) -> Reals:
    """Within 5e-7 of its own size; infinite where float32 ends.

    Of the magnitude a, with the sign of x: ``SINH(a^2) a^2 a + a`` up to 1; beyond, ``e - 0.25 / e`` with
    ``e = e^a / 2``.
    """
    magnitude = np.abs(x)
    square = magnitude * magnitude
    e = _half_exp(magnitude)
    small = _polynomial(SINH, square) * square * magnitude + magnitude
    return np.copysign(np.where(magnitude > ONE, e - QUARTER / e, small), x)


@_function
def cosh(x: Reals) -> Reals:
    """Within 5e-7 of its own size: ``e + 0.25 / e`` with ``e = e^|x| / 2``."""
    e = _half_exp(np.abs(x))
    return np.asarray(e + QUARTER / e)


def _half_exp(a: Reals) -> Reals:
    """e^a / 2 of a >= 0, as ``(h / 2) h`` with ``h = e^(a / 2)``: it ends later than e^a."""
    h = exp(a * HALF)
    return np.asarray(h * HALF * h)


@_function
def asinh(x: Reals) -> Reals:
    """Within 4e-7 of its own size.

    Of the magnitude a, with the sign of x: ``log1p(a + a^2 / (1 + sqrt(a^2 + 1)))``, from 2^30 on
    ``log(a) + ln 2``.
    """
    a = np.abs(x)
    square = a * a
    near = _log1p(a + square / (ONE + sqrt(square + ONE)))
    return np.copysign(np.where(a < FAR, near, log(a) + LN2), x)


@_function
def acosh(x: Reals) -> Reals:
    """Within 4e-7 of its own size; a NaN below 1.

    ``log1p(t + sqrt(t (t + 2)))`` with ``t = x - 1``, ``log(x) + ln 2`` from 2^30.
    """
    t = x - ONE
    near = _log1p(t + sqrt(t * (t + TWO)))
    y = np.where(x < FAR, near, log(x) + LN2)
    return np.where(x < ONE, np.float32(np.nan), y)


@_function
def atanh(x: Reals) -> Reals:
    """Within 4e-7 of its own size; infinite at 1, a NaN beyond.

    Of the magnitude a, with the sign of x: ``log1p((a + a) / (1 - a)) / 2``.
    """
    a = np.abs(x)
    u = np.asarray((a + a) / (ONE - a), np.float32)
    return np.asarray(np.copysign(HALF * _log1p(u), x))


def _log1p(u: Reals) -> Reals:
    """log(1 + u): of ``w = fl32(1 + u)``, and what was lost in that; an infinity stays."""
    w = ONE + u
    return np.where(u < np.float32(np.inf), log(w) + (u - (w - ONE)) / w, u)


@_function
def softplus(x: Reals) -> Reals:
    """log(1 + e^x), within 3e-7 of its own size down to -87, where it becomes constant.

    ``max(x, 0) + (log(u) + (e - (u - 1)) / u)`` with ``e = exp(max(-|x|, -87))`` and ``u = 1 + e``.
    """
    e = _normal_exp(_at_least(-np.abs(x), -NORMAL_END))
    whole = ONE + e
    lost = (e - (whole - ONE)) / whole
    return np.asarray(_at_least(x, np.float32(0)) + (log(whole) + lost))


@_function
def softsign(x: Reals) -> Reals:
    """``x / (1 + |x|)``."""
    return np.asarray(x / (ONE + np.abs(x)))


@_function
def mish(x: Reals) -> Reals:
    """x tanh(log(1 + e^x)), within 3e-7 max(1, |x|).

    ``max(x, -128) * (n / (n + 2))`` with ``n = e (e + 2)`` and ``e = exp(min(max(x, -87), 20))``.
    """
    e = _normal_exp(_at_most(_at_least(x, -NORMAL_END), MISH_HIGH))
    n = e * (e + TWO)
    return np.asarray(_at_least(x, SILU_LOW) * (n / (n + TWO)))


@_function
def elu(x: Reals) -> Reals:
    """x, or ``exp(x) - 1`` below 0 (alpha = 1), within 1.2e-7."""
    return np.where(x < 0, exp(x) - ONE, x)


@_function
def leaky_relu(x: Reals) -> Reals:
    """x, or ``x * fl32(0.01)`` below 0."""
    return np.where(x < 0, x * LEAK, x)


@_function
def relu(x: Reals) -> Reals:
    """x, or 0 below 0."""
    return _at_least(x, np.float32(0))


FUNCTIONS: dict[str, Function] = {
    "acos": acos, "acosh": acosh, "asin": asin, "asinh": asinh, "atan": atan, "atanh": atanh, "cos": cos,
    "cosh": cosh, "elu": elu, "erf": erf, "exp": exp, "gelu": gelu, "gelu_tanh": gelu_tanh,
    "hard_sigmoid": hard_sigmoid, "hard_swish": hard_swish, "leaky_relu": leaky_relu, "log": log,
    "mish": mish, "relu": relu, "sigmoid": sigmoid, "silu": silu, "sin": sin, "sinh": sinh,
    "softplus": softplus, "softsign": softsign, "sqrt": sqrt, "tanh": tanh,
}  # fmt: skip
"""The functions of one real that a step can name."""


def maximum(a: ArrayLike, b: ArrayLike) -> Reals:
    """b where ``a < b`` or b is a NaN, else a: float32, with broadcasting. NORMATIVE."""
    a, b = to_float32(a), to_float32(b)
    return np.asarray(np.where((a < b) | np.isnan(b), b, a))


def minimum(a: ArrayLike, b: ArrayLike) -> Reals:
    """b where ``a > b`` or b is a NaN, else a: float32, with broadcasting. NORMATIVE."""
    a, b = to_float32(a), to_float32(b)
    return np.asarray(np.where((a > b) | np.isnan(b), b, a))


def clip(x: ArrayLike, low: float, high: float) -> Reals:
    """low where ``x < low``, else x; then high where that is above high: float32. A NaN stays one. NORMATIVE.

    Args:
        x: Reals.
        low, high: Rounded to float32; infinities bound nothing. Where low is above high, high is the result.
    """
    return _at_most(_at_least(to_float32(x), np.float32(low)), np.float32(high))


def sloped(x: ArrayLike, slope: ArrayLike) -> Reals:
    """``fl32(x * slope)`` where ``x < 0``, else x (LeakyRelu, PRelu); float32, broadcasting. NORMATIVE."""
    x = to_float32(x)
    with np.errstate(all="ignore"):
        return np.asarray(np.where(x < 0, x * to_float32(slope), x))


def exp2(y: Reals) -> Reals:
    """2^y of -126 <= y <= 127, by ``y - rne(y)``, which is exact, and ``1 + f EXP2(f)``."""
    shifted = y + ROUNDER
    f = y - (shifted - ROUNDER)
    return np.asarray((_polynomial(EXP2, f) * f + ONE) * _power_of_two(_integer(shifted)))


def _exp_fraction(x: Reals) -> tuple[Reals, NDArray[np.int32]]:
    """(e^x / 2^n, n)."""
    shifted = x * LOG2_E + ROUNDER
    n = shifted - ROUNDER
    r = x - n * LN2_HIGH - n * LN2_LOW
    return _polynomial(EXP, r) * (r * r) + r + ONE, _integer(shifted)


def _normal_exp(x: Reals) -> Reals:
    """e^x of -87 <= x <= 87, the same bits as `exp`."""
    y, n = _exp_fraction(x)
    return np.asarray(y * _power_of_two(n))


def _normal_tail(a: Reals) -> Reals:
    """Phi(-a) of a >= 0, within 7e-8: a polynomial for each piece of `TAIL`; constant beyond 5.96."""
    u = _at_most(a, TAIL_END) * PIECES
    shifted = u + ROUNDER
    piece = _integer(shifted) & 7
    return _polynomial([row[piece] for row in TAIL], u - (shifted - ROUNDER))


def _polynomial(coefficients: Sequence[np.float32 | Reals], x: Reals) -> Reals:
    """``c0 + c1 x + ...`` in pairs: neighbours meet as ``high * x + low``; then those sums do, with x
    squared, until one is left. Wide registers want short chains of operations."""
    terms = list(coefficients)
    while len(terms) > 1:
        pairs = [high * x + low for low, high in zip(terms[::2], terms[1::2], strict=False)]
        terms = [*pairs, *terms[2 * len(pairs) :]]
        x = x * x
    return np.asarray(terms[0])


def _integer(shifted: Reals) -> NDArray[np.int32]:
    return np.asarray(shifted).view(np.int32) - ROUNDER_BITS


def _power_of_two(n: NDArray[np.int32]) -> Reals:
    """2^n of -126 <= n <= 127, through its bits."""
    return np.asarray((n + np.int32(127)) << 23).view(np.float32)


def _at_least(x: Reals, low: np.float32) -> Reals:
    return np.where(x < low, low, x)


def _at_most(x: Reals, high: np.float32) -> Reals:
    return np.where(x > high, high, x)
