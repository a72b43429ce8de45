"""The step that permutes axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Read, Write


@dataclass(frozen=True)
class Transpose(Step):
    """Axis i of y is axis perm[i] of x."""

    kind = "transpose"
    x: Read
    y: Write
    perm: tuple[int, ...]

    def check(self, checker: Checker) -> None:
        checker.one_dtype(self.x, self.y)
        checker.per_axis((self.x, self.y), self.perm)
        checker.that(sorted(self.perm) == list(range(len(self.perm))), self.perm, "a permutation")

    def output_shape(self, sizes: Sizes) -> Shape:
        x = sizes.of(self.x)
        return tuple(x[axis] for axis in self.perm)

    def evaluate(self, run: Run) -> None:
        run.bind(self.y, np.transpose(run.array(self.x), self.perm))
