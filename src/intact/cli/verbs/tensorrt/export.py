"""``intact export`` writes a quantized file as the parser of an engine takes it."""

from __future__ import annotations

from typing import Annotated

import typer

from intact.cli.printing import say, show_json
from intact.cli.shared_options import AsJson, ModelFile, Out


def run(
    model: ModelFile,
    out: Out,
    target: Annotated[str, typer.Option("--for", help="The engine: tensorrt10 or tensorrt11.")],
    as_json: AsJson = False,
) -> None:
    """Write a quantized file as the parser of an engine takes it, or say node by node what it would refuse.

    Nothing that changes a number is done: operators on codes and pairs of other domains become ONNX's Q/DQ
    pairs, int32 biases floats, uint8 codes around 128 int8. What then breaks a rule of TensorRT's parser or
    builder is named with its node and rule, and nothing is written.

    Examples:

    - `intact export model.qdq.onnx --for tensorrt11 -o model.trt.onnx`
    - `intact check model.trt.onnx --target tensorrt11` predicts the same of any file
    """
    from intact.graph import save
    from intact.placement import export_for

    result = export_for(model, target)
    save(result.model, out)
    if as_json:
        notes = [{"node": note.node, "what": note.what} for note in result.notes]
        show_json({"out": str(out), "for": target, "rewritten": notes,
                   "warnings": [vars(finding) for finding in result.warnings]})  # fmt: skip
        return
    for note in result.notes:
        say(f"{note.node or 'model'}: {note.what}")
    for finding in result.warnings:
        say(f"warning: {finding.node}: {finding.rule}: {finding.message}")
    say(f"wrote {out} for {target}: {len(result.notes)} rewrites, {len(result.warnings)} warnings")
