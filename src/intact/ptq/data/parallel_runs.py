"""Runs a model on two inputs at a time, and returns results in the order of the inputs.

Two runs with half the threads each are faster than one run with all of them, and what NumPy and Python do
with one run's tensors overlaps with the next run. Two, not more: each holds the activations of its run.

Runs of a millisecond are faster one after the other: two threads that are in Python most of the time wait for
each other's lock.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _thread_limit() -> int:
    """Return the number of threads that OMP_NUM_THREADS allows; Ray sets it for its workers."""
    setting = os.environ.get("OMP_NUM_THREADS", "")
    return int(setting) if setting.isdecimal() and int(setting) else _cores()


WORKERS = min(2, _cores())
"""Number of runs that are under way at once."""

THREADS = max(1, min(_cores() // WORKERS, _thread_limit()))
"""Threads that each of them may use."""


_SMALL = 3e-3
"""Seconds that the fastest of some runs may take without being worth another thread."""

_FIRST = 5e-3
"""Seconds that the first run of a session may take beyond that: it allocates."""

_WATCHED = 4
"""Latest runs, of which the fastest counts: other programs make runs longer, never shorter."""


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield ``map(work, items)``, `WORKERS` items at a time; reads at most so many items ahead.

    An error of one item is raised in its turn, after the results before it. Small items are not handed to
    other threads: what is found does not depend on it.
    """
    remaining, latest = iter(items), deque[float](maxlen=_WATCHED)
    for number, item in enumerate(remaining):
        start = time.perf_counter()  # the clock of a thread takes 0.6 ms on some virtual machines
        result = work(item)
        latest.append(time.perf_counter() - start)
        yield result
        if min(latest) > _SMALL + (0 if number else _FIRST):
            break
    yield from _side_by_side(work, remaining)


def _side_by_side(work: Callable[[Item], Result], items: Iterator[Item]) -> Iterator[Result]:
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(WORKERS) as pool:
        for item in items:
            if len(waiting) == WORKERS:
                yield waiting.popleft().result()
            waiting.append(pool.submit(work, item))
        while waiting:
            yield waiting.popleft().result()
