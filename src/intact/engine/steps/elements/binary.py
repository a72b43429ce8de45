"""The step for functions of two floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Operand, Write
from intact.numerics import apply_slope, maximum, minimum

_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "max": maximum, "min": minimum, "slope": apply_slope,
}  # fmt: skip
"""One float32 operation each, rounded by itself."""


@dataclass(frozen=True)
class Binary(Step):
    """Element-wise in floats with broadcasting: "add", "sub", "mul", "div", "max", "min", "slope".

    a or b may name a constant. The slope of a is b (N48).
    """

    kind = "binary"
    function: str
    a: Operand
    b: Operand
    y: Write

    rules = """
        function in ('add', 'sub', 'mul', 'div', 'max', 'min', 'slope') | a function of two floats
        sizes y: broadcast(a, b)
    """

    def evaluate(self, run: Run) -> None:
        with np.errstate(all="ignore"):
            values = _FUNCTIONS[self.function](run.real(self.a), run.real(self.b))
        run.write_real(self.y, values)
