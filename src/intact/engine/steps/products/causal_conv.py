"""The step for short convolutions over tokens, with a state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Annotated

from intact import numerics
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Const, Read, Write


@dataclass(frozen=True)
class CausalConv(Step):
    """Adds up the last tokens of each column, times weights (N77).

    Where a caller passes one array as both states, it is written in place.

    Attributes:
        x, y: float32 [batch, tokens, columns].
        state: float32 [batch, taps - 1, columns], the last tokens; `past` likewise, "" for 0.
        weight: [taps, columns].
        bias: [columns]; "": 0.
    """

    kind = "causal_conv"
    x: Read
    y: Write
    state: Write
    weight: Annotated[str, Const("float32", 2)]
    past: Read = ""
    bias: Annotated[str, Const("float32", 1)] = ""

    rules = """
        floats(x, y, state)
        not past or dtype(past) == 'float32' | float32
        ranks(3, x, y, state, past)
        1 <= weight[0] <= 2 ** 16 | one tap or more
        not bias or bias[0] == weight[1] | a number for each column
        fits x: x[2] == weight[1] | a weight for each column
        fits past: not past or past[:] == [x[0], weight[0] - 1, x[2]] | the tokens before
        sizes y: x
        sizes state: [x[0], weight[0] - 1, x[2]]
    """

    def evaluate(self, run: Run) -> None:
        y, state = numerics.causal_convolution(
            run.array(self.x), run.array(self.weight), run.array(self.bias) if self.bias else None,
            run.array(self.past) if self.past else None,
        )  # fmt: skip
        run.bind(self.y, y)
        run.bind(self.state, state)

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        return prod(shape_of(self.y)) * (shape_of(self.state)[1] + 1)
