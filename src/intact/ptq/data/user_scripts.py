"""Runs the user's own Python scripts; errors in them name the script and the line."""

from __future__ import annotations

import runpy
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from intact.errors import IntactError, QuantValueError


def call(path: Path, name: str, returns: str) -> Any:
    """Call function `name` of a .py file and return its result. The file is EXECUTED.

    Args:
        path: The script.
        name: Of a function without arguments.
        returns: What that should return, for errors.
    Raises:
        QuantValueError: The file has no such function, or raises, or exits.
    """
    return function(path, f"{name}()", returns)()


def function(path: Path, signature: str, returns: str) -> UserFunction:
    """Load a function of a .py file. The file is EXECUTED.

    Args:
        path: The script.
        signature: "name(argument)": the function that is looked for.
        returns: What it should return, for errors.
    Raises:
        QuantValueError: The file has no such function, or raises, or exits.
    """
    name, where = signature.partition("(")[0], f"file '{path}'"
    with attribute_errors(where, path):
        definition = runpy.run_path(str(path)).get(name)
    if not callable(definition):
        raise QuantValueError(
            where, f"no function {name}", f"{signature} that returns {returns}", "define it there"
        )
    return UserFunction(
        path, definition, f"{path.name} {blake2b(path.read_bytes(), digest_size=8).hexdigest()}"
    )


@dataclass(frozen=True)
class UserFunction:
    """Wraps a function of a script, so that its errors name the file.

    Attributes:
        path: The script.
        function: The function.
        key: Names the file and its content: who keeps what the function says knows when it may say otherwise.
    """

    path: Path
    function: Callable[..., Any]
    key: str

    def __call__(self, *arguments: Any) -> Any:
        with attribute_errors(f"file '{self.path}'", self.path):
            return self.function(*arguments)


def iterate_user_code(items: Iterable[Any], whose: str, path: Path) -> Iterator[Any]:
    """Iterate over `items`, made by the user's code in `path`, so that errors name that code.

    Args:
        items: What the code gives.
        whose: The function, as errors name it.
        path: Of the script.
    Raises:
        QuantValueError: The user's code raised an error; names the script.
    """
    with attribute_errors(whose, path):
        iterator = iter(items)
    while True:
        with attribute_errors(whose, path):
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


@contextmanager
def attribute_errors(whose: str, path: Path | None = None) -> Iterator[None]:
    """Turn errors and exits of the block into an error that names the user's file and line.

    Args:
        whose: The file or module, in words.
        path: The script, if it is one: its line is named, and where else the error was raised.
    Raises:
        QuantValueError: With the error of the user's code as the cause.
        IntactError: What the user's code asked of INTact was refused; names the line too.
    """
    try:
        yield
    except IntactError as error:
        line = _line_in(path, error)
        raise error if line is None else error.at(f"{whose}, line {line}") from error
    # SystemExit too: a script must not choose the status of this process.
    except (Exception, SystemExit) as error:
        raise QuantValueError(
            whose,
            f"{type(error).__name__}: {error}, {_places(path, error)}",
            "code that runs",
            "mend this code: it is not INTact's",
        ) from error


def _line_in(path: Path | None, error: BaseException) -> int | None:
    """Return the line of a script that the error went through last; None where it came through none."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((f.lineno for f in reversed(frames) if path is not None and f.filename == str(path)), None)


def _places(path: Path | None, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename is not None:  # of code that has not run yet
        return f"in '{error.filename}', line {error.lineno}"
    last, line = traceback.extract_tb(error.__traceback__)[-1], _line_in(path, error)
    called = "" if line is None or last.filename == str(path) else f"called in '{path}', line {line}, "
    return f"{called}raised in '{last.filename}', line {last.lineno}"
