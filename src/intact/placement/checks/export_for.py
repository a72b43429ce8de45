"""Writes a quantized model as an engine's parser takes it, and refuses what it would refuse."""

from __future__ import annotations

from dataclasses import dataclass, field

from intact import graph
from intact.errors import QuantValueError, UnsupportedError
from intact.graph import Model, Note, Source
from intact.graph.targets import write_tensorrt_pairs
from intact.placement.checks import TARGETS, check
from intact.placement.records import Finding

ENGINES = ("tensorrt10", "tensorrt11")
"""Engines that files are written for."""

_SHOWN = 5


@dataclass
class ExportedModel:
    """Holds a model for one engine.

    Attributes:
        model: The graph.
        notes: What was rewritten.
        warnings: What runs slower than it could, or not in int8.
    """

    model: Model
    notes: list[Note] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)


def export_for(source: Source, target: str) -> ExportedModel:
    """Return a quantized model in the form that the parser of `target` takes.

    Operators on codes and pairs of other domains become ONNX's pairs, biases in int32 floats, uint8 codes
    around 128 int8. Nothing that changes a number is done.

    Args:
        source: The model, with Q/DQ pairs or operators on codes; it is not changed.
        target: One of `ENGINES`.
    Raises:
        QuantValueError: There is no such target.
        UnsupportedError: The parser or builder would refuse the model; names each node and its rule.
    """
    if target not in ENGINES:
        raise QuantValueError("--for", repr(target), " or ".join(ENGINES), "choose one of them")
    model = graph.load(source)
    graph.normalize(model, keeps_blocks=True)
    notes = write_tensorrt_pairs(model)
    opset = model.opset_imports.get("", 0)
    if opset > TARGETS[target]:
        graph.set_opset(model, graph.oldest_opset(model, TARGETS[target]))
        notes.append(Note("", f"opset {opset} became {model.opset_imports['']}"))
    findings = check(graph.load(graph.to_bytes(model), any_opset=True), target)
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        shown = "; ".join(f"{e.node}: {e.rule}: {e.message}" for e in errors[:_SHOWN])
        more = f"; and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else ""
        raise UnsupportedError(
            f"{target}", f"{shown}{more}", "a model that its parser and builder take", errors[0].fix
        )
    return ExportedModel(model, notes, findings)
