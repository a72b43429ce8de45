"""The step that concatenates tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Reads, Write
from intact.engine.steps.elements.rescale import rescale_to


@dataclass(frozen=True)
class Concat(Step):
    """Concatenation. Inputs on another grid than y are rescaled (N28); constants are plain numbers."""

    kind = "concat"
    xs: Annotated[tuple[str, ...], Reads(constant=True)]
    y: Write
    axis: int

    rules = """
        -rank(y) <= axis < rank(y) | an axis of y
        len(xs) > 0 | tensors
        ranks(rank(y), *xs)
        one_dtype(*xs, y)
    """

    def output_shape(self, sizes: Sizes) -> Shape:
        first = list(sizes.of(self.xs[0]))
        axis = self.axis % len(first)
        first[axis] = 0
        for name in self.xs:
            shape = sizes.of(name)
            if len(shape) != len(first):
                raise mismatch(name, f"{len(shape)} dimensions", f"{len(first)}")
            for other, (size, want) in enumerate(zip(shape, first, strict=True)):
                if other != axis and size != want:
                    raise mismatch(name, f"size {size} in dimension {other}", f"{want}")
            first[axis] += shape[axis]
        return tuple(first)

    def evaluate(self, run: Run) -> None:
        if run.grid(self.y) is None:
            run.bind(self.y, np.concatenate([run.array(name) for name in self.xs], axis=self.axis))
            return
        parts = [rescale_to(run, name, self.y) for name in self.xs]
        run.write_codes(self.y, np.concatenate(parts, axis=self.axis))
