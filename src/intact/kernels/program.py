"""Programs: native steps in order over blocks of memory, run without the interpreter.

Block 0 is the arena, memory that every run has for itself. Constants, inputs and outputs are arrays of the
caller. Steps come from `intact.kernels.gemm`, `planes` and `floats`; what they read and write they see
through a `View`. `Program.add` refuses a step whose views leave their blocks, so that nothing in a plan can
make a run touch other memory.

INTACT_CHECK=1 holds every step of contexts made from then on to what it declared, at a price: for tests
(csrc/runtime/checked.h).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.kernels import _native
from intact.kernels._arrays import thread_pool_size
from intact.kernels._native import Context, View
from intact.kernels._native import Step as NativeStep

ARENA = 0
"""The number of the arena's block."""
SLACK = 64
"""Bytes behind every tensor in the arena that kernels may read."""

__all__ = ["ARENA", "SLACK", "Context", "NativeStep", "Program", "ThreadPool", "View", "available_cpus"]


def available_cpus() -> int:
    """Processors that this process may use: those that it may run on, and no more than its control group
    is given time for."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return min(cpus, max(1, int(quota) // int(period)))
    except (OSError, ValueError):  # no such file, or "max"
        return cpus


def _is_checked() -> bool:
    return os.environ.get("INTACT_CHECK", "1" if _native.CHECKED else "0") == "1"


class ThreadPool:
    """Threads that any number of programs share; a run that finds them busy does without.

    Args:
        threads: Their number, the caller's own included; None: one for each processor.
    """

    def __init__(self, threads: int | None = None) -> None:
        cpus = available_cpus()
        self.threads = cpus if threads is None else thread_pool_size(threads)
        self.native = _native.ThreadPool(self.threads, self.threads <= cpus)


class Program:
    """Blocks, then steps, then runs. Any number of threads may run it at once.

    Args:
        thread_pool: The threads of a run; or their number.

    Attributes:
        kernels: What each step calls itself.
    """

    def __init__(self, thread_pool: ThreadPool | int = 1) -> None:
        self.native = _native.Program()
        self.thread_pool = ThreadPool(thread_pool) if isinstance(thread_pool, int) else thread_pool
        self.kernels: list[str] = []
        self._inputs: list[int] = []
        self._outputs: list[int] = []
        self._idle: list[Context] = []

    def arena(self, nbytes: int) -> None:
        """Give the arena its size; before the first step. `SLACK` more bytes are there behind it."""
        self.native.arena(nbytes)

    def tensor(self, offset: int, nbytes: int) -> None:
        """Say where a tensor lies in the arena, its halo included: once one is said, views lie within one."""
        self.native.tensor(offset, nbytes)

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

    def window(self, block: int, offset: int, nbytes: int, stride: int, times: int) -> int:
        """The number of a block that is a part of another, of its `nbytes` from `offset` on: repeated steps
        see it `stride` bytes further each time, `times` times."""
        return self.native.window(block, offset, nbytes, stride, times)

    def thread_memory(self, offset: int, nbytes: int) -> int:
        """The number of a block of which each thread has its own, one behind the other in the arena, from
        `offset` on: for what repeated steps make for each other."""
        threads = self.thread_pool.threads
        return self.native.window(ARENA, offset, nbytes * threads, nbytes, threads, by_thread=True)

    def repeat(self, times: int) -> None:
        """Run the steps that are added from now on, until this is called again, so many times, as one.
        Threads share the times, not the steps."""
        self.native.repeat(times)

    def add(self, step: NativeStep) -> None:
        """Append a step.

        Raises:
            ValueError: One of its views does not lie within its block, or it writes what is only read.
        """
        self.native.add(step)
        self.kernels.append(step.name)

    def loops(self, step: int) -> dict[str, int]:
        """Products that each inner loop of a step forms in a run, by its name; none where there is one."""
        return dict(self.native.loops(step))

    def items(self, step: int) -> int:
        """Pieces of a step that can be dealt out to threads."""
        return self.native.items(step)

    def largest_share(self, step: int) -> float:
        """The work of the thread that has the most of a step, over what each had if all had the same.

        Found from how the step is cut and dealt out, without running it (csrc/runtime/balance.h): 1 is even.
        """
        return self.native.largest_share(step, self.thread_pool.threads)

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
        Raises:
            IndexError: A step met an index out of range.
            RuntimeError: A step broke its word, where they are checked.
        """
        context = self.take()
        try:
            self.place(context, inputs, outputs)
            if (step := context.run(0, len(self), times)) < len(self):
                raise IndexError(f"step {step} ({self.kernels[step]}) met an index out of range")
        finally:
            self.give_back(context)

    def take(self) -> Context:
        """A context that no other run uses."""
        try:
            return self._idle.pop()
        except IndexError:
            return Context(self.native, self.thread_pool.native, _is_checked())

    def give_back(self, context: Context) -> None:
        """Let another run have this context."""
        self._idle.append(context)

    def place(
        self, context: Context, inputs: Sequence[NDArray[Any]], outputs: Sequence[NDArray[Any]]
    ) -> None:
        """Say where inputs and outputs lie."""
        for block, array in zip(self._inputs, inputs, strict=True):
            context.place(block, array)
        for block, array in zip(self._outputs, outputs, strict=True):
            context.place(block, array)
