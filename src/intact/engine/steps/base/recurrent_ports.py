"""Ports of recurrent layers: all that their steps have but weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from intact import numerics
from intact.engine.steps.base.run import Run
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

    rules: ClassVar[str] = """
        weight[0] == len(reverse) and min(weight) > 0 | weights of each direction, gate and state
        weight[1] == gates * weight[2] | weights of each direction, gate and state
        ranks(3, x, h, c, last_h, last_c)
        floats(x)
        y or last_h or last_c | outputs
        gates == 4 or not c and not last_c | a cell with two states
        ranks(4, y)
        ranks(1, lengths)
        types(lengths, 'int32')
        batch = x[0] if batch_first else x[1]
        steps = x[1] if batch_first else x[0]
        state = [batch, weight[0], weight[2]] if batch_first else [weight[0], batch, weight[2]]
        fits x: x[2] == weight[0] * weight[1] | as many columns as all gates have
        fits h: not h or [*h] == state | a state for each direction and sequence
        fits c: not c or [*c] == state | a state for each direction and sequence
        fits lengths: not lengths or [*lengths] == [batch] | a length for each sequence
        sizes y: [batch, steps, weight[0], weight[2]] if batch_first else [steps, weight[0], batch, weight[2]]
        sizes last_h: state
        sizes last_c: state
    """

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

    def _steps_first(self, shape: Shape) -> Shape:
        return (*shape[1:-1], shape[0], shape[-1]) if self.batch_first else shape

    def _swap_batch_axis(self, array: NDArray[np.float32]) -> NDArray[np.float32]:
        """Move the batch to the last axis but one."""
        return np.moveaxis(array, 0, -2) if self.batch_first else array

    def _state(self, run: Run, name: str, shape: Shape) -> NDArray[np.float32]:
        return self._swap_batch_axis(run.real(name)) if name else np.zeros(shape, np.float32)
