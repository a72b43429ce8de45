"""The builder's record in a plan: profiles, and why each layer has its precision."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from intact.engine import Plan
from intact.trt.base.enums import DataType
from intact.trt.building.config import IOptimizationProfile
from intact.trt.building.data_dependent_shapes import Dependence

_MARK = "intact.trt "
_PARTS = ("hosts", "valued", "unknown")


def _dims(entries: dict[str, Any]) -> dict[str, Any]:
    return {str(k): tuple(tuple(map(int, d)) for d in v) for k, v in entries.items()}


@dataclass(frozen=True)
class LayerChoice:
    """Records the reason for a layer's precision.

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
        dependence: What depends on values.
        assertions: Hidden outputs that must be true, and what to say where one is not.
        debugged: Tensors that a debug listener may see.
        unfused: Those of `debugged` that fusion leaves, and that the script did not name.
        visible: Those of `assertions` and `debugged` that are the network's own inputs or outputs.
        plugins: What makes the plugins of the engine again: by operator, its creator and its fields.
        refit: The model, where the engine can be given other weights: base64 of its bytes, and the weights'
            names.
        aliases: Outputs that are written where an input lies, by name.
        sizes: Of outputs, as far as the network knows them; steps of the plan may tell less.
        of_shapes: Assertions that shapes alone decide.
        types: Of inputs, outputs and debug tensors, as the network has them; the plan may have others.
        samples: The most samples of one call where shapes leave the batch out; 0: they do not.
    """

    name: str = ""
    profiles: tuple[IOptimizationProfile, ...] = ()
    choices: dict[str, LayerChoice] = field(default_factory=dict)
    dependence: Dependence = field(default_factory=Dependence)
    assertions: dict[str, str] = field(default_factory=dict)
    debugged: tuple[str, ...] = ()
    plugins: dict[str, Any] = field(default_factory=dict)
    refit: dict[str, Any] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    types: dict[str, DataType] = field(default_factory=dict)
    of_shapes: tuple[str, ...] = ()
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    samples: int = 0
    visible: tuple[str, ...] = ()
    unfused: tuple[str, ...] = ()

    @classmethod
    def of(cls, plan: Plan) -> BuildRecord:
        """Read the record in a plan; an empty one where there is none."""
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
            IOptimizationProfile(_dims(entry["shapes"]), _dims(entry["values"]))
            for entry in content["profiles"]
        )
        choices = {str(name): LayerChoice(**entry) for name, entry in content["choices"].items()}
        parts = [tuple(map(str, content["dependence"][part])) for part in _PARTS]
        dependence = content["dependence"]
        depends = Dependence(
            parts[0], parts[1], parts[2], bool(dependence["endless"]), bool(dependence.get("inside"))
        )
        assertions = {str(k): str(v) for k, v in content["assertions"].items()}
        debugged = tuple(map(str, content["debugged"]))
        return cls(
            str(content["name"]), profiles, choices, depends, assertions, debugged,
            dict(content["plugins"]), dict(content["refit"]), dict(content.get("aliases", {})),
            {str(k): DataType(v) for k, v in content.get("types", {}).items()},
            tuple(map(str, content.get("of_shapes", ()))),
            {str(k): tuple(map(int, v)) for k, v in content.get("sizes", {}).items()},
            int(content.get("samples", 0)), tuple(map(str, content.get("visible", ()))),
            tuple(map(str, content.get("unfused", ()))),
        )  # fmt: skip

    @property
    def extra_outputs(self) -> set[str]:
        """Outputs of the plan that are not outputs of the network: conditions and debug tensors."""
        return {*self.assertions, *self.debugged}.difference(self.visible)

    def add_to(self, plan: Plan) -> Plan:
        """Return `plan` with this record among its notes, in place of an earlier one."""
        content = {
            "name": self.name,
            "profiles": [{"shapes": p.shapes, "values": p.values} for p in self.profiles],
            "choices": {name: vars(choice) for name, choice in self.choices.items()},
            "dependence": vars(self.dependence), "assertions": self.assertions,
            "debugged": list(self.debugged), "plugins": self.plugins, "refit": self.refit,
            "aliases": self.aliases, "types": {name: int(dtype) for name, dtype in self.types.items()},
            "of_shapes": list(self.of_shapes), "sizes": self.sizes, "samples": self.samples,
            "visible": list(self.visible), "unfused": list(self.unfused),
        }  # fmt: skip
        notes = tuple(note for note in plan.notes if not note.startswith(_MARK))
        return replace(plan, notes=(*notes, _MARK + json.dumps(content, sort_keys=True)))
