"""Programs: native steps in order over blocks of memory, run without the interpreter.

Block 0 is the arena, memory that every run has for itself. Constants, inputs and outputs are arrays of the
caller. Steps come from `intact.kernels.sums`, `planes` and `reals`; what they read and write they see
through a `View`. `Program.add` refuses a step whose views leave their blocks, so that nothing in a plan can
make a run touch other memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.kernels import _native
from intact.kernels._native import Step as NativeStep
from intact.kernels._native import View

ARENA = 0
"""The number of the arena's block."""
SLACK = 64
"""Bytes behind every tensor in the arena that kernels may read."""

__all__ = ["ARENA", "SLACK", "NativeStep", "Program", "View"]


class Program:
    """Blocks, then steps, then runs.

    Args:
        threads: Threads that a run may use, the caller's included.
    """

    def __init__(self, threads: int = 1) -> None:
        self.native = _native.Program()
        self.threads = threads
        self._inputs: list[int] = []
        self._outputs: list[int] = []
        self._idle: list[_native.Context] = []

    def arena(self, nbytes: int) -> None:
        """Give the arena its size; before the first step. `SLACK` more bytes are there behind it."""
        self.native.arena(nbytes)

    def constant(self, array: NDArray[Any]) -> int:
        """The number of a block that is this dense array. It is not copied."""
        return self.native.constant(array)

    def input(self, nbytes: int) -> int:
        """The number of a block that every run is given to read."""
        self._inputs.append(self.native.input(nbytes))
        return self._inputs[-1]

    def output(self, nbytes: int) -> int:
        """The number of a block that every run is given to write (and to read again)."""
        self._outputs.append(self.native.output(nbytes))
        return self._outputs[-1]

    def add(self, step: NativeStep) -> None:
        """Append a step.

        Raises:
            ValueError: One of its views does not lie within its block, or it writes what is only read.
        """
        self.native.add(step)

    def __len__(self) -> int:
        return len(self.native)

    def run(
        self,
        inputs: Sequence[NDArray[Any]],
        outputs: Sequence[NDArray[Any]],
        times: NDArray[np.float64] | None = None,
    ) -> None:
        """Run all steps.

        Args:
            inputs, outputs: Dense arrays, one for each block in the order in which they were made.
            times: Receives the seconds that each step took.
        """
        context = self.take()
        try:
            self.place(context, inputs, outputs)
            context.run(0, len(self), times)
        finally:
            self.give_back(context)

    def take(self) -> _native.Context:
        """A context that no other run uses."""
        try:
            return self._idle.pop()
        except IndexError:
            return _native.Context(self.native, self.threads)

    def give_back(self, context: _native.Context) -> None:
        """Let another run have this context."""
        self._idle.append(context)

    def place(
        self, context: _native.Context, inputs: Sequence[NDArray[Any]], outputs: Sequence[NDArray[Any]]
    ) -> None:
        """Say where inputs and outputs lie."""
        for block, array in zip(self._inputs, inputs, strict=True):
            context.place(block, array)
        for block, array in zip(self._outputs, outputs, strict=True):
            context.place(block, array)
