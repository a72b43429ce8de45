"""The step that reads whole rows and columns, such as nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Read, Reads, Write


@dataclass(frozen=True)
class Resize(Step):
    """Nearest neighbour, and whatever else reads the same places of an axis everywhere.

    Attributes:
        axes: That change.
        indices: int64, for each of them: what y reads. Constant, or following from sizes alone.
    """

    kind = "resize"
    x: Read
    y: Write
    axes: tuple[int, ...]
    indices: Annotated[tuple[str, ...], Reads(constant=True)]

    rules = """
        one_dtype(x, y)
        rank(x) == rank(y) | one rank
        are_axes(axes, rank(x)) and len(axes) == len(indices) | axes of x, with indices for each
        types(*indices, 'int64')
        ranks(1, *indices)
    """

    def output_shape(self, sizes: Sizes) -> Shape:
        """Return as many elements per axis as there are indices."""
        shape = list(sizes.of(self.x))
        for axis, indices in zip(self.axes, self.indices, strict=True):
            shape[axis] = sizes.of(indices)[0]
        return tuple(shape)

    def evaluate(self, run: Run) -> None:
        x = run.array(self.x)
        for axis, name in zip(self.axes, self.indices, strict=True):
            x = np.take(x, run.array(name), axis=axis)
        run.bind(self.y, x)
