"""The step for recurrent layers: LSTM, GRU and RNN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from intact import numerics
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

    rules = """
        cell in ('lstm', 'gru', 'gru_reset_after', 'rnn_tanh', 'rnn_relu') | a cell
        gates = 4 if cell == 'lstm' else 3 if cell in ('gru', 'gru_reset_after') else 1
        not bias or cell == 'gru_reset_after' | no bias apart
        not bias or [*bias] == [weight[0], weight[2]] | one for each state
    """

    def evaluate(self, run: Run) -> None:
        weight = run.array(self.weight)
        bias = run.array(self.bias) if self.bias else [None] * len(weight)
        weights = [numerics.StateWeights(*own) for own in zip(weight, bias, strict=True)]
        self.run_directions(run, self.cell, weights)
