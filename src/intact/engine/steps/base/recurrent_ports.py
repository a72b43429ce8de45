"""Ports of recurrent layers: all that their steps have but weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.checker import Checker
from intact.engine.steps.base.run import Run
from intact.engine.steps.base.sizes import Sizes, mismatch
from intact.engine.steps.base.tensors import Shape
from intact.engine.steps.base.wiring import Operand, Read, Write


@dataclass(frozen=True, kw_only=True)
class RecurrentPorts:
    """Fields of a step that runs a recurrent layer; `weight` is a constant of the step's own dtype.

    Attributes:
        x: [steps, batch, directions * gates * hidden]: inputs times their weights, and all biases.
        weight: Of states: [directions, gates * hidden, hidden], gates in ONNX's order.
        reverse: For each direction, whether it begins at the last step.
        h, c: The first states [directions, batch, hidden]; "" for 0.
        lengths: int32 [batch], how many steps each row has, at least 0 and at most all; "" for all.
        y: All states [steps, directions, batch, hidden]; "" where nobody reads them. So for the next two.
        last_h, last_c: The last states [directions, batch, hidden].
        batch_first: The batch is the first axis of all that has one; the others follow in their order.
    """

    x: Read
    weight: str
    reverse: tuple[bool, ...]
    h: Operand = ""
    c: Operand = ""
    lengths: Operand = ""
    y: Write = ""
    last_h: Write = ""
    last_c: Write = ""
    batch_first: bool = False

    def check_ports(self, checker: Checker, cell: str) -> None:
        """Refuse weights, states and lengths that no layer of this cell has."""
        directions, rows, hidden = shape = checker.sizes(self.weight)
        fits = directions == len(self.reverse) > 0 and rows == numerics.GATES[cell] * hidden > 0
        checker.that(fits, shape, "weights of each direction, gate and state")
        states = [name for name in (self.h, self.c, self.last_h, self.last_c) if name]
        checker.that(set(checker.rank(self.x, *states)) == {3}, (self.x, *states), "tensors of rank 3")
        checker.floats(self.x)
        checker.that(bool(self.y or self.last_h or self.last_c), "no outputs", "some")
        checker.that(not (self.c or self.last_c) or cell == "lstm", cell, "a cell with two states")
        if self.y:
            checker.that(checker.rank(self.y) == (4,), self.y, "a tensor of rank 4")
        if self.lengths:
            is_vector = checker.rank(self.lengths) == (1,) and checker.dtype(self.lengths) == "int32"
            checker.that(is_vector, self.lengths, "int32 of rank 1")

    def output_shapes(self, sizes: Sizes) -> tuple[Shape, ...]:
        directions, rows, hidden = sizes.of(self.weight)
        steps, batch, width = self._steps_first(sizes.of(self.x))
        if width != directions * rows:
            raise mismatch(self.x, f"size {width} in its last dimension", f"{directions * rows}")
        state = self._batch_first((directions, batch, hidden))
        for name, wanted in ((self.h, state), (self.c, state), (self.lengths, (batch,))):
            if name and sizes.of(name) != wanted:
                raise mismatch(name, f"shape {sizes.of(name)}", f"{wanted}")
        every = self._batch_first((steps, directions, batch, hidden))
        return tuple(shape for name, shape in zip(self._outputs, (every, state, state), strict=True) if name)

    def macs(self, shape_of: Callable[[str], Shape]) -> int:
        steps, batch, _ = self._steps_first(shape_of(self.x))
        return steps * batch * prod(shape_of(self.weight))

    def run_directions(self, run: Run, cell: str, weights: Sequence[Any]) -> None:
        """Run all directions with these weights of states, and write what they make."""
        x = self._swap_batch_axis(run.array(self.x))
        shape = len(weights), x.shape[1], run.array(self.weight).shape[2]
        h, c = (self._state(run, name, shape) for name in (self.h, self.c))
        lengths = run.array(self.lengths) if self.lengths else None
        every = [
            numerics.recurrence(cell, start, weights[d], h[d], c[d], lengths, reverse=self.reverse[d])
            for d, start in enumerate(np.split(x, len(weights), axis=-1))
        ]
        states, last_h, last_c = (np.stack(arrays) for arrays in zip(*every, strict=True))
        for name, array in zip(self._outputs, (np.moveaxis(states, 0, 1), last_h, last_c), strict=True):
            if name:
                run.write_real(name, np.moveaxis(array, -2, 0) if self.batch_first else array)

    @property
    def _outputs(self) -> tuple[str, str, str]:
        return self.y, self.last_h, self.last_c

    def _batch_first(self, shape: Shape) -> Shape:
        """Return sizes with the batch last but one, as they are in ONNX."""
        return (shape[-2], *shape[:-2], shape[-1]) if self.batch_first else shape

    def _steps_first(self, shape: Shape) -> Shape:
        return (*shape[1:-1], shape[0], shape[-1]) if self.batch_first else shape

    def _swap_batch_axis(self, array: NDArray[np.float32]) -> NDArray[np.float32]:
        """Move the batch to the last axis but one."""
        return np.moveaxis(array, 0, -2) if self.batch_first else array

    def _state(self, run: Run, name: str, shape: Shape) -> NDArray[np.float32]:
        return self._swap_batch_axis(run.real(name)) if name else np.zeros(shape, np.float32)
