"""The functions of one float that a step can name."""

from __future__ import annotations

from intact.numerics.floats.activations import (
    elu,
    gelu,
    gelu_tanh,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    mish,
    relu,
    sigmoid,
    silu,
    softplus,
    softsign,
)
from intact.numerics.floats.elementary import Function, sqrt
from intact.numerics.floats.erf import erf
from intact.numerics.floats.exp import exp
from intact.numerics.floats.hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from intact.numerics.floats.log import log
from intact.numerics.floats.trigonometry import acos, asin, atan, cos, sin

FUNCTIONS: dict[str, Function] = {
    "acos": acos, "acosh": acosh, "asin": asin, "asinh": asinh, "atan": atan, "atanh": atanh, "cos": cos,
    "cosh": cosh, "elu": elu, "erf": erf, "exp": exp, "gelu": gelu, "gelu_tanh": gelu_tanh,
    "hard_sigmoid": hard_sigmoid, "hard_swish": hard_swish, "leaky_relu": leaky_relu, "log": log,
    "mish": mish, "relu": relu, "sigmoid": sigmoid, "silu": silu, "sin": sin, "sinh": sinh,
    "softplus": softplus, "softsign": softsign, "sqrt": sqrt, "tanh": tanh,
}  # fmt: skip
"""The functions of one float, by the name that a step has for them.

Rules N38, N42.
"""
