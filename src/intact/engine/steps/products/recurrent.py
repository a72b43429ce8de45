"""The step for recurrent layers: LSTM, GRU and RNN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.recurrent_ports import RecurrentPorts
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Const

_PerState = Annotated[str, Const("float32", 2, optional=True)]


@dataclass(frozen=True)
class Recurrent(RecurrentPorts, Step):
    """One layer of an LSTM, a GRU or a simple network, in one direction or in several, one after the other.

    Attributes:
        cell: One of `numerics.GATES`.
        bias: [directions, hidden]: where the candidate's sum over states begins, of cells that reset it
            behind that sum; "" for 0.
    """

    kind = "recurrent"
    weight: Annotated[str, Const("float32", 3)]
    cell: str
    bias: _PerState = ""

    def check(self, checker: Checker) -> None:
        checker.that(self.cell in numerics.GATES, self.cell, f"one of {', '.join(numerics.GATES)}")
        self.check_ports(checker, self.cell)
        checker.that(not self.bias or self.cell == "gru_reset_after", self.bias, "no bias apart")
        if self.bias:
            directions, _, hidden = checker.sizes(self.weight)
            checker.that(checker.sizes(self.bias) == (directions, hidden), self.bias, "one for each state")

    def evaluate(self, run: Run) -> None:
        weight = run.array(self.weight)
        bias = run.array(self.bias) if self.bias else [None] * len(weight)
        weights = [numerics.StateWeights(*own) for own in zip(weight, bias, strict=True)]
        self.run_directions(run, self.cell, weights)
