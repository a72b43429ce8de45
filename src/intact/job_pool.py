"""Independent jobs, here or elsewhere: the seam behind which other machines are.

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
    """Does jobs."""

    @property
    def size(self) -> int:
        """How many jobs are under way at once."""

    @property
    def threads(self) -> int | None:
        """Threads that each job may use; None: as its caller would."""

    def map(
        self, work: Callable[[Common, Item], Result], common: Common, items: Iterable[Item]
    ) -> Iterator[Result]:
        """Return ``work(common, item)`` for each of `items`, in their order; arrays in it may be read-only.

        Items are drawn as jobs finish, few ahead of them. An error of a job is raised in its turn, after the
        results before it.
        """


class InProcess:
    """One job after the other, in this process."""

    size = 1
    threads = None

    def map(
        self, work: Callable[[Common, Item], Result], common: Common, items: Iterable[Item]
    ) -> Iterator[Result]:
        """See `JobPool.map`."""
        for item in items:
            yield work(common, item)
