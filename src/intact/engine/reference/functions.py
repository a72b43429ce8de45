"""The functions of `numerics` by the names that steps use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Function = Callable[[NDArray[Any]], NDArray[Any]]


def function(name: str) -> Function:
    from intact import numerics

    return getattr(numerics, name)


def softmax(x, axis, gain, mask):
    from intact import numerics
    return numerics.softmax(x, axis, gain, mask)


def layer_norm(x, weight, bias, epsilon, residual):
    from intact import numerics
    return numerics.layer_norm(x, weight, bias, epsilon, residual)


BINARY: dict[str, Callable[[Any, Any], Any]] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
