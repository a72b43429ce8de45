"""Summarize in one sentence how an engine and another way of running its model differ on samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from intact.engine.compare.comparison_counts import Comparison, TensorCounts

__all__ = ["MODULE", "ONNX_FILE", "REFERENCE", "EngineComparison", "summarize_side"]

MODULE = ("module", "engine")
REFERENCE = ("engine", "integer reference")
ONNX_FILE = ("file in ONNX Runtime", "engine")
"""The two sides of a comparison, in the order in which its sentence names them."""

_SHOWN = 3
"""Names of a list that are shown."""


@dataclass(frozen=True)
class EngineComparison:
    """Counts the differences between two runs of a model on samples; `sentence` describes them.

    Attributes:
        samples: Rows that were run.
        codes, codes_differing: Codes that were compared (of a module's quantizers, or all of the engine's
            plan), and those that differ.
        values, values_differing: Numbers of all outputs, and those that are not the same in every bit.
        largest: The largest difference of two output numbers.
        answers, answers_differing: Top-1 answers of the first output, and those that differ.
        first: The first tensor that differs, in the order of the engine's steps, and how; "" for none.
        not_compared: Quantizers whose codes the engine does not hold as one tensor on their grid.
        torch_steps: Functions that PyTorch computed itself, with last bits of its own, by name.
        parts: Parts of the engine's plan that run in ONNX Runtime.
        skipped: Why nothing was compared; "" if something was.
        decibels: Signal to noise ratio by output, where outputs of floats differ.
        sides: What is compared: `MODULE`, `REFERENCE` or `ONNX_FILE`.
    """

    samples: int = 0
    codes: int = 0
    codes_differing: int = 0
    values: int = 0
    values_differing: int = 0
    largest: float = 0.0
    answers: int = 0
    answers_differing: int = 0
    first: str = ""
    not_compared: tuple[str, ...] = ()
    torch_steps: dict[str, int] = field(default_factory=dict)
    parts: int = 0
    skipped: str = ""
    decibels: dict[str, float] = field(default_factory=dict)
    sides: tuple[str, str] = MODULE

    @property
    def equal(self) -> bool:
        """Return whether something was compared, and no bit of it differed."""
        return not (self.skipped or self.first or self.codes_differing or self.values_differing)

    @property
    def sentence(self) -> str:
        """Describe the comparison, and what it does not show for other inputs."""
        left, right = self.sides
        if self.skipped:
            return f"{left} and {right} were not compared: {self.skipped}{self._exceptions()}"
        samples = f"{self.samples:,} sample{'s' if self.samples != 1 else ''}"
        if self.equal:
            equal = f"{left} = {right} on all {self.codes:,} codes and {self.values:,} outputs of {samples}"
            return f"{equal}{self._exceptions()}"
        clauses = [
            f"{self.codes_differing:,} of {self.codes:,} codes",
            f"{self.values_differing:,} of {self.values:,} outputs, by at most {self.largest:.3g}",
        ]
        if self.decibels:
            clauses.append(_join_first([f"{name} {db:.1f} dB" for name, db in self.decibels.items()]))
        if self.answers:
            clauses.append(f"{self.answers_differing:,} of {self.answers:,} top-1 answers")
        text = f"{left} and {right} differ on {samples}: {', '.join(clauses)}; first {self.first}"
        return f"{text}{self._exceptions()}"

    def as_record(self) -> dict[str, Any]:
        """Return the counts as a JSON object; `decibels` is None where a ratio is infinite."""
        decibels = {name: db if isfinite(db) else None for name, db in self.decibels.items()}
        return vars(self) | {"decibels": decibels, "equal": self.equal}

    def _exceptions(self) -> str:
        """Name what differs, or may differ for other inputs."""
        listed = _join_first([f"{name} x {count}" for name, count in self.torch_steps.items()])
        texts = [f"{listed}, which PyTorch computes"] if listed else []
        if self.parts:
            texts.append(f"{self.parts} part{'s' if self.parts > 1 else ''} in ONNX Runtime")
        may = f"; last bits of {', and of '.join(texts)} may differ" if texts else ""
        return f"{may}; not compared: {_join_first(self.not_compared)}" if self.not_compared else may


def summarize_side(
    comparison: Comparison, side: str, sides: tuple[str, str], *, floats: bool = False, **attributes: Any
) -> EngineComparison:
    """Count what one side of a comparison has otherwise than the engine.

    Args:
        comparison: With all tensors of at least one batch.
        side: "engine" (against the integer reference), "file" or "module": counts of `TensorCounts`.
        sides: Names for the sentence.
        floats: Name the first tensor also where it holds floats, not codes alone.
        attributes: Further ones of the result.
    """
    outputs_key = "reference" if side == "engine" else side
    outputs = comparison.outputs[outputs_key]
    codes, answers = comparison.total(side), comparison.answers.get(outputs_key)
    first = comparison.first(side, floats=floats)
    differs = bool(first or codes.differing or outputs.differing)
    return EngineComparison(
        samples=comparison.samples,
        codes=codes.compared, codes_differing=codes.differing,
        values=outputs.compared, values_differing=outputs.differing, largest=outputs.largest,
        answers=0 if answers is None else answers.compared,
        answers_differing=0 if answers is None else answers.differing,
        first=_describe_first(first, side) if differs else "",
        not_compared=comparison.unmatched,
        parts=len(comparison.parts),
        decibels={
            name: distance.decibels
            for name, distance in comparison.distances[outputs_key].items()
            if distance.noise
        },
        sides=sides,
        **attributes,
    )  # fmt: skip


def _describe_first(first: TensorCounts | None, side: str) -> str:
    if first is None:
        return "in the outputs"
    counts = getattr(first, side)
    unit, largest = ("codes", f"{counts.largest:.0f}") if first.codes else ("floats", f"{counts.largest:.3g}")
    name = (first.quantizer if side == "module" else "") or first.tensor
    return f"in '{name}': {counts.differing:,} of {counts.compared:,} {unit}, by at most {largest}"


def _join_first(names: list[str] | tuple[str, ...]) -> str:
    """Join the first names, and say how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
