"""The HTML page of a migration to TensorRT 11: precision and answers, layer by layer, and edited scripts."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING

from intact.report.html_page import Page
from intact.report.table import Cell, ReportTable

if TYPE_CHECKING:
    from intact.engine.compare import Distance
    from intact.trt.migration import Answers, LayerAnswer, Migration, OutputAnswer

_Row = tuple[str | Cell, ...]


def migration_page(migration: Migration, out: str, model: str) -> Page:
    """Build the page without writing it.

    Args:
        migration: What is shown.
        out: Name of the Q/DQ file.
        model: Name of the float model.
    """
    tables = [_outputs(migration), _layers(migration), _names(migration), _findings(migration)]
    tables += [_edits(migration), _open_points(migration)]
    done = migration.from_cache
    return Page(
        title=f"{model}: from implicit int8 to {out}",
        summary=summary(migration),
        tables=[table for table in tables if table.rows],
        configuration={
            "made from": migration.recipe.kind, "scales in it": str(len(migration.recipe.cache.scales)),
            "tensors with pairs": str(done.pairs), "measured on": migration.data,
            "layers pinned to float": ", ".join(migration.recipe.floats) or "none",
            "implicit engine": "INTact's, with int8 wherever ranges and pins allow it",
        },
    )  # fmt: skip


def summary(migration: Migration) -> str:
    """Return in words what the answers are."""
    answers = migration.answers
    changed = [layer for layer in answers.layers if layer.before != layer.after]
    layers = f"{len(changed)} of {len(answers.layers)} layers run in another precision"
    if not changed:
        layers = f"all {len(answers.layers)} layers run in the precision that they had"
    if answers.is_equal:
        equal = "The file's answers are those of the implicit engine, to the bit"
        return f"{equal}, on {migration.data}; {layers}."
    worst = min(output.difference.decibels for output in answers.outputs)
    far = f"The file's answers differ from those of the implicit engine by at most {answers.largest:.4g}"
    return f"{far} ({_decibels(worst)}), on {migration.data}; {layers}."


def _outputs(migration: Migration) -> ReportTable:
    rows: list[_Row] = [_figures(output.name, output) for output in migration.answers.outputs]
    return ReportTable(
        "Answers",
        ("output", "differ", "largest difference", "between both", "implicit engine", "file"), rows,
        f"Measured on {migration.data}. The last two columns: signal to noise ratio against the float model.",
    )  # fmt: skip


def _figures(name: str, answer: OutputAnswer | LayerAnswer) -> _Row:
    difference = answer.difference
    if not difference.compared:
        return (name, "", "", "", "", "")
    return (
        name, f"{difference.differing:,} of {difference.compared:,}", f"{difference.largest:.4g}",
        _distance(difference), _distance(answer.loss_before), _distance(answer.loss_after),
    )  # fmt: skip


def _layers(migration: Migration) -> ReportTable:
    rows: list[_Row] = []
    for layer in migration.answers.layers:
        name, *figures = _figures(layer.name, layer)
        change = layer.after if layer.before == layer.after else f"{layer.before or 'none'} to {layer.after}"
        rows.append((Cell(str(name), detail=f"{layer.fused}: {layer.reason}"), change, *figures))
    columns = ("layer", "runs in", "differ", "largest difference", "between both", "implicit engine", "file")
    return ReportTable(
        "Layers", columns, rows,
        "Outputs of each layer in the first batches. The last two columns: signal to noise ratio against the "
        "float model, with the error of the layers in front. Empty: the engines have no such tensor.",
    )  # fmt: skip


def _names(migration: Migration) -> ReportTable:
    done = migration.from_cache
    kinds = {
        "has a scale, and is no tensor of the model": done.strangers,
        "has no scale: what reads it stays in float": done.missing,
        "has scale 0 (zero throughout): its scale is 1": done.zero,
    }
    rows = [(name, what) for what, names in kinds.items() for name in names]
    return ReportTable("Names that do not match", ("tensor", "what it means"), rows, prose=True)


def _findings(migration: Migration) -> ReportTable:
    rows = [(f.node, f.severity, f"{f.rule}: {f.message}", f.fix) for f in migration.findings]
    return ReportTable(
        "What TensorRT's parser and builder will say", ("layer", "severity", "rule", "what to do"), rows,
        "Predicted by the rules of intact check.", prose=True,
    )  # fmt: skip


def _edits(migration: Migration) -> ReportTable:
    rows = [
        (f"{edit.name}, line {change.line}", change.text.strip() or "taken out", change.reason)
        for edit in migration.edits for change in edit.changes
    ]  # fmt: skip
    return ReportTable(
        "What the patch changes in the scripts", ("where", "now", "why"), rows,
        "Apply it with patch -p1 in the folder that these names are relative to.", prose=True,
    )  # fmt: skip


def _open_points(migration: Migration) -> ReportTable:
    rows = [
        (f"{edit.name}, line {point.line}", point.what, point.advice)
        for edit in migration.edits for point in edit.open_points
    ]  # fmt: skip
    return ReportTable(
        "What is left to do by hand",
        ("where", "what TensorRT 11 does not have", "what to do"),
        rows,
        prose=True,
    )


def _distance(distance: Distance) -> str:
    return "equal" if not distance.differing else _decibels(distance.decibels)


def _decibels(value: float) -> str:
    return "equal" if isinf(value) and value > 0 else f"{value:.1f} dB"


def figures(answers: Answers) -> dict[str, object]:
    """Return the answers as a JSON object."""
    return {
        "batches": answers.samples, "equal": answers.is_equal, "largest": answers.largest,
        "outputs": {output.name: _record(output) for output in answers.outputs},
        "layers": [
            {"name": layer.name, "fused": layer.fused, "before": layer.before, "after": layer.after,
             "reason": layer.reason} | _record(layer)
            for layer in answers.layers
        ],
    }  # fmt: skip


def _record(answer: OutputAnswer | LayerAnswer) -> dict[str, object]:
    difference = answer.difference
    sides = {"difference": difference, "loss_before": answer.loss_before, "loss_after": answer.loss_after}
    record: dict[str, object] = {
        "compared": difference.compared, "differing": difference.differing, "largest": difference.largest,
    }  # fmt: skip
    for name, distance in sides.items():
        record[f"{name}_db"] = distance.decibels if distance.compared and distance.noise else None
    return record
