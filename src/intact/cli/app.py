"""Builds the command line from the table of verbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import intact
from intact.cli.trtexec_options import TrtexecCommand
from intact.cli.verbs import (
    analyze,
    bench,
    cache,
    calibrate,
    check,
    convert,
    explain,
    kernels,
    language_models,
    onnxruntime_programs,
    quantize,
    quickstart,
    report,
    run,
    strip,
    trtexec,
    tune,
    verify,
)
from intact.cli.verbs import build as build_plan
from intact.cli.verbs.models import embed
from intact.cli.verbs.tensorrt import export, migrate
from intact.processes import untrusted_files

VERBS: dict[str, Callable[..., None]] = {
    "quickstart": quickstart.run,
    "quantize": quantize.run,
    "analyze": analyze.run,
    "tune": tune.run,
    "calibrate": calibrate.run,
    "explain": explain.run,
    "check": check.run,
    "strip": strip.run,
    "convert": convert.run,
    "build": build_plan.run,
    "run": run.run,
    "embed": embed.run,
    "bench": bench.run,
    "verify": verify.run,
    "report": report.run,
    "kernels": kernels.run,
    "migrate": migrate.run,
    "export": export.run,
    "trtexec": trtexec.run,
}
COMMANDS = {"trtexec": TrtexecCommand}
"""Verbs that read their command line otherwise than typer does."""

GROUPS: dict[str, tuple[str, dict[str, Callable[..., None]]]] = {
    "cache": ("Translate between TensorRT's calibration caches and explicit Q/DQ files.", cache.VERBS),
    "ort": ("Programs that call onnxruntime: what became of their models.", onnxruntime_programs.VERBS),
    "lm": ("Language models: quantize, run, chat, compare, serve.", language_models.VERBS),
}


def build() -> typer.Typer:
    """Build the whole command line, to be called with the list of arguments."""
    app = _table(VERBS)
    app.callback()(_common)
    for name, (says, verbs) in GROUPS.items():
        app.add_typer(_table(verbs), name=name, help=says)
    return app


def _table(verbs: dict[str, Callable[..., None]]) -> typer.Typer:
    table = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, verb in verbs.items():
        table.command(name, cls=COMMANDS.get(name))(verb)
    return table


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"intact {intact.__version__}")
        raise typer.Exit


def _common(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    untrusted: Annotated[
        bool, typer.Option("--untrusted", help="Try files in a limited process first: they are strangers'.")
    ] = False,
) -> None:
    """INT activations and weights, accuracy intact: what you simulate is what you run."""
    context.with_resource(untrusted_files(untrusted))
