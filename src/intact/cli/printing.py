"""Prints the output of verbs: tables for people, JSON for scripts, and errors.

Nothing else prints. Names come from files and users: here they lose what would steer a terminal, and what
rich would take for its markup. JSON stays exact: what does not print is escaped as JSON escapes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from intact.terminal import printable


def show_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, figures: Sequence[str] = ()
) -> None:
    """Print a table of text; the columns named in `figures` stand on the right."""
    table = Table(title=Text(printable(title), style="table.title"), title_justify="left")
    for column in columns:
        side = "right" if column in figures else "left"
        table.add_column(Text(printable(column)), justify=side, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)


def show_json(value: object) -> None:
    """Print `value` as JSON, and nothing else."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    typer.echo("\n".join(map(_escape, text.split("\n"))))


def _escape(line: str) -> str:
    """Escape unprintable characters in a line of JSON, where only strings can hold them."""
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def say(text: object) -> None:
    """Print one line."""
    typer.echo(printable(text))


def complain(text: object) -> None:
    """Print one line on standard error."""
    print(printable(text), file=sys.stderr)


def threads_in_words(threads: int) -> str:
    """Return "1 thread", "2 threads" and so on."""
    return f"{threads} thread" if threads == 1 else f"{threads} threads"


def size_with_data(model: Path) -> int | None:
    """Return the bytes of a file and of its weights beside it; None of a pipe or a device."""
    from intact.graph import data_files

    if not model.is_file():
        return None

    return sum(file.stat().st_size for file in (model, *data_files(model)))
