"""The step for layer normalization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from intact import numerics
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Const, Read, Write

_PerElement = Annotated[str, Const("float32", 1, optional=True)]


@dataclass(frozen=True)
class LayerNorm(Step):
    """Over the last axis, of x (+ `residual`). weight and bias: constants float32, "" for none."""

    kind = "layer_norm"
    x: Read
    y: Write
    weight: _PerElement
    bias: _PerElement
    epsilon: float
    residual: Read = ""

    rules = """
        one_rank(x, y)
    """

    def evaluate(self, run: Run) -> None:
        weight, bias = (run.array(name) if name else None for name in (self.weight, self.bias))
        residual = run.real(self.residual) if self.residual else None
        run.write_real(self.y, numerics.layer_norm(run.real(self.x), weight, bias, self.epsilon, residual))
