"""IProgressMonitor: is told how far a build is, and may stop it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class IProgressMonitor:
    """What a script subclasses: ``phase_start``, ``step_complete`` and ``phase_finish``."""

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        """A phase of `num_steps` steps begins."""

    def step_complete(self, phase_name: str, step: int) -> bool:
        """A step is done; False stops the build."""
        return True

    def phase_finish(self, phase_name: str) -> None:
        """A phase is over."""


@contextmanager
def phases(monitor: Any) -> Iterator[Callable[[], bool]]:
    """A build that tells `monitor` (or nobody) of its phase; inside, whether it was stopped."""
    name = "Building Engine"
    if monitor is None:
        yield lambda: False
        return
    monitor.phase_start(name, None, 1)
    try:
        yield lambda: monitor.step_complete(name, 0) is False
    finally:
        monitor.phase_finish(name)
