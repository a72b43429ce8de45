"""Compute torch functions of one real number in the engine's arithmetic.

Other handlers share its helpers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from intact import numerics
from intact.graph import ops
from intact.torch.exact.exact_operator import exact
from intact.torch.exact.tensor_grids import TensorGrids

__all__ = ["ELEMENTWISE", "OF_INTEGERS", "NoEngineStep", "Handler", "engine_function"]

Handler = Callable[..., Any]


class NoEngineStep(Exception):
    """Raised for a call that no step of the engine computes, so that torch's function runs."""


def _function(name: str) -> Handler:
    def handler(grids: TensorGrids, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if args or any(value for key, value in kwargs.items() if key != "inplace"):
            raise NoEngineStep
        return exact("function", input, name=name)

    return handler


def engine_function(name: str, x: Tensor) -> Tensor:
    """Compute an engine function of one real number on `x`, float32 of any shape."""
    return exact("function", x, name=name)


def _rsqrt(grids: TensorGrids, input: Tensor) -> Tensor:
    return 1 / engine_function("sqrt", input)


def _gelu(grids: TensorGrids, input: Tensor, *, approximate: str = "none") -> Tensor:
    return engine_function("gelu" if approximate == "none" else "gelu_tanh", input)


def _elu(
    grids: TensorGrids, input: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0, *,
    inplace: bool = False,
) -> Tensor:  # fmt: skip
    if scale != 1 or input_scale != 1:
        raise NoEngineStep
    curve = engine_function("elu", input)
    return curve if alpha == 1 else _scale_negatives(curve, alpha)


def _scale_negatives(x: Tensor, slope: float) -> Tensor:
    return torch.where(x < 0, x * slope, x)


def _selu(grids: TensorGrids, input: Tensor, inplace: bool = False) -> Tensor:
    curve = _scale_negatives(engine_function("elu", input), 1.6732632423543772)
    return curve * 1.0507009873554805


def _celu(grids: TensorGrids, input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    if alpha == 1:
        return engine_function("elu", input)
    return input.clamp(min=0) + engine_function("elu", input.clamp(max=0) / alpha) * alpha


def _softplus(grids: TensorGrids, input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    scaled = input if beta == 1 else input * beta
    smooth = engine_function("softplus", scaled)
    return torch.where(scaled > threshold, input, smooth if beta == 1 else smooth / beta)


def _log_sigmoid(grids: TensorGrids, input: Tensor) -> Tensor:
    return engine_function("log", engine_function("sigmoid", input))


def _log_base(base: float) -> Handler:
    below = torch.from_numpy(np.asarray(numerics.FUNCTIONS["log"](np.float32(base))))
    return lambda grids, input: engine_function("log", input) / below


def _log1p(grids: TensorGrids, input: Tensor) -> Tensor:
    return engine_function("log", input + 1)


def _expm1(grids: TensorGrids, input: Tensor) -> Tensor:
    return engine_function("exp", input) - 1


def _tan(grids: TensorGrids, input: Tensor) -> Tensor:
    return engine_function("sin", input) / engine_function("cos", input)


def _atan2(grids: TensorGrids, input: Tensor, other: Tensor) -> Tensor:
    """Compute the angle of points, by the quotient and the quadrant, as it is exported."""
    origin = (input == 0) & (other == 0)
    angle = torch.where(origin, input, engine_function("atan", input / other))
    # Of a zero, its quotient says the sign.
    turned = torch.where((input > 0) | ((input == 0) & (1 / input > 0)), angle + math.pi, angle - math.pi)
    return torch.where((other < 0) | ((other == 0) & (1 / other < 0)), turned, angle)


def _power(grids: TensorGrids, input: Any, exponent: Any) -> Tensor:
    if isinstance(exponent, Tensor):
        return _power_of_tensors(input, exponent)
    power = float(exponent)
    if power == 0.5:
        return engine_function("sqrt", input)
    if power in (1.0, 2.0, -1.0) or power == 0 or not abs(power) <= 64:
        raise NoEngineStep  # torch rounds these once, as the engine does
    if not power.is_integer():
        return engine_function("exp", engine_function("log", input) * power)
    power_of_input: Tensor = input
    for bit in bin(abs(int(power)))[3:]:
        power_of_input = power_of_input * power_of_input
        power_of_input = power_of_input * input if bit == "1" else power_of_input
    return 1 / power_of_input if power < 0 else power_of_input


def _power_of_tensors(base: Any, exponent: Tensor) -> Tensor:
    """Compute ``10000 ** exponent`` of position embeddings in float64, as constants are folded."""
    if torch.result_type(base, exponent) != torch.float32:
        raise NoEngineStep
    wide = base.double() if isinstance(base, Tensor) else base
    return torch.pow(wide, exponent.double()).float()


ELEMENTWISE: dict[str, Handler] = {
    **{name: _function(variant.step) for _, variant in ops.VARIANTS for name in variant.torch},
    # With arguments, or of several engine functions.
    "arctan2": _atan2, "atan2": _atan2, "celu": _celu, "elu": _elu, "expm1": _expm1, "gelu": _gelu,
    "log10": _log_base(10.0), "log1p": _log1p, "log2": _log_base(2.0), "log_sigmoid": _log_sigmoid,
    "logsigmoid": _log_sigmoid, "pow": _power, "rsqrt": _rsqrt, "selu": _selu, "softplus": _softplus,
    "tan": _tan,
}  # fmt: skip
"""Name of a function -> its handler. Roots are among them, because MKL leaves their last bits open."""

OF_INTEGERS = frozenset({"arctan2", "atan2", "log10", "log2", "rsqrt", "tan"}) | {
    name for _, variant in ops.VARIANTS if variant.of_integers for name in variant.torch
}
"""Functions that make floats of integers."""
