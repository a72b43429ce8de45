"""Activation functions of neural networks, of float32. NORMATIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from intact.numerics.floats.elementary import HALF, ONE, TWO, at_least, at_most, float_function
from intact.numerics.floats.erf import TAIL_END, normal_tail
from intact.numerics.floats.exp import NORMAL_END, exp, normal_exp
from intact.numerics.floats.log import log

Reals = NDArray[np.float32]
GELU_LINEAR, GELU_CUBIC = np.float32(1.59576912), np.float32(0.044715)  # 2 sqrt(2 / pi)
GELU_TANH_LOW, SILU_LOW, HARD_LOW = np.float32(-16), np.float32(-128), np.float32(-3)
MISH_HIGH = np.float32(20)  # from here on mish(x) is x
SIXTH, LEAK, QUICK_SLOPE = np.float32(1 / 6), np.float32(0.01), np.float32(1.702)


@float_function
def sigmoid(x: Reals) -> Reals:
    """Compute 1 / (1 + e^-x), with a relative error within 3e-7 down to -87, where it becomes constant.

    ``(x < 0 ? e : 1) / (1 + e)`` with ``e = exp(max(-|x|, -87))``.

    Rule N38.
    """
    e = normal_exp(at_least(-np.abs(x), -NORMAL_END))
    return np.asarray(np.where(x < 0, e, ONE) / (ONE + e))


@float_function
def gelu(x: Reals) -> Reals:
    """Compute GELU in its form with erf, x Phi(x), within 2e-7 max(1, |x|).

    ``t = Phi(-|x|)``, ``max(x, -5.96) * (x < 0 ? t : 1 - t)``: at minus infinity -8e-9.

    Rule N38.
    """
    tail = normal_tail(np.abs(x))
    return np.asarray(at_least(x, -TAIL_END) * np.where(x < 0, tail, ONE - tail))


@float_function
def gelu_tanh(x: Reals) -> Reals:
    """Compute GELU's tanh form: ``max(x, -16) * sigmoid(2 sqrt(2 / pi) * (x + 0.044715 x^3))``.

    Rule N38.
    """
    inner = x * x * x * GELU_CUBIC + x
    return np.asarray(at_least(x, GELU_TANH_LOW) * sigmoid(inner * GELU_LINEAR))


@float_function
def silu(x: Reals) -> Reals:
    """Compute x sigmoid(x), also called swish: ``max(x, -128) * sigmoid(x)``.

    Rule N38.
    """
    return np.asarray(at_least(x, SILU_LOW) * sigmoid(x))


@float_function
def quick_gelu(x: Reals) -> Reals:
    """Compute ``x * sigmoid(x * fl32(1.702))``, GELU as CLIP has it.

    No argument is clamped, so that the bits are those of the two products and the sigmoid that modules write.

    Rule N38.
    """
    return np.asarray(x * sigmoid(x * QUICK_SLOPE))


@float_function
def hard_sigmoid(x: Reals) -> Reals:
    """Compute ``clamp(x * fl32(1 / 6) + 0.5, 0, 1)``, PyTorch's slope.

    Rule N38.
    """
    return at_most(at_least(x * SIXTH + HALF, np.float32(0)), ONE)


@float_function
def hard_swish(x: Reals) -> Reals:
    """Compute ``max(x, -3) * hard_sigmoid(x)``.

    Rule N38.
    """
    return np.asarray(at_least(x, HARD_LOW) * hard_sigmoid(x))


@float_function
def softplus(x: Reals) -> Reals:
    """Compute log(1 + e^x), with a relative error within 3e-7 down to -87, where it becomes constant.

    ``max(x, 0) + (log(u) + (e - (u - 1)) / u)`` with ``e = exp(max(-|x|, -87))`` and ``u = 1 + e``.

    Rule N38.
    """
    e = normal_exp(at_least(-np.abs(x), -NORMAL_END))
    whole = ONE + e
    error = (e - (whole - ONE)) / whole
    return np.asarray(at_least(x, np.float32(0)) + (log(whole) + error))


@float_function
def softsign(x: Reals) -> Reals:
    """Compute ``x / (1 + |x|)``.

    Rule N38.
    """
    return np.asarray(x / (ONE + np.abs(x)))


@float_function
def mish(x: Reals) -> Reals:
    """Compute x tanh(log(1 + e^x)), within 3e-7 max(1, |x|).

    ``max(x, -128) * (n / (n + 2))`` with ``n = e (e + 2)`` and ``e = exp(min(max(x, -87), 20))``.

    Rule N38.
    """
    e = normal_exp(at_most(at_least(x, -NORMAL_END), MISH_HIGH))
    n = e * (e + TWO)
    return np.asarray(at_least(x, SILU_LOW) * (n / (n + TWO)))


@float_function
def elu(x: Reals) -> Reals:
    """Compute x, or ``exp(x) - 1`` below 0 (alpha = 1), within 1.2e-7.

    Rule N38.
    """
    return np.where(x < 0, exp(x) - ONE, x)


@float_function
def leaky_relu(x: Reals) -> Reals:
    """Compute x, or ``x * fl32(0.01)`` below 0.

    Rule N38.
    """
    return np.where(x < 0, x * LEAK, x)


@float_function
def relu(x: Reals) -> Reals:
    """Compute x, or 0 below 0.

    Rule N38.
    """
    return at_least(x, np.float32(0))
