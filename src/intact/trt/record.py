"""What the builder leaves in a plan beside the plan: profiles, and why each layer runs as it does."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from intact.engine import Plan
from intact.trt.config import IOptimizationProfile

_MARK = "intact.trt "


@dataclass(frozen=True)
class LayerChoice:
    """Why a layer has its precision.

    Attributes:
        precision: "int8" or "float32".
        int8_ms, float_ms: What was measured in each; None where it was not.
        why: In words: measured, pinned, no range, ...
    """

    precision: str
    int8_ms: float | None = None
    float_ms: float | None = None
    why: str = ""


@dataclass(frozen=True)
class BuildRecord:
    """One note of the plan, as JSON.

    Attributes:
        name: Of the network.
        profiles: The optimization profiles.
        choices: By layer.
    """

    name: str = ""
    profiles: tuple[IOptimizationProfile, ...] = ()
    choices: dict[str, LayerChoice] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan) -> BuildRecord:
        """The record in a plan; an empty one where there is none."""
        for note in plan.notes:
            if note.startswith(_MARK):
                try:
                    return cls._parse(json.loads(note[len(_MARK) :]))
                except (ValueError, KeyError, TypeError, AttributeError):
                    break
        return cls()

    @classmethod
    def _parse(cls, content: dict[str, Any]) -> BuildRecord:
        profiles = tuple(
            IOptimizationProfile({str(k): tuple(tuple(map(int, d)) for d in v) for k, v in shapes.items()})  # type: ignore[misc]
            for shapes in content["profiles"]
        )
        choices = {str(name): LayerChoice(**entry) for name, entry in content["choices"].items()}
        return cls(str(content["name"]), profiles, choices)

    def added_to(self, plan: Plan) -> Plan:
        """`plan` with this record among its notes."""
        content = {
            "name": self.name,
            "profiles": [profile.shapes for profile in self.profiles],
            "choices": {name: vars(choice) for name, choice in self.choices.items()},
        }
        notes = tuple(note for note in plan.notes if not note.startswith(_MARK))
        return replace(plan, notes=(*notes, _MARK + json.dumps(content, sort_keys=True)))
