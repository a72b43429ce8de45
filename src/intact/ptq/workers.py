"""Runs of a model side by side: two at a time, whatever the machine, results in the order of the runs.

Two runs with half the threads each are faster than one run with all of them, and what NumPy and Python do
with one run's tensors overlaps with the next run. Two, not more: each holds the activations of its run.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _allowed() -> int:
    """Threads that the environment allows: Ray says so to its workers."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdecimal() and int(said) else _cores()


WORKERS = min(2, _cores())
"""How many runs are under way at once."""

THREADS = max(1, min(_cores() // WORKERS, _allowed()))
"""Threads that each of them may use."""


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """``map(work, items)``, `WORKERS` items at a time; reads at most so many items ahead.

    An error of one item is raised in its turn, after the results before it.
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(WORKERS) as pool:
        for item in items:
            if len(waiting) == WORKERS:
                yield waiting.popleft().result()
            waiting.append(pool.submit(work, item))
        while waiting:
            yield waiting.popleft().result()
