"""The functions of floats by the names that steps use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from intact.numerics.functions import FUNCTIONS, maximum, minimum, sloped

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "max": maximum, "min": minimum, "slope": sloped,
}  # fmt: skip
"""One float32 operation each, rounded by itself."""

__all__ = ["BINARY", "FUNCTIONS"]
