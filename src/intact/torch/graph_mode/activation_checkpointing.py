"""Activation checkpointing of a model with quantizers: what runs again in backward is quantized again.

``torch.utils.checkpoint`` calls a function in forward, and once more in backward, when the run of the model
is over and nobody counts its calls. `resume_checkpoints` lets the second time begin where the first one did.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from intact.torch.private_torch import CHECKPOINT_APPLY, CHECKPOINT_GENERATOR


class ResumableRun(Protocol):
    """A run of a model that can be taken up again."""

    def apart(self) -> AbstractContextManager[None]:
        """What is done inside shares no tensors of this run with what is done before and behind."""

    def kept(self) -> Callable[[], AbstractContextManager[Any]]:
        """What opens a run like this one, from where it is now; any number of times."""


def resume_checkpoints(running: Callable[[], ResumableRun | None]) -> None:
    """Let `torch.utils.checkpoint` take up runs again; once, for the process.

    By torch's own names, as a model's code may hold `checkpoint` since it was imported. Without these names
    everything stays as it is.

    Args:
        running: The run that this thread is in, if any.
    """
    generator = CHECKPOINT_GENERATOR.find()
    if generator is not None:
        CHECKPOINT_GENERATOR.replace(_without_reentrant(generator, running))
    if CHECKPOINT_APPLY.find() is not None:
        CHECKPOINT_APPLY.replace(_reentrant(CHECKPOINT_APPLY.require(), running))


def _without_reentrant(
    own: Callable[..., Any], running: Callable[[], ResumableRun | None]
) -> Callable[..., Any]:
    """torch calls the function itself between two steps of `own`; `own` calls it again in backward."""

    def around(run: ResumableRun, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        with run.apart():
            yield from steps

    @functools.wraps(own)
    def generator(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        run = running()
        if run is None:
            return own(function, *args, **kwargs)
        return around(run, own(_again(function, run), *args, **kwargs))

    return generator


def _reentrant(own: Callable[..., Any], running: Callable[[], ResumableRun | None]) -> Callable[..., Any]:
    """`own` calls the function, and calls it again in backward."""

    @functools.wraps(own)
    def apply(function: Callable[..., Any], *args: Any) -> Any:
        run = running()
        if run is None:
            return own(function, *args)
        again, times = _again(function, run), iter((function,))
        with run.apart():
            return own(lambda *given: next(times, again)(*given), *args)

    return apply


def _again(function: Callable[..., Any], run: ResumableRun) -> Callable[..., Any]:
    opened = run.kept()

    @functools.wraps(function)
    def again(*args: Any, **kwargs: Any) -> Any:
        with opened():
            return function(*args, **kwargs)

    return again
