"""The step that calls a user's operator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.custom import Operator, OutputGrid, Quantized, find
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Codes, Shape
from intact.engine.steps.base.wiring import Reads, Writes
from intact.errors import QuantValueError, UnsupportedError


@dataclass(frozen=True)
class Call(Step):
    """An operator of the user's own (`engine.custom`), run in Python between native steps.

    Attributes:
        operator: "domain::Name", as it is registered.
        xs, ys: Codes or anything else: it gets and makes what these tensors hold.
        attributes: JSON of the node's attributes.
    """

    kind = "call"
    native = False
    operator: str
    xs: Annotated[tuple[str, ...], Reads(constant=True)]
    ys: Annotated[tuple[str, ...], Writes()]
    attributes: str = "{}"

    def check(self, checker: Checker) -> None:
        try:
            attributes = json.loads(self.attributes)
        except ValueError:
            attributes = None
        fits = isinstance(attributes, dict) and bool(self.ys)
        checker.that(fits, self.attributes, "a JSON object, and outputs")

    def evaluate(self, run: Run) -> None:
        """Call the operator's body, as an engine does."""
        inputs = [(run.array(name), run.grid(name)) for name in self.xs]
        outputs = self.call(inputs, [run.grid(name) for name in self.ys])
        for name, array in zip(self.ys, outputs, strict=True):
            run.bind(name, array)

    def operator_shapes(self, inputs: Sequence[Shape]) -> dict[str, Shape]:
        """Return the sizes of the outputs, by the operator's registration."""
        shapes = self._operator().output_shapes(inputs)
        return {y: tuple(int(d) for d in shape) for y, shape in zip(self.ys, shapes, strict=True)}

    def call(
        self, inputs: Sequence[tuple[NDArray[Any], Codes | None]], grids: Sequence[Codes | None]
    ) -> list[NDArray[Any]]:
        """Run its body.

        Args:
            inputs: For each input its array, and its grid where it has codes (in the dtype of the file).
            grids: For each output its grid, where it has one.
        Raises:
            UnsupportedError: The operator is not registered.
            QuantValueError: The body made something else than it should.
        """
        operator = self._operator()
        arguments = [array if grid is None else _with_grid(array, grid) for array, grid in inputs]
        keywords = {**operator.defaults, **json.loads(self.attributes)}
        if operator.codes:
            keywords["outputs"] = tuple(_grid(codes) for codes in grids if codes is not None)
        outputs = operator.body(*arguments, **keywords)
        arrays = [np.asarray(outputs)] if operator.outputs == 1 else [np.asarray(array) for array in outputs]
        return [_check_output(self, array, grid) for array, grid in zip(arrays, grids, strict=True)]

    def _operator(self) -> Operator:
        operator = find(self.operator)
        if operator is None:
            raise UnsupportedError(
                f"step '{self.name}'", f"operator '{self.operator}', which nobody registered here",
                "the operators that the plan was built with", "import the module that registers it first",
            )  # fmt: skip
        return operator


def _with_grid(array: NDArray[Any], codes: Codes) -> Quantized:
    return Quantized(array, np.float32(codes.scale), codes.zero_point)


def _grid(codes: Codes) -> OutputGrid:
    dtype = np.dtype(np.int8 if codes.signed else np.uint8)
    return OutputGrid(np.float32(codes.scale), codes.zero_point, dtype, codes.low, codes.high)


def _check_output(step: Call, array: NDArray[Any], codes: Codes | None) -> NDArray[Any]:
    if codes is None:
        return array
    low, high = (int(array.min()), int(array.max())) if array.size else (codes.low, codes.high)
    fits = array.dtype.kind in "iu" and codes.low <= low and high <= codes.high
    if not fits:
        raise QuantValueError(
            f"operator '{step.operator}'", str(array.dtype), f"integers from {codes.low} to {codes.high}",
            "clip the codes in its body",
        )  # fmt: skip
    return array.astype(np.int8 if codes.signed else np.uint8, copy=False)
