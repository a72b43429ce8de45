"""Records of a sensitivity analysis, and its JSON file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any, Literal

from intact.atomic import replacing
from intact.calib import Histogram
from intact.signal_to_noise import signal_to_noise

VERSION = 1
"""Of the JSON file."""

Kind = Literal["activation", "weight", "layer"]


@dataclass(frozen=True)
class Sensitivity:
    """Says what quantizing one tensor, or all inputs of one layer, does to the outputs.

    Errors are squared errors relative to squares, averaged over outputs and their parts.

    Attributes:
        name: The name of the tensor, or of the layer's first node.
        kind: "activation", "weight" or "layer".
        formats: The formats of its tensors, such as "uint8" or "int8 + uint8".
        layers: The names of the layers that read it quantized.
        tensors: The names of its tensors.
        alone: The error of the outputs with it alone quantized.
        without: The error of the outputs with it alone in float.
        share: Its part of the sum of `alone` over all.
        local: The error of the tensor itself; for a layer, the sum over its tensors.
        measured: Whether it was measured alone; else its group's error was divided by `local`.
    """

    name: str
    kind: Kind
    formats: str
    layers: tuple[str, ...]
    tensors: tuple[str, ...]
    alone: float
    without: float
    share: float
    local: float
    measured: bool


@dataclass(frozen=True)
class AccuracyFinding:
    """Describes something about a tensor that costs accuracy, or may cost it.

    Attributes:
        kind: "dominant", "outlier channels", "clipped channels", "saturation", "range too short", "unstable
            range", "one-sided" or "dead channels".
        tensor: The name of the tensor.
        says: A clause that describes the finding.
        advice: A clause that says what helps.
        share: The tensor's share of the error, see `Sensitivity`.
    """

    kind: str
    tensor: str
    says: str
    advice: str
    share: float

    def __str__(self) -> str:
        return f"{self.tensor}: {self.says}: {self.advice}"


@dataclass(frozen=True)
class Drawn:
    """Holds what the report draws for one tensor.

    Attributes:
        stats: Counts of its values.
        ends: The range that is kept.
        spec: The grid, in words.
    """

    stats: Histogram
    ends: tuple[float, float]
    spec: str


@dataclass(frozen=True)
class SensitivityAnalysis:
    """Holds the results of `analyze`.

    Attributes:
        error: The error of the outputs with everything quantized.
        sqnr: The signal to quantization noise ratio of every output, in dB.
        parts: The sensitivities of all tensors or layers, in the graph's order.
        findings: The findings, those of the most important tensors first.
        runs: The number of hold-out samples that were used.
        trials: The number of configurations that were measured.
        segments: The number of segments that the model was cut into.
        settings: The settings, in words.
        drawn: The histograms to draw, by tensor.
    """

    error: float
    sqnr: Mapping[str, float]
    parts: tuple[Sensitivity, ...]
    findings: tuple[AccuracyFinding, ...]
    runs: int
    trials: int
    segments: int
    settings: Mapping[str, str] = field(default_factory=dict)
    drawn: Mapping[str, Drawn] = field(default_factory=dict, repr=False)

    @property
    def added(self) -> float:
        """The sum of `alone` over all parts, relative to `error`. It is near 1 where errors add up."""
        return sum(part.alone for part in self.parts) / self.error if self.error > 0 else 1.0

    @property
    def adds_up(self) -> bool:
        """Return whether errors add up well enough for shares to be read as parts of the whole."""
        return 0.5 <= self.added <= 2.0

    @property
    def ranked(self) -> list[Sensitivity]:
        """The parts, the largest share first."""
        return sorted(self.parts, key=lambda part: -part.share)

    def to_json(self) -> dict[str, Any]:
        """Return everything but the histograms to draw; infinite values become None."""
        return {
            "version": VERSION,
            "error": self.error,
            "sqnr_db": {name: db if isfinite(db) else None for name, db in self.sqnr.items()},
            "added": self.added,
            "parts": [asdict(part) | {"sqnr_db_alone": _db(part.alone)} for part in self.parts],
            "findings": [asdict(finding) for finding in self.findings],
            "runs": self.runs,
            "trials": self.trials,
            "segments": self.segments,
            "settings": dict(self.settings),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON: whole or not at all, the same bytes for the same work."""
        text = json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        with replacing(path) as file:
            file.write(text.encode())


def _db(error: float) -> float | None:
    """Return a relative squared error as a ratio; None of no error."""
    return signal_to_noise(1.0, error) if error > 0 else None
