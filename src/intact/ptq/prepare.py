"""A float model on its way: loaded, folded, placed; and the Q/DQ pairs put into it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from glob import escape

from numpy.typing import NDArray

from intact import graph, placement
from intact.errors import QuantValueError
from intact.graph import Constants, Model, Pair
from intact.numerics import store
from intact.placement import Placement
from intact.ptq.ranges import Activations, Ranges, Weight, grid_of, make_mark, weight_of
from intact.ptq.settings import Overrides, Settings
from intact.ptq.targets import Rules, Target


@dataclass
class Prepared:
    """A float model, ready to be calibrated."""

    model: Model
    rules: Rules
    placement: Placement
    targets: list[Target]
    notes: list[str]
    opset: int

    @property
    def activations(self) -> list[Target]:
        return [target for target in self.targets if target.site.role == "activation"]

    @property
    def short_scales(self) -> bool:
        """Whether ranges are widened to short scales."""
        return all(target.settings.scale_bits is not None for target in self.targets)

    def quantized_weights(self) -> list[Weight]:
        """Every weight that is to be quantized, in the order of its targets."""
        constants = Constants(self.model.graph)
        values = {v.name: v for v in self.model.graph.initializers.values()}
        values |= {v.name: v for node in self.model.graph for v in node.outputs}
        chosen = [target for target in self.targets if target.site.role == "weight"]
        return [weight_of(target, constants, values[target.site.value]) for target in chosen]

    @property
    def wanted(self) -> list[str]:
        """The tensors to calibrate."""
        return list(dict.fromkeys(target.site.value for target in self.activations))


def prepare(
    source: graph.Source, settings: Settings, profile: str | placement.Profile, include: Sequence[str],
    exclude: Sequence[str], overrides: Overrides | None, opset: int | None,
) -> Prepared:  # fmt: skip
    model = graph.load(source)
    graph.settle(model)
    notes = [*graph.normalize(model), *graph.fold_batchnorm(model)]
    rules = Rules(model, settings, overrides)
    chosen = rules.opset(model.opset_imports.get("", 13), opset)
    graph.raise_opset(model, chosen)
    left = [escape(name) for name in rules.float_nodes()]
    placed = placement.place(model, profile, include=include, exclude=[*exclude, *left])
    weight_only = rules.weight_only(include, exclude)
    placed = rules.split(rules.told(placed, weight_only))
    targets = rules.targets(placed, weight_only)
    if not targets:
        raise QuantValueError(
            "model", "no layer that can be quantized", "at least one",
            "see the reasons that `intact explain` gives, or widen include and exclude",
        )  # fmt: skip
    return Prepared(model, rules, placed, targets, [str(note) for note in notes if note.changed], chosen)


@dataclass(frozen=True)
class Grid:
    """Where the file keeps the scale and zero point of an activation."""

    target: Target
    scale: str
    zero_point: str


def emit(ready: Prepared, chooser: Activations, weights: Sequence[Weight], ranges: Ranges) -> list[Grid]:
    """Put the pairs into the model; returns where the activations' scales are, to be chosen anew."""
    owners: dict[str, Target] = {}
    stored = iter(weights)
    marks = []
    for target in ready.targets:
        name = target.site.value
        while name in owners:
            name = f"{name}.{target.format}"
        owners[name] = target
        if target.site.role == "activation":
            marks.append(make_mark(target, chooser.spec(target), ranges[target.key].ends, name))
        else:
            weight = next(stored)
            marks.append(make_mark(target, weight.spec, weight.ends, name))
    graph.mark(ready.model, marks)
    pairs = graph.emit_qdq(ready.model, ready.opset)
    return _grids(ready.model, pairs, owners)


def _grids(model: Model, pairs: Iterable[Pair], owners: dict[str, Target]) -> list[Grid]:
    values = {v.name: v for node in model.graph for v in node.outputs}
    found = []
    for pair in pairs:
        target = owners[pair.quantizer]
        node = values[pair.real].producer()
        if target.site.role == "activation" and node is not None:
            scale, zero_point = (v.name if v is not None else None for v in node.inputs[1:3])
            found.append(Grid(target, scale or "", zero_point or ""))
    return found


def feeds_of_ranges(chooser: Activations, grids: Sequence[Grid], ranges: Ranges) -> dict[str, NDArray]:
    """Scales and zero points of the activations by the initializer that holds them."""
    found: dict[str, NDArray] = {}
    for grid in grids:
        spec = chooser.spec(grid.target)
        scale, zero_point = grid_of(spec, ranges[grid.target.key].ends)
        found[grid.scale] = scale
        if not spec.symmetric:  # a symmetric grid has the zero point 0, whatever the range
            found[grid.zero_point] = store(zero_point, spec)
    return found
