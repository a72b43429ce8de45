"""Defines the units of an analysis (tensors or layers), and measures what each costs.

Group screening: trials of groups of tensors, then of the worst group's members, within a budget.

Sequential bifurcation (Bettonvil and Kleijnen 1997, "Searching for important factors in simulation models
with many factors: sequential bifurcation", European Journal of Operational Research 96): a group whose error
is small is left whole, one whose error is large is halved. It finds k tensors that matter among n in about
``k log2(n)`` trials where errors add up, as squared errors of rounding do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from intact.progress import Progress
from intact.ptq.analysis.analysis_records import Kind, Sensitivity
from intact.ptq.analysis.partial_quantization import QuantizedReads
from intact.ptq.analysis.sensitivity_trials import Sweep, Trial
from intact.ptq.measure.output_errors import relative_error
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_targets import Read

By = Literal["tensor", "layer"]


@dataclass(frozen=True)
class SweepUnit:
    """Describes the tensor or layer that changes in one trial."""

    name: str
    kind: Kind
    formats: str
    layers: tuple[str, ...]
    tensors: tuple[str, ...]
    reads: frozenset[Read]
    local: float


def units_of(state: State, grids: QuantizedReads, by: By, local: Mapping[str, float]) -> list[SweepUnit]:
    """Return the tensors or layers to measure, in the graph's order, so that neighbours can form groups.

    Args:
        state: In front of the Q/DQ pairs.
        grids: How reads are quantized.
        by: "tensor" or "layer".
        local: The error of each tensor by its name.
    """
    order = {node.name or "": index for index, node in enumerate(state.model.graph)}
    layers = {node: layer.name for layer in state.placement.layers for node in layer.nodes}
    units: dict[str, list[tuple[str, str, str, Read]]] = {}
    for target in (*(t for t, *_ in grids.activations), *(t for t, _ in grids.weights)):
        for read in target.readers:
            layer = layers.get(read[0], read[0])
            key = layer if by == "layer" else f"{target.site.value}\n{target.format}"
            units.setdefault(key, []).append((target.site.value, target.format, target.site.role, read))
    sweep_units = []
    for key, entries in units.items():
        tensors, formats, _, reads = (tuple(dict.fromkeys(column)) for column in zip(*entries, strict=True))
        kind: Kind = "layer" if by == "layer" else entries[0][2]  # type: ignore[assignment]
        readers = tuple(dict.fromkeys(layers.get(name, name) for name, _ in reads))
        local_error = sum(local[tensor] for tensor in tensors)
        name = key.split("\n")[0]
        sweep_units.append(
            SweepUnit(
                name, kind, " + ".join(sorted(formats)), readers, tensors, frozenset(reads), local_error
            )
        )
    return sorted(sweep_units, key=lambda unit: (min(order[name] for name, _ in unit.reads), unit.kind))


def measure_units(
    units: Sequence[SweepUnit], sweep: Sweep, budget: int, progress: bool
) -> tuple[list[Sensitivity], int]:
    """Measure what each unit costs; return the results and the number of trials.

    Args:
        units: Tensors or layers.
        sweep: Measures errors of the outputs.
        budget: The most trials.
        progress: Draw a progress bar.
    """
    alone_trials = min(budget, len(units))
    with Progress("measuring", alone_trials * 2, progress) as bar:

        def measure(groups: Sequence[range]) -> list[float]:
            changed = (frozenset().union(*(units[i].reads for i in group)) for group in groups)
            return sweep.measure([Trial(reads) for reads in changed], bar)

        groups = screen_groups(len(units), budget, measure)
        single = [group.start for group in groups if group.size == 1]
        left = sweep.measure([Trial(units[i].reads, alone=False) for i in single], bar)
    without = dict(zip(single, left, strict=True))
    errors = {unit: error for group in groups for unit, error in _distribute_error(units, group)}
    total, whole = relative_error(sweep.total), sum(errors.values())
    parts = [
        Sensitivity(
            unit.name, unit.kind, unit.formats, unit.layers, unit.tensors, errors[unit],
            without.get(index, max(total - errors[unit], 0.0)), errors[unit] / whole if whole > 0 else 0.0,
            unit.local, index in without,
        )
        for index, unit in enumerate(units)
    ]  # fmt: skip
    return parts, alone_trials + len(single)


def _distribute_error(units: Sequence[SweepUnit], group: ScreenedGroup) -> Iterable[tuple[SweepUnit, float]]:
    """Yield the units of a group, each with its part of the group's error by local errors."""
    members = units[group.start : group.stop]
    local = sum(unit.local for unit in members)
    for unit in members:
        yield unit, group.error * (unit.local / local if local > 0 else 1 / len(members))


_NEAR = 0.25
"""Of the worst group's error."""


@dataclass(frozen=True)
class ScreenedGroup:
    """Holds the measured error of neighbouring units that were quantized together.

    Attributes:
        start, stop: Which.
        error: Of the outputs, with them alone quantized.
    """

    start: int
    stop: int
    error: float

    @property
    def size(self) -> int:
        """The number of units."""
        return self.stop - self.start


def screen_groups(
    count: int, budget: int, measure: Callable[[Sequence[range]], Sequence[float]]
) -> list[ScreenedGroup]:
    """Divide units 0 to `count` - 1 into measured groups; each has one unit where `budget` trials suffice.

    Args:
        count: Of units, 1 or more.
        budget: At most so many trials, 1 or more.
        measure: The error of the outputs with each of these groups alone quantized.
    """
    first = count if count <= budget else max(1, budget // 3)
    edges = [count * index // first for index in range(first + 1)]
    groups = _measure_groups(list(map(range, edges, edges[1:])), measure)
    left = budget - first
    while left >= 2 and (large := [group for group in groups if group.size > 1]):
        # All that come near the worst at once: each round is one pass along the model.
        worst = sorted(large, key=lambda group: (-group.error, group.start))
        split = [group for group in worst if group.error >= _NEAR * worst[0].error][: left // 2]
        halves = [half for group in split for half in _halves(group)]
        groups = [group for group in groups if group not in split] + _measure_groups(halves, measure)
        left -= len(halves)
    return sorted(groups, key=lambda group: group.start)


def _halves(group: ScreenedGroup) -> tuple[range, range]:
    middle = (group.start + group.stop) // 2
    return range(group.start, middle), range(middle, group.stop)


def _measure_groups(
    ranges: Sequence[range], measure: Callable[[Sequence[range]], Sequence[float]]
) -> list[ScreenedGroup]:
    return [ScreenedGroup(r.start, r.stop, error) for r, error in zip(ranges, measure(ranges), strict=True)]
