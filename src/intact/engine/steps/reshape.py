"""The same elements under another shape."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from intact.engine.steps.checker import Checker
from intact.engine.steps.run import Run
from intact.engine.steps.sizes import Sizes, mismatch
from intact.engine.steps.step import Step
from intact.engine.steps.tensors import Shape
from intact.engine.steps.wiring import Read, Write


@dataclass(frozen=True)
class Reshape(Step):
    """The same elements in ONNX's order under y's shape (Flatten, Squeeze, ... too)."""

    kind = "reshape"
    x: Read
    y: Write

    def check(self, checker: Checker) -> None:
        checker.one_dtype(self.x, self.y)

    def output_shape(self, sizes: Sizes) -> Shape:
        """As the plan says; at most one dimension is what is left."""
        elements, shape = prod(sizes.of(self.x)), sizes.declared(self.y)
        known = prod(d for d in shape if d is not None)
        unknown = sum(d is None for d in shape)
        if unknown > 1 or (elements % known if unknown and known else elements != known):
            raise mismatch(self.x, f"{elements} elements", f"as many as the shape {shape} of '{self.y}'")
        return tuple(elements // max(known, 1) if d is None else d for d in shape)

    def evaluate(self, run: Run) -> None:
        x = run.array(self.x)
        run.bind(self.y, x.reshape(run.shape_of(self.y, x.size)))
