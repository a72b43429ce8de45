"""``intact ort`` shows what became of models of programs that call onnxruntime, and lets an environment's
programs run on the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from intact.cli.printing import say, show_json, show_table
from intact.cli.shared_options import AsJson

if TYPE_CHECKING:
    from intact.ort.records import ModelRecord
User = Annotated[bool, typer.Option("--user", help="In the folder of the user's own packages.")]
PageFile = Annotated[
    Path | None, typer.Option("--page", help="Write an HTML page with plots.", dir_okay=False)
]

_FIGURES = ("runs", "in the engine", "times as fast", "close to float")
_COLUMNS = ("model", "program", "state", *_FIGURES)


def status(page: PageFile = None, as_json: AsJson = False) -> None:
    """Show for each model that programs have run: its state, runs, speed-up and closeness to float.

    Records lie in the cache folder: INTACT_ORT_CACHE, else intact/ort in the user's cache folder.

    Examples:

    - `python -m intact.ort app.py`, then `intact ort status`
    - `intact ort status --page status.html`
    """
    from intact.ort import status as model_records

    records = model_records(everything=True)
    if page is not None:
        _write_page(records, page)
    if as_json:
        show_json([asdict(record) for record in records])
        return
    if not records:
        say("no program has run a model yet: python -m intact.ort app.py")
        return
    show_table(
        "Models of programs that call onnxruntime", _COLUMNS, [_row(r) for r in records], figures=_FIGURES
    )
    for record in records:
        _explain(record)
    if page is not None:
        say(f"wrote {page}")


def enable(user: User = False) -> None:
    """Let all programs of this Python environment that import onnxruntime run on the engine.

    It writes one file, intact-ort.pth, among the environment's packages.

    Examples:

    - `intact ort enable`
    - `intact ort enable --user`
    """
    from intact.ort import enable as write

    say(f"wrote {write(user=user)}")


def disable(user: User = False) -> None:
    """Undo `intact ort enable`: remove its file.

    Examples:

    - `intact ort disable`
    """
    from intact.ort import disable as remove

    path = remove(user=user)
    say("there was no file of intact ort enable" if path is None else f"removed {path}")


VERBS: dict[str, Callable[..., None]] = {"status": status, "enable": enable, "disable": disable}


def _row(record: ModelRecord) -> tuple[str, ...]:
    from intact.ort.records import figure_of_metric, name_of

    return (
        name_of(record), record.program, record.state, f"{record.runs:,}",
        f"{record.engine_runs:,}", f"{record.speedup:.2f}" if record.speedup is not None else "",
        (figure_of_metric(record) or "equal") if record.candidate else "",
    )  # fmt: skip


def _explain(record: ModelRecord) -> None:
    from intact.ort.records import counts_of, name_of, text_of_repeats

    name = name_of(record)
    lines = [record.why, record.help and f"what would help: {record.help}"]
    lines += [f"in float: {line}" for line in record.in_float]
    lines += [text_of_repeats(record)]
    lines += [f"{count} runs: {label}" for count, label in counts_of(record) if count]
    lines += [f"last error: {record.last_error}"] if record.last_error else []
    for line in filter(None, lines):
        say(f"{name}: {line}")


def _write_page(records: list[ModelRecord], path: Path) -> None:
    from intact.ort.records import name_of
    from intact.report import Cell, Page, ReportTable, write_page

    fastest = max((record.speedup or 0.0 for record in records), default=0.0) or 1.0
    rows = []
    for record in records:
        cells: list[str | Cell] = list(_row(record))
        speedup = record.speedup or 0.0
        cells[_COLUMNS.index("times as fast")] = Cell(f"{speedup:.2f}", bar=speedup / fastest)
        share = record.engine_runs / max(1, record.runs)
        cells[_COLUMNS.index("in the engine")] = Cell(f"{record.engine_runs:,}", bar=min(1.0, share))
        rows.append(cells)
    reasons = [(name_of(record), record.why, record.help, "; ".join(record.in_float)) for record in records]
    write_page(
        Page(
            "Models of programs that call onnxruntime",
            "State, runs, speed and closeness to float of each model in the cache folder.",
            [
                ReportTable("Models", _COLUMNS, rows, "Bars: share of the engine's runs; speed"),
                ReportTable(
                    "Reasons", ("model", "why in float", "what would help", "layers in float"), reasons,
                    prose=True,
                ),
            ],
        ),
        path,
    )  # fmt: skip
