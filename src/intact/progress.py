"""The progress bar of everything that takes a while, on standard error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Self

from intact.terminal import printable


class Progress:
    """A progress bar on standard error, or none.

    Args:
        title: What is being done.
        total: Number of steps; None where it is not known.
        shown: False: draw nothing, as where standard error is no terminal.
    """

    def __init__(self, title: str, total: int | None, shown: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        # No markup: titles name files and tensors, whose brackets mean nothing.
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        console = Console(stderr=True)
        self._shown = shown and console.is_terminal
        self._bar = Bar(*columns, console=console, transient=True, disable=not self._shown)
        self._task = self._bar.add_task(printable(title), total=total)

    def __enter__(self) -> Self:
        if self._shown:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown:  # rich before 14.1 ends the bar that it does not draw with an empty line
            self._bar.stop()

    def advance(self, title: str | None = None, done: int | None = None) -> None:
        """One step more, or `done` in all."""
        said = None if title is None else printable(title)
        self._bar.update(self._task, description=said, completed=done, advance=1 if done is None else None)

    def over(self, items: Iterable[Any]) -> Iterator[Any]:
        """`items`, one step each."""
        for item in items:
            yield item
            self.advance()


@contextmanager
def waiting(title: str, shown: bool) -> Iterator[None]:
    """A bar without steps, or none, around what takes seconds and does not say how many."""
    with Progress(title, None, True) if shown else nullcontext():
        yield
