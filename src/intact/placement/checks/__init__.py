"""Predictions of what an engine's parser refuses or runs slowly, without the engine and without a GPU."""

from __future__ import annotations

from collections.abc import Iterator

from intact.errors import QuantValueError
from intact.graph import Model
from intact.placement.checks.parser import DIALECT, PARSER
from intact.placement.checks.records import Half, halves
from intact.placement.checks.structure import STRUCTURE, Checked
from intact.placement.layers import Fuser
from intact.placement.pair_warnings import remarks_on
from intact.placement.pairs import Pairs
from intact.placement.placement_graph import View
from intact.placement.profiles import PROFILES
from intact.placement.records import Finding

TARGETS = {"tensorrt": 25, "tensorrt10": 23, "tensorrt11": 25}
"""Engines whose rules are known, and the newest opset that the parser of each reads.

"tensorrt" is the newest; 23 has all formats of TensorRT 10, FP4 included.
"""


def check(model: Model, target: str = "tensorrt") -> list[Finding]:
    """Find everything in `model` that `target` will not take as it stands.

    Args:
        model: Usually with Q/DQ pairs; not changed.
        target: One of `TARGETS`.
    Returns:
        Errors first: what the parser or builder refuses, in its own words where it has some. Then warnings:
        what runs slower than it could, or not in int8. In the graph's order within each; empty: all is well.
    Raises:
        QuantValueError: There is no such target.
    """
    if target not in TARGETS:
        raise QuantValueError("target", repr(target), " or ".join(map(repr, TARGETS)), "choose one of them")
    view = View(model)
    profile = PROFILES["tensorrt"]
    fuser = Fuser(view, profile, quantized=view.marks.__contains__)
    checked = Checked(model, view, halves(model, view.constants), fuser.carries, TARGETS[target])
    findings = [*_of_nodes(checked.halves)]
    for ask in STRUCTURE:
        findings.extend(ask(checked))
    for remark in remarks_on(view, Pairs(view), profile):
        findings.append(Finding("warning", remark.op.name, remark.rule, remark.message, remark.fix))
    return sorted(dict.fromkeys(findings), key=lambda finding: finding.severity)  # "error" < "warning"


def _of_nodes(nodes: list[Half]) -> Iterator[Finding]:
    for half in nodes:
        for rule, ask in PARSER.items():
            if (answer := ask(half)) is not None:
                yield Finding("error", half.name, rule, *answer)
        for rule, ask in DIALECT.items():
            if (answer := ask(half)) is not None:
                yield Finding("warning", half.name, rule, *answer)


__all__ = ["TARGETS", "check"]
