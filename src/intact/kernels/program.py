"""Programs: native steps in order over blocks of memory, run without the interpreter.

A plan is bound to one (`HostedPlan`). Block 0 is the arena, memory of which each run has its own. Constants,
inputs and outputs are arrays of the caller. Native code refuses a step whose views leave their blocks, so
that no plan file can make a run touch other memory.

With INTACT_CHECK=1, runs of contexts that are made afterwards compare each step with what it declared. This
is slow, and for tests (csrc/runtime/checked.h).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.kernels import _native
from intact.kernels._arrays import thread_pool_size
from intact.kernels._native import (
    NEAR_BYTES,
    Context,
    HostedBound,
    HostedPlan,
    native_kinds,
    place_spans,
)

ARENA = 0
"""The number of the block that is the arena."""

__all__ = [
    "ARENA", "NEAR_BYTES", "Context", "HostedBound", "HostedPlan", "Program", "ThreadPool", "available_cpus",
    "crc32", "native_kinds", "place_spans", "unpack_block_codes",
]  # fmt: skip


def crc32(array: NDArray[Any]) -> int:
    """Return the CRC-32 of an array's bytes in their order, as `zlib.crc32` does, at the speed of memory."""
    return _native.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def unpack_block_codes(
    panels: NDArray[np.uint8], outputs: int, inputs: int, bits: int
) -> NDArray[np.uint8]:  # fmt: skip
    """Return codes in panels bit by bit, the lowest bit first, each output from a byte on: uint8 [bytes].

    Args:
        panels: uint8 [bytes], as the engine packs weights in blocks.
        outputs, inputs: Rows of codes, and codes of each, from 1 on.
        bits: Of each code, 2 to 8.
    Raises:
        FileFormatError: Panels of such codes have another size.
    """
    return _native.unpack_block_codes(np.ascontiguousarray(panels), outputs, inputs, bits)


def available_cpus() -> int:
    """Count the processors for this process: its affinity, limited by the quota of its cgroup."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return min(cpus, max(1, int(quota) // int(period)))
    except (OSError, ValueError):  # no such file, or "max"
        return cpus


def _is_checked() -> bool:
    return os.environ.get("INTACT_CHECK", "1" if _native.CHECKED else "0") == "1"


_MOST_SHARED = 2**23
_small_workspaces: list[_native.Workspace] = []
"""Idle memory of up to `_MOST_SHARED` bytes. A module that equals its file has an engine for each step."""


class ThreadPool:
    """Threads that any number of programs share. A run that finds them busy uses its own thread only.

    Args:
        threads: The number of threads, the caller included; None: one per processor.
    """

    def __init__(self, threads: int | None = None) -> None:
        cpus = available_cpus()
        self.threads = cpus if threads is None else thread_pool_size(threads)
        self.native = _native.ThreadPool(self.threads, self.threads <= cpus)
        self._idle: list[_native.Workspace] = []

    def take_workspace(self) -> _native.Workspace:
        """Take memory of runs, which programs share that take turns; it grows as they need."""
        for idle in (self._idle, _small_workspaces):
            with suppress(IndexError):
                return idle.pop()
        return _native.Workspace()

    def give_back(self, workspace: _native.Workspace) -> None:
        """Return memory of runs to other runs: of this pool, or, if it is small, of any."""
        is_small = workspace.nbytes <= _MOST_SHARED
        (_small_workspaces if is_small else self._idle).append(workspace)


class Program:
    """Native steps of a bound plan, which any number of threads may run at once.

    Args:
        thread_pool: The threads of a run.
        native: The steps and their blocks, as native code has them.
    """

    def __init__(self, thread_pool: ThreadPool, native: _native.Program) -> None:
        self.native, self.thread_pool = native, thread_pool
        self._idle: list[Context] = []
        self._workspaces: dict[Context, _native.Workspace] = {}

    @property
    def kernels(self) -> list[str]:
        """The name of each step in profiles."""
        return self.native.kernels

    def loops(self, step: int) -> dict[str, int]:
        """Return the products per run of each inner loop of a step, by name.

        Empty where there is only one loop.
        """
        return dict(self.native.loops(step))

    def items(self, step: int) -> int:
        """Return the number of pieces of work of a step."""
        return self.native.items(step)

    def largest_share(self, step: int) -> float:
        """Return the work of the busiest thread of a step, divided by an equal share: 1 is perfectly even.

        It is computed from the division of the work, without a run (csrc/runtime/balance.h).
        """
        return self.native.largest_share(step, self.thread_pool.threads)

    def __len__(self) -> int:
        return len(self.native)

    def take(self) -> Context:
        """Take a context that no other run uses, in memory that other programs use as well."""
        workspace = self.thread_pool.take_workspace()
        try:
            context = self._idle.pop()
            context.attach(workspace)
        except IndexError:
            thread_pool = self.thread_pool.native
            context = (
                Context(self.native, thread_pool, True)
                if _is_checked()
                else Context(self.native, thread_pool, workspace)
            )
        self._workspaces[context] = workspace
        return context

    def give_back(self, context: Context) -> None:
        """Return a context for other runs."""
        self.thread_pool.give_back(self._workspaces.pop(context))
        self._idle.append(context)
