"""The step for an LSTM whose states are quantized in each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.recurrent_ports import RecurrentPorts
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Const
from intact.engine.steps.products.dynamic_conv import MIDDLE, MOST_TERMS


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

    def check(self, checker: Checker) -> None:
        self.check_ports(checker, "lstm")
        shape = checker.sizes(self.weight)
        checker.that(shape[2] <= MOST_TERMS, shape, "sums that fit int32")
        for name in filter(None, (self.scales, self.zero_points)):
            checker.that(checker.sizes(name) == shape[:2], f"'{name}'", "one number for each gate of a state")

    def evaluate(self, run: Run) -> None:
        weight, scales = run.array(self.weight), run.array(self.scales)
        zeros = run.array(self.zero_points) if self.zero_points else np.full(scales.shape, MIDDLE, np.uint8)
        weights = [numerics.DynamicStateWeights(*own) for own in zip(weight, scales, zeros, strict=True)]
        self.run_directions(run, "lstm", weights)
