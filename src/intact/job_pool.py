"""The interface of pools that run independent jobs, in this process or on other machines.

What can be done in parallel is written as ``work(common, item)``, a function of a module, and handed to a
pool. It may be done anywhere, in any order: it leaves `common` as it found it, but for what it keeps there
for later jobs. `intact.ray_pool.RayPool` sends jobs to a Ray cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

Common = TypeVar("Common")
Item = TypeVar("Item")
Result = TypeVar("Result")


class JobPool(Protocol):
    """Runs independent jobs."""

    @property
    def size(self) -> int:
        """The number of jobs that run at once."""

    @property
    def threads(self) -> int | None:
        """The threads that each job may use; None: as its caller would."""

    def map(
        self, work: Callable[[Common, Item], Result], common: Common, items: Iterable[Item]
    ) -> Iterator[Result]:
        """Yield ``work(common, item)`` for each of `items`, in order; arrays in it may be read-only.

        Items are drawn as jobs finish, few ahead of them. An error of a job is raised in its turn, after the
        results before it.
        """


class InProcess:
    """Runs jobs one after the other in this process."""

    size = 1
    threads = None

    def map(
        self, work: Callable[[Common, Item], Result], common: Common, items: Iterable[Item]
    ) -> Iterator[Result]:
        """Run the jobs in order, as `JobPool.map` describes."""
        for item in items:
            yield work(common, item)
