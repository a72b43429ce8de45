"""Scripts of the user's own, which are run: what goes wrong in one is told as its own."""

from __future__ import annotations

import runpy
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from intact.errors import IntactError, QuantValueError


def call(path: Path, name: str, returns: str) -> Any:
    """What function `name` of a .py file returns. The file is EXECUTED.

    Args:
        path: The script.
        name: Of a function without arguments.
        returns: What that should return, for errors.
    Raises:
        QuantValueError: The file has no such function, or raises, or exits.
    """
    with blamed(f"file '{path}'"):
        made = runpy.run_path(str(path)).get(name)
        if callable(made):
            return made()
    raise QuantValueError(
        f"file '{path}'", f"no function {name}", f"{name}() that returns {returns}", "define it there"
    )


def blamed_over(items: Iterable[Any], whose: str) -> Iterator[Any]:
    """`items`, made by the user's code: what goes wrong in there is told as its own."""
    with blamed(whose):
        iterator = iter(items)
    while True:
        with blamed(whose):
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


@contextmanager
def blamed(whose: str) -> Iterator[None]:
    """What the block raises, or where it exits, becomes an error that says whose it is; IntactErrors stay.

    Args:
        whose: The file or module, in words.
    Raises:
        QuantValueError: With the error of the user's code, and the line, as the cause.
    """
    try:
        yield
    except IntactError:
        raise
    # SystemExit too: a script must not choose the status of this process.
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise QuantValueError(
            whose,
            f"{type(error).__name__}: {error}, raised in '{last.filename}', line {last.lineno}",
            "code that runs",
            "mend this code: it is not INTact's",
        ) from error
