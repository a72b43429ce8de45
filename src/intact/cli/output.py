"""What verbs print: tables for people, JSON for scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text


def show_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, figures: Sequence[str] = ()
) -> None:
    """Print a table of text; the columns named in `figures` stand on the right."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in figures else "left", overflow="fold")
    for row in rows:
        # Text: names of tensors hold brackets, which rich would take for its markup.
        table.add_row(*(Text(str(cell)) for cell in row))
    Console().print(table)


def show_json(value: object) -> None:
    """Print `value` as JSON, and nothing else."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def say(text: str) -> None:
    """Print a line as it is."""
    typer.echo(text)


def counted(threads: int) -> str:
    """ "1 thread", "2 threads"."""
    return f"{threads} thread" if threads == 1 else f"{threads} threads"
