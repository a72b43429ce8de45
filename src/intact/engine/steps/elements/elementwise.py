"""The step for comparisons, logic, choices, casts and arithmetic of integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Reads, Write
from intact.numerics import ELEMENTWISE, elementwise, takes


@dataclass(frozen=True)
class Elementwise(Step):
    """One of `numerics.ELEMENTWISE` of tensors of plain numbers, element by element with broadcasting (N53).

    xs may name constants. Of floats what N53 lists; `Binary` and `Function` have the others, and know codes.
    """

    kind = "elementwise"
    operation: str
    xs: Annotated[tuple[str, ...], Reads(constant=True)]
    y: Write

    rules = """
        sizes y: broadcast(*xs)
    """

    def check(self, checker: Checker) -> None:
        operation = ELEMENTWISE.get(self.operation)
        checker.that(operation is not None, self.operation, f"one of {', '.join(ELEMENTWISE)}")
        read, output_dtype = tuple(checker.dtype(name) for name in self.xs), checker.dtype(self.y)
        got = f"{self.operation} of {', '.join(read)} that makes {output_dtype}"
        checker.that(takes(self.operation, read, output_dtype), got, "dtypes that the operation knows")

    def evaluate(self, run: Run) -> None:
        dtype = run.tensors[self.y].dtype
        run.bind(self.y, elementwise(self.operation, [run.array(name) for name in self.xs], dtype))
