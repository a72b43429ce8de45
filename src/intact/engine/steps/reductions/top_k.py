"""The step for the largest elements along an axis."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Read, Write
from intact.numerics import ORDER_DTYPES, top_k


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

    def check(self, checker: Checker) -> None:
        checker.one_rank(self.x, self.y, self.places)
        checker.axis(self.x, self.axis)
        checker.that(self.k >= 0, f"{self.k} elements", "0 or more")
        dtype, dtypes = checker.dtype(self.x), ("codes", *ORDER_DTYPES)
        checker.that(dtype in dtypes, dtype, f"one of {', '.join(dtypes)}")
        checker.one_dtype(self.x, self.y)
        checker.one_grid(self.x, self.y)
        checker.that(checker.dtype(self.places) == "int64", checker.dtype(self.places), "int64")

    def output_shapes(self, sizes: Sizes) -> tuple[Shape, ...]:
        shape = sizes.of(self.x)
        if shape[self.axis] < self.k:
            raise mismatch(self.x, f"size {shape[self.axis]} in dimension {self.axis}", f"{self.k} at least")
        output_shape = tuple(self.k if axis == self.axis else n for axis, n in enumerate(shape))
        return output_shape, output_shape

    def evaluate(self, run: Run) -> None:
        y, places = top_k(run.array(self.x), self.k, self.axis, self.largest)
        run.bind(self.y, y)
        run.bind(self.places, places)
