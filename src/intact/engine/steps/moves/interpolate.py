"""The step that interpolates between elements along an axis."""

from __future__ import annotations

from dataclasses import dataclass

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.indices import check_rows
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
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

    def check(self, checker: Checker) -> None:
        checker.axis(self.x, self.axis)
        checker.one_rank(self.x, self.y)
        checker.that(checker.dtype(self.x) == "float32", checker.dtype(self.x), "float32")
        checker.one_dtype(self.x, self.y)
        for name, dtype in ((self.places, "int64"), (self.weights, "float32")):
            checker.that(checker.dtype(name) == dtype, checker.dtype(name), dtype)
            checker.that(checker.rank(name) == (2,), name, "a matrix")

    def output_shape(self, sizes: Sizes) -> Shape:
        """Return the sizes of x, with as many elements along the axis as there are rows of places."""
        places, weights = sizes.of(self.places), sizes.of(self.weights)
        if places != weights or places[1] == 0:
            raise mismatch(self.weights, f"shape {weights}", f"one weight for each place, {places}")
        return tuple(places[0] if axis == self.axis else n for axis, n in enumerate(sizes.of(self.x)))

    def evaluate(self, run: Run) -> None:
        x, places = run.array(self.x), run.array(self.places)
        check_rows(places, x.shape[self.axis], f"'{self.places}'")
        run.bind(self.y, interpolate(x, self.axis, places, run.array(self.weights)))
