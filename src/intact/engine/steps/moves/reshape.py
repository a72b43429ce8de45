"""The step that gives the same elements another shape."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Read, Write


@dataclass(frozen=True)
class Reshape(Step):
    """The same elements in ONNX's order under y's shape (Flatten, Squeeze, ... too)."""

    kind = "reshape"
    x: Read
    y: Write

    rules = """
        one_dtype(x, y)
    """

    def output_shape(self, sizes: Sizes) -> Shape:
        return self._output_shape(sizes.of(self.x), sizes.partial_shape(self.y))

    def evaluate(self, run: Run) -> None:
        x = run.array(self.x)
        run.bind(self.y, x.reshape(self._output_shape(x.shape, run.partial_shape(self.y))))

    def _output_shape(self, x: Shape, shape: tuple[int | None, ...]) -> Shape:
        """Return the shape of the plan; at most one dimension is inferred.

        No elements leave any number: then it is what x's other axes hold, so that [0, 4, 2] becomes [0, 8].
        """
        elements, unknown = prod(x), shape.count(None)
        product = prod(d for d in shape if d is not None)
        if unknown > 1 or (elements % product if unknown and product else elements != product):
            raise mismatch(self.x, f"{elements} elements", f"as many as the shape {shape} of '{self.y}'")
        if not product:
            elements = prod(sorted(x)[shape.count(0) :])
            product = prod(d for d in shape if d)
        return tuple(elements // product if d is None else d for d in shape)
