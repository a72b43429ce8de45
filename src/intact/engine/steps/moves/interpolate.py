"""The step that interpolates between elements along an axis."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.indices import check_rows
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Operand, Read, Write
from intact.numerics import interpolate


@dataclass(frozen=True)
class Interpolate(Step):
    """Sums of elements of x times weights, along an axis (N57).

    Attributes:
        places: int64: which elements each one of y reads, one row for each. Constant, or following from
            sizes alone, as `weights`.
        weights: float32: by what they are multiplied.
    """

    kind = "interpolate"
    x: Read
    y: Write
    axis: int
    places: Operand
    weights: Operand

    rules = """
        0 <= axis < rank(x) | an axis of x
        one_rank(x, y)
        floats(x, y, weights)
        types(places, 'int64')
        ranks(2, places, weights)
        fits weights: [*places] == [*weights] and places[1] > 0 | one weight for each place
        sizes y: replace(x, axis, places[0])
    """

    def evaluate(self, run: Run) -> None:
        x, places = run.array(self.x), run.array(self.places)
        check_rows(places, x.shape[self.axis], f"'{self.places}'")
        run.bind(self.y, interpolate(x, self.axis, places, run.array(self.weights)))
