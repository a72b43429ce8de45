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
        name: The name of its first node.
        nodes: The names of all its nodes.
        errors: The relative squared error of the outputs with this layer alone in a format, by format.
        seconds: The extra seconds of a run with this layer alone in a format instead of the first one, by
            format, as far as measured.
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
        formats: The formats of the layers that do not have the first one, by layer.
        predicted_error: The expected relative squared error of the outputs.
        predicted_seconds: The expected seconds of a run.
        seconds: The measured seconds of a run.
        score: The metric.
        met: Whether it loses no more than the target allows.
    """

    formats: Mapping[str, str]
    predicted_error: float
    predicted_seconds: float
    seconds: float
    score: float
    met: bool

    def counts(self, default: str, layers: int) -> dict[str, int]:
        """Count the layers of each format; layers that `formats` does not name have `default`.

        Args:
            default: The format of all other layers.
            layers: Number of all layers.
        """
        counted = Counter(self.formats.values())
        return {default: layers - sum(counted.values()), **dict(sorted(counted.items()))}


@dataclass(frozen=True)
class TuneResult:
    """Holds the answer of `tune`, with what was measured.

    Attributes:
        model: The answer: a Q/DQ model, or the float model where nothing else meets the target.
        overrides: The overrides from which `quantize` makes it, with the rounding that `settings` names.
        layers: The layers that had a choice, in the graph's order, with the cost of each format.
        trials: The verified choices, in order.
        best: The trial that is the answer.
        front: (predicted seconds, predicted error) of the Pareto-optimal choices, the fastest first.
        formats: The names of the formats, the default first.
        float_score, float_seconds: The metric and the seconds of the float model.
        least_score: The lowest metric that meets the target.
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
        """Return whether the answer meets the target."""
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
