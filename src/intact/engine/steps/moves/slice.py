"""The step that reads every so many elements along each axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.step import Step
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Read, Write


@dataclass(frozen=True)
class Slice(Step):
    """One (start, step) for each axis; y's shape says how many: to the end, where that size is new.

    Split is several of these.
    """

    kind = "slice"
    x: Read
    y: Write
    starts: tuple[int, ...]
    steps: tuple[int, ...]

    rules = """
        one_dtype(x, y)
        per_axis(x, y, starts, steps)
        least(starts) >= 0 | starts from the first element
    """

    def output_shape(self, sizes: Sizes) -> Shape:
        """Return the sizes of the plan; an axis without one is read to its end."""
        x, shape = sizes.of(self.x), sizes.partial_shape(self.y)
        output_sizes = []
        for axis, (size, want, start, hop) in enumerate(zip(x, shape, self.starts, self.steps, strict=True)):
            count = _rest(size, start, hop) if want is None else want
            last = start + hop * (count - 1)
            if count and not (0 <= start < size and 0 <= last < size):
                got = f"size {size} in dimension {axis}"
                raise mismatch(self.x, got, f"one that holds {count} elements from {start} in steps of {hop}")
            output_sizes.append(count)
        return tuple(output_sizes)

    def evaluate(self, run: Run) -> None:
        x, shape = run.array(self.x), run.partial_shape(self.y)
        for axis, (start, hop, want) in enumerate(zip(self.starts, self.steps, shape, strict=True)):
            size = _rest(x.shape[axis], start, hop) if want is None else want
            x = np.take(x, start + hop * np.arange(size), axis=axis)
        run.bind(self.y, x)


def _rest(size: int, start: int, hop: int) -> int:
    """Count the elements up to the end of an axis."""
    return len(range(start, size if hop > 0 else -1, hop))
