"""The table of verbs and what is common to them: help, version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import intact
from intact.cli import kernels, quickstart, report

VERBS: dict[str, Callable[..., None]] = {
    "quickstart": quickstart.run,
    "report": report.run,
    "kernels": kernels.run,
}


def build() -> typer.Typer:
    """The whole command line, to be called with the list of arguments."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_common)
    for name, run in VERBS.items():
        app.command(name)(run)
    return app


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"intact {intact.__version__}")
        raise typer.Exit


def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """INT activations and weights, accuracy intact: what you simulate is what you run."""
