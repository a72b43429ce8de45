"""The step for the largest elements along an axis."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Read, Write
from intact.numerics import top_k


@dataclass(frozen=True)
class TopK(Step):
    """The k largest elements along an axis, the first one first, and their indices (N58).

    Attributes:
        y: They, in the dtype, or the codes, of x.
        places: int64.
        largest: Or the smallest.
    """

    kind = "top_k"
    x: Read
    y: Write
    places: Write
    axis: int
    k: int
    largest: bool = True

    rules = """
        0 <= axis < rank(x) | an axis of x
        one_rank(x, y, places)
        k >= 0 | 0 elements or more
        types(x, 'codes', 'float32', 'int32', 'int64', 'uint8', 'int8')
        one_dtype(x, y)
        one_grid(x, y)
        types(places, 'int64')
        fits x: x[axis] >= k | k elements at least
        sizes y: replace(x, axis, k)
        sizes places: replace(x, axis, k)
    """

    def evaluate(self, run: Run) -> None:
        y, places = top_k(run.array(self.x), self.k, self.axis, self.largest)
        run.bind(self.y, y)
        run.bind(self.places, places)
