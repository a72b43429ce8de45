"""The result of a tuning run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from intact import graph
from intact.graph import Model

VERSION = 1
"""Of the JSON file."""


@dataclass(frozen=True)
class TunedLayer:
    """Describes one layer, and what its formats cost.

    Attributes:
        name: Of its first node.
        nodes: All that it is made of.
        errors: Squared error of the outputs relative to their square with this layer alone in a format.
        seconds: What a run takes longer with this layer alone in a format than in the first one, by format;
            what was not measured is not in it.
        chosen: The format that it has in the answer.
    """

    name: str
    nodes: tuple[str, ...]
    errors: Mapping[str, float]
    seconds: Mapping[str, float]
    chosen: str


@dataclass(frozen=True)
class TuneTrial:
    """Describes a choice of formats that was quantized and verified.

    Attributes:
        formats: By layer, where it is not the first format.
        predicted_error: Of the outputs, see `TunedLayer`.
        predicted_seconds: Of a run.
        seconds: Of a run, measured.
        score: By the metric.
        met: It loses no more than the target allows.
    """

    formats: Mapping[str, str]
    predicted_error: float
    predicted_seconds: float
    seconds: float
    score: float
    met: bool

    def counts(self, default: str, layers: int) -> dict[str, int]:
        """Count the layers of each format; layers that `formats` does not name have `default`."""
        counted = Counter(self.formats.values())
        return {default: layers - sum(counted.values()), **dict(sorted(counted.items()))}


@dataclass(frozen=True)
class TuneResult:
    """Holds the answer of `tune`, with what was measured.

    Attributes:
        model: The answer: a Q/DQ model, or the float model where nothing else meets the target.
        overrides: What `quantize` makes it from: settings by pattern, and the rounding that `settings` names.
        layers: Those that had a choice, in the graph's order, with what each format costs.
        trials: What was verified, in the order in which it was.
        best: The one of them that is the answer.
        front: (predicted seconds, predicted error) of the choices to pick from, the fastest first.
        formats: Names of the formats, the first being the one that layers have unless told.
        float_score, float_seconds: Of the float model.
        least_score: The target.
        settings: What was asked for and measured on, in words.
    """

    model: Model = field(repr=False)
    overrides: Mapping[str, Mapping[str, Any]]
    layers: tuple[TunedLayer, ...]
    trials: tuple[TuneTrial, ...]
    best: TuneTrial
    front: tuple[tuple[float, float], ...]
    formats: tuple[str, ...]
    float_score: float
    float_seconds: float
    least_score: float
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        """Whether the answer meets the target."""
        return self.best.met

    @property
    def proto(self) -> Any:
        """The answer as an `onnx.ModelProto`."""
        return graph.to_proto(self.model)

    def save(self, path: str | os.PathLike[str], *, external: bool | None = None) -> None:
        """Write the answer: whole or not at all; see `intact.graph.save`."""
        graph.save(self.model, path, external=external)

    def to_json(self) -> dict[str, Any]:
        """Return everything but the model."""
        return {
            "version": VERSION, "met": self.met, "formats": list(self.formats),
            "float": {"score": self.float_score, "seconds": self.float_seconds},
            "least_score": self.least_score, "best": _trial(self.best),
            "trials": [_trial(trial) for trial in self.trials],
            "front": [{"seconds": seconds, "error": error} for seconds, error in self.front],
            "layers": [
                {
                    "name": layer.name, "nodes": list(layer.nodes), "chosen": layer.chosen,
                    "errors": dict(layer.errors), "seconds": dict(layer.seconds),
                }
                for layer in self.layers
            ],
            "overrides": {pattern: dict(settings) for pattern, settings in self.overrides.items()},
            "settings": dict(self.settings),
        }  # fmt: skip


def _trial(trial: TuneTrial) -> dict[str, Any]:
    return {
        "formats": dict(trial.formats), "predicted_error": trial.predicted_error,
        "predicted_seconds": trial.predicted_seconds, "seconds": trial.seconds, "score": trial.score,
        "met": trial.met,
    }  # fmt: skip
