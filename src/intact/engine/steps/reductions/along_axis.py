"""Along one axis: folds, running sums, places of the largest, elements by index, values between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step, Traits
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Const, Operand, Read, Write
from intact.engine.steps.moves.gather import check_index_sizes, check_rows
from intact.numerics.arg_max import ORDER_DTYPES, arg_max
from intact.numerics.cum_sum import CUM_SUM_DTYPES, cum_sum
from intact.numerics.fold import FOLD_DTYPES, fold
from intact.numerics.interpolate import interpolate


@dataclass(frozen=True)
class Fold(Step):
    """One number for the elements along an axis, which stays with size 1 (N60).

    Attributes:
        function: One of `numerics.fold.FOLD_DTYPES` of the dtype.
    """

    kind = "fold"
    traits = Traits(strided=True)
    x: Read
    y: Write
    axis: int
    function: str

    def check(self, checker: Checker) -> None:
        checker.axis(self.x, self.axis)
        dtype = checker.dtype(self.x)
        known = self.function in FOLD_DTYPES.get(dtype, ())
        checker.that(known, f"{self.function} of {dtype}", f"one of {FOLD_DTYPES}")
        checker.one_dtype(self.x, self.y)

    def output_shape(self, sizes: Sizes) -> Shape:
        return tuple(1 if axis == self.axis else n for axis, n in enumerate(sizes.of(self.x)))

    def evaluate(self, run: Run) -> None:
        run.bind(self.y, fold(run.array(self.x), self.axis, self.function))


@dataclass(frozen=True)
class CumSum(Step):
    """Running sums along an axis (N54): without the element itself where `exclusive`, from the end where
    `reverse`."""

    kind = "cum_sum"
    traits = Traits(strided=True)
    x: Read
    y: Write
    axis: int
    exclusive: bool = False
    reverse: bool = False

    def check(self, checker: Checker) -> None:
        checker.axis(self.x, self.axis)
        checker.that(
            checker.dtype(self.x) in CUM_SUM_DTYPES,
            checker.dtype(self.x),
            f"one of {', '.join(CUM_SUM_DTYPES)}",
        )
        checker.one_dtype(self.x, self.y)

    def evaluate(self, run: Run) -> None:
        run.bind(self.y, cum_sum(run.array(self.x), self.axis, self.exclusive, self.reverse))


@dataclass(frozen=True)
class ArgMax(Step):
    """The place of the largest element along an axis, which stays with size 1 (N54).

    Attributes:
        smallest: Of the smallest one.
        last: Of equal ones the last; else the first.
    """

    kind = "arg_max"
    traits = Traits(strided=True)
    x: Read
    y: Write
    axis: int
    smallest: bool = False
    last: bool = False

    def check(self, checker: Checker) -> None:
        checker.axis(self.x, self.axis)
        checker.that(
            checker.dtype(self.x) in ORDER_DTYPES, checker.dtype(self.x), f"one of {', '.join(ORDER_DTYPES)}"
        )
        checker.that(checker.dtype(self.y) == "int64", checker.dtype(self.y), "int64")

    def output_shape(self, sizes: Sizes) -> Shape:
        return tuple(1 if axis == self.axis else n for axis, n in enumerate(sizes.of(self.x)))

    def evaluate(self, run: Run) -> None:
        run.bind(self.y, arg_max(run.array(self.x), self.axis, self.smallest, self.last))


@dataclass(frozen=True)
class GatherElements(Step):
    """``y[i, j, ...] = x[index[i, j, ...], j, ...]``, where axis is 0.

    Attributes:
        index: int32 or int64, with as many axes as x and no more elements along the others. Negative ones
            count from the end; what is out of range is an error.
    """

    kind = "gather_elements"
    traits = Traits(strided=True)
    x: Operand
    index: Operand
    y: Write
    axis: int

    def check(self, checker: Checker) -> None:
        checker.axis(self.x, self.axis)
        checker.one_rank(self.x, self.index, self.y)
        checker.index(self.index)
        checker.one_dtype(self.x, self.y)
        checker.one_grid(self.x, self.y)

    def output_shape(self, sizes: Sizes) -> Shape:
        x, index = sizes.of(self.x), sizes.of(self.index)
        check_index_sizes(self.index, index, x, self.axis)
        return index

    def evaluate(self, run: Run) -> None:
        x, index = run.array(self.x), run.array(self.index)
        check_index_sizes(self.index, index.shape, x.shape, self.axis)
        self.check_index(index, x.shape, f"tensor '{self.index}'")
        within = tuple(slice(None) if a == self.axis else slice(n) for a, n in enumerate(index.shape))
        run.bind(self.y, np.take_along_axis(x[within], index.astype(np.int64), self.axis))

    def check_index(self, index: NDArray[Any], shape: Shape, where: str) -> None:
        """Refuse indices that x, of a shape, does not have.

        Raises:
            QuantValueError: One is out of range; names `where`.
        """
        check_rows(index, shape[self.axis], where)


@dataclass(frozen=True)
class Interpolate(Step):
    """Sums of elements of x times weights, along an axis (N57).

    Attributes:
        places: Which elements each one of y reads, one row for each.
        weights: By what they are multiplied.
    """

    kind = "interpolate"
    traits = Traits(follows=True)
    x: Read
    y: Write
    axis: int
    places: Annotated[str, Const("int64", 2)]
    weights: Annotated[str, Const("float32", 2)]

    def check(self, checker: Checker) -> None:
        checker.axis(self.x, self.axis)
        checker.one_rank(self.x, self.y)
        checker.that(checker.dtype(self.x) == "float32", checker.dtype(self.x), "float32")
        checker.one_dtype(self.x, self.y)

    def output_shape(self, sizes: Sizes) -> Shape:
        """As many as there are rows of places."""
        made, given = sizes.of(self.places), sizes.of(self.weights)
        if made != given or made[1] == 0:
            raise mismatch(self.weights, f"shape {given}", f"one weight for each place, {made}")
        return tuple(made[0] if axis == self.axis else n for axis, n in enumerate(sizes.of(self.x)))

    def evaluate(self, run: Run) -> None:
        x, places = run.array(self.x), run.array(self.places)
        check_rows(places, x.shape[self.axis], f"constant '{self.places}'")
        run.bind(self.y, interpolate(x, self.axis, places, run.array(self.weights)))
