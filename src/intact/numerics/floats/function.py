"""The functions of one float that a step can name."""

from __future__ import annotations

from intact.numerics.floats import activations, elementary, erf, exp, hyperbolic, log, trigonometry
from intact.numerics.floats.elementary import Function, is_float_function

_FILES = (activations, elementary, erf, exp, hyperbolic, log, trigonometry)

FUNCTIONS: dict[str, Function] = {
    name: value for file in _FILES for name, value in sorted(vars(file).items()) if is_float_function(value)
}
"""Every `float_function` by its name, which a step and the native kernels have for it.

Rules N38, N42.
"""
