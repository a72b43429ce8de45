"""IProgressMonitor: is told how far a build is, and may stop it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class IProgressMonitor:
    """Progress interface: a subclass defines ``phase_start``, ``step_complete`` and ``phase_finish``."""

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        """Begin a phase of `num_steps` steps."""

    def step_complete(self, phase_name: str, step: int) -> bool:
        """Note that a step is done; return False to stop the build."""
        return True

    def phase_finish(self, phase_name: str) -> None:
        """End a phase."""


@contextmanager
def phases(monitor: Any) -> Iterator[Callable[[], bool]]:
    """Report a build phase to `monitor` (or nobody); inside, a call returns whether it was stopped."""
    name = "Building Engine"
    if monitor is None:
        yield lambda: False
        return
    monitor.phase_start(name, None, 1)
    try:
        yield lambda: monitor.step_complete(name, 0) is False
    finally:
        monitor.phase_finish(name)
