"""The step for an LSTM whose states are quantized in each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from intact import numerics
from intact.engine.steps.base.recurrent_ports import RecurrentPorts
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Const
from intact.engine.steps.products.dynamic_conv import MIDDLE


@dataclass(frozen=True)
class DynamicRecurrent(RecurrentPorts, Step):
    """One layer of an LSTM in one direction or in several, whose states are codes in each step (N74).

    Attributes:
        scales: float32 [directions, gates * hidden].
        zero_points: uint8, likewise; "" for 128.
    """

    kind = "dynamic_recurrent"
    weight: Annotated[str, Const("uint8", 3)]
    scales: Annotated[str, Const("float32", 2)]
    zero_points: Annotated[str, Const("uint8", 2)] = ""

    rules = """
        gates = 4
        weight[2] <= (2 ** 31 - 1) // 255 ** 2 | sums that fit int32
        [*scales] == weight[:2] | one number for each gate of a state
        not zero_points or [*zero_points] == weight[:2] | one number for each gate of a state
    """

    def evaluate(self, run: Run) -> None:
        weight, scales = run.array(self.weight), run.array(self.scales)
        zeros = run.array(self.zero_points) if self.zero_points else np.full(scales.shape, MIDDLE, np.uint8)
        weights = [numerics.DynamicStateWeights(*own) for own in zip(weight, scales, zeros, strict=True)]
        self.run_directions(run, "lstm", weights)
