"""Progress bars on standard error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Self

from intact.terminal import printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Progress:
    """Shows a progress bar on standard error, or nothing.

    Args:
        title: What is being done.
        total: Number of steps; None where it is not known.
        shown: False: draw nothing, as where standard error is no terminal.
    """

    def __init__(self, title: str, total: int | None, shown: bool) -> None:
        self._bar = _bar() if shown else None
        if self._bar is not None:
            self._task = self._bar.add_task(printable(title), total=total)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, title: str | None = None, done: int | None = None) -> None:
        """Advance by one step, or to `done` steps in all."""
        if self._bar is not None:
            description = None if title is None else printable(title)
            steps = 1 if done is None else None
            self._bar.update(self._task, description=description, completed=done, advance=steps)

    def over(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield `items`, one step each."""
        for item in items:
            yield item
            self.advance()


def _bar() -> Bar | None:
    """Return a bar; None where standard error is no terminal."""
    from rich.console import Console  # slow to import, and most programs draw nothing

    console = Console(stderr=True)
    if not console.is_terminal:
        return None
    from rich import progress

    # No markup: titles name files and tensors, whose brackets mean nothing.
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
    )
    return progress.Progress(*columns, console=console, transient=True)


@contextmanager
def waiting(title: str, shown: bool) -> Iterator[None]:
    """Show a bar without steps while the block runs."""
    with Progress(title, None, True) if shown else nullcontext():
        yield
