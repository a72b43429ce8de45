"""Support activation checkpointing: the second run of a function, in backward, is quantized as the first.

``torch.utils.checkpoint`` calls a function in forward, and again in backward, when the run of the model is
over and calls are no longer counted. `resume_checkpoints` makes the second call start from the counts of the
first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from intact.torch.private_torch import CHECKPOINT_APPLY, CHECKPOINT_GENERATOR


class ResumableRun(Protocol):
    """A run of a model that can be resumed."""

    def isolate(self) -> AbstractContextManager[None]:
        """Share no quantized tensors between the inside of the context and the rest of the run."""

    def snapshot(self) -> Callable[[], AbstractContextManager[Any]]:
        """Return a function that opens a run like this one, from its present state, any number of times."""


def resume_checkpoints(running: Callable[[], ResumableRun | None]) -> None:
    """Make `torch.utils.checkpoint` resume runs, for the rest of the process.

    It patches private names of torch, because a model's code may hold `checkpoint` since it was imported. In
    a torch without these names it does nothing.

    Args:
        running: Returns the run that this thread is in, if any.
    """
    generator = CHECKPOINT_GENERATOR.find()
    if generator is not None:
        CHECKPOINT_GENERATOR.replace(_wrap_generator(generator, running))
    if CHECKPOINT_APPLY.find() is not None:
        CHECKPOINT_APPLY.replace(_wrap_apply(CHECKPOINT_APPLY.require(), running))


def _wrap_generator(
    own: Callable[..., Any], running: Callable[[], ResumableRun | None]
) -> Callable[..., Any]:
    """Wrap torch's generator, which brackets the first call and makes the second one itself, in backward."""

    def around(run: ResumableRun, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        with run.isolate():
            yield from steps

    @functools.wraps(own)
    def generator(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        run = running()
        if run is None:
            return own(function, *args, **kwargs)
        return around(run, own(_resuming(function, run), *args, **kwargs))

    return generator


def _wrap_apply(own: Callable[..., Any], running: Callable[[], ResumableRun | None]) -> Callable[..., Any]:
    """Wrap the autograd function that makes both calls itself."""

    @functools.wraps(own)
    def apply(function: Callable[..., Any], *args: Any) -> Any:
        run = running()
        if run is None:
            return own(function, *args)
        again, times = _resuming(function, run), iter((function,))
        with run.isolate():
            return own(lambda *call_args: next(times, again)(*call_args), *args)

    return apply


def _resuming(function: Callable[..., Any], run: ResumableRun) -> Callable[..., Any]:
    open_run = run.snapshot()

    @functools.wraps(function)
    def again(*args: Any, **kwargs: Any) -> Any:
        with open_run():
            return function(*args, **kwargs)

    return again
