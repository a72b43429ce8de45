"""The step for values that follow from the inputs' sizes alone: positions, masks of lengths, sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.dims import Dim, value_of
from intact.engine.steps.base.onnx_step import OnnxStep
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.wiring import Const, Writes
from intact.errors import QuantValueError

if TYPE_CHECKING:
    from intact.graph import Session


@dataclass(frozen=True)
class ShapeArithmetic(OnnxStep, Step):
    """An ONNX model of sizes, worked out when a plan is bound: a run copies what came out.

    Attributes:
        inputs: The model's inputs, int64 vectors.
        sizes: What each of them holds: numbers, free sizes of the plan's inputs, and expressions of these.
        ys: Outputs of the model; or some of `inputs`, for the sizes themselves.
        model: Constant, uint8: a serialized ONNX model that makes `ys`; "" where all are inputs.
    """

    kind = "shape_arithmetic"
    inputs: tuple[str, ...]
    sizes: tuple[tuple[Dim, ...], ...]
    ys: Annotated[tuple[str, ...], Writes()]
    model: Annotated[str, Const("uint8", 1, optional=True)] = ""

    def check(self, checker: Checker) -> None:
        checker.that(bool(self.ys), "no outputs", "some")
        checker.that(len(self.inputs) == len(self.sizes), self.inputs, "sizes for every input")
        checker.that(len(set(self.inputs)) == len(self.inputs), self.inputs, "distinct names")
        checker.that(bool(self.model) or set(self.ys) <= set(self.inputs), self.ys, "a model that makes them")
        for name in self.ys:
            checker.that(checker.grid(name) is None, f"codes in '{name}'", "numbers")

    @property
    def model_outputs(self) -> tuple[str, ...]:
        return tuple(y for y in self.ys if y not in self.inputs)

    def evaluate(self, run: Run) -> None:
        """Run the nodes in ONNX Runtime, on one thread, with graph optimizations off."""
        vectors = self.compute(run.sizes, lambda: self.session(run.constants, run.tensors, threads=1))
        for name, array in vectors.items():
            run.bind(name, array)

    def compute(
        self, dim_sizes: Mapping[str, int], session: Callable[[], Session]
    ) -> dict[str, NDArray[Any]]:
        """Compute the values of the step, by tensor.

        Args:
            dim_sizes: The free sizes, by name.
            session: What runs the model.
        Raises:
            QuantValueError: A size is not known.
        """
        vectors = {
            name: self._vector(dims, dim_sizes) for name, dims in zip(self.inputs, self.sizes, strict=True)
        }
        outputs = session().run(vectors) if self.model else {}
        return {y: vectors[y] if y in vectors else outputs[y] for y in self.ys}

    def _vector(self, dims: tuple[Dim, ...], dim_sizes: Mapping[str, int]) -> NDArray[np.int64]:
        values = [value_of(dim, dim_sizes) for dim in dims]
        for dim, value in zip(dims, values, strict=True):
            if value is None:
                raise QuantValueError(
                    f"step '{self.name}'", f"the size {dim}", "sizes that the plan's inputs tell",
                    "give inputs of the shapes that the model was made for",
                )  # fmt: skip
        return np.array(values, np.int64)
