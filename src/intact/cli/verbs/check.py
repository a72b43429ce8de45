"""``intact check`` predicts what an engine's parser refuses, without that engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer

from intact.cli.printing import say, show_json, show_table
from intact.cli.shared_options import AsJson, ModelFile

FINDINGS = 1


def run(
    model: ModelFile,
    target: Annotated[str, typer.Option(help="The engine whose rules apply.")] = "tensorrt",
    as_json: AsJson = False,
) -> None:
    """Predict what an engine will refuse, or run in float: each finding with its layer and what to do.

    Exit status: 0 where nothing stands in the way (there may be warnings), 1 with findings of severity
    error, 2 where the file cannot be read.

    Examples:

    - `intact check model.onnx --target tensorrt`
    - `intact check model.onnx --json | jq '.findings[].fix'`
    """
    from intact.graph import load
    from intact.placement import check

    findings = check(load(model, any_opset=True), target)  # the file as it is, which the engine gets
    counts = Counter(finding.severity for finding in findings)
    if as_json:
        records = [asdict(finding) for finding in findings]
        show_json({"file": str(model), "target": target, "errors": counts["error"],
                   "warnings": counts["warning"], "findings": records})  # fmt: skip
    else:
        if findings:
            rows = [(f.severity, f.node, f.rule, f.message, f.fix) for f in findings]
            show_table(f"{model.name} for {target}", ("severity", "layer", "rule", "message", "fix"), rows)
        say(f"{model}: {counts['error']} errors, {counts['warning']} warnings for {target}")
    if counts["error"]:
        raise typer.Exit(FINDINGS)
