"""Measures what each format of each layer costs, in output error and in time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from glob import escape
from itertools import product
from typing import Any

import numpy as np

from intact.errors import QuantValueError
from intact.graph import Model, PicklableModel
from intact.job_pool import JobPool
from intact.placement import Layer
from intact.progress import Progress
from intact.ptq.analysis import (
    QuantizedReads,
    Read,
    Sweep,
    SweepJobs,
    SweepUnit,
    Trial,
    grids_of,
    measure_in_pool,
    quantize_reads,
    states_around_pairs,
    units_of,
)
from intact.ptq.measure import State
from intact.ptq.mixed import BudgetProgram
from intact.ptq.scope import Settings, with_override
from intact.tuning.latency_clock import CachedClock

_LIKELY = 0.999
"""Of the sum of errors: layers behind that share are left as they are, unless they are few."""

_NOISE = 0.01
"""Of a run: no layer is worth changing for less."""


@dataclass(frozen=True, eq=False)
class UniformModel:
    """Holds the model quantized with one format for all layers.

    Attributes:
        before: In front of its pairs.
        grids: How reads are quantized.
        units: Its layers, with their reads.
        sweep: Measures errors of its outputs.
    """

    before: State
    grids: QuantizedReads
    units: tuple[SweepUnit, ...]
    sweep: Sweep

    def errors(self, progress: bool, title: str, pool: JobPool | None = None) -> dict[str, float]:
        """Measure the error of the outputs with each layer alone quantized, by layer name.

        Args:
            progress: Draw a progress bar.
            title: Of the bar.
            pool: Measures in its processes; None: in this one.
        """
        trials = [Trial(unit.reads) for unit in self.units]
        with Progress(title, len(trials), progress) as bar:
            if pool is None:
                errors = self.sweep.measure(trials, bar)
            else:
                jobs = SweepJobs(PicklableModel(self.before.model), self.grids, self.before.runs)
                errors = measure_in_pool(pool, jobs, trials, bar)
        return {unit.name: error for unit, error in zip(self.units, errors, strict=True)}


def quantize_uniformly(model: Model, data: object, settings: Settings, format: LayerFormat) -> UniformModel:
    """Quantize `model` with `format` for all of its layers.

    Args:
        model: Float.
        data: Calibration data.
        settings: Of `quantize`.
        format: Of every layer.
    """
    if format.override:
        layer = with_override(settings.layer, "formats", format.override)
        settings = replace(settings, activations=layer.activations, weights=layer.weights)
    before, after = states_around_pairs(model, data, settings)
    grids = grids_of(before, after)
    units = units_of(before, grids, "layer", defaultdict(float))
    return UniformModel(before, grids, tuple(units), Sweep(before.model, grids, before.runs))


def layers_with_choice(state: State) -> list[Layer]:
    """Return the int8 layers that the names of their nodes identify, in the graph's order."""
    types = {node.op_type for node in state.model.graph}
    return [
        layer for layer in state.placement.layers
        if layer.precision == "int8" and layer.nodes and not types.intersection(layer.nodes)
    ]  # fmt: skip


def layers_that_matter(errors: Mapping[str, float], budget: int) -> set[str]:
    """Return the layers with the largest errors, `budget` at most.

    Args:
        errors: Of the outputs with each layer alone quantized, by layer name.
        budget: The most layers.
    """
    ranked = sorted(errors, key=lambda name: (-errors[name], name))
    sums = np.cumsum([errors[name] for name in ranked])
    enough = int(np.searchsorted(sums, _LIKELY * sums[-1])) + 1 if len(sums) and sums[-1] > 0 else 0
    return set(ranked[: min(budget, max(enough, min(budget, 16)))])


class LatencyTable:
    """Measures the time of a model with other formats for some of its layers.

    Args:
        everywhere: By format; the first is that of all layers that are not told.
        clock: Seconds of a model.
    """

    def __init__(self, everywhere: Mapping[str, UniformModel], clock: CachedClock) -> None:
        self._everywhere, self._clock = everywhere, clock
        self._base = next(iter(everywhere))
        self._reads = {
            name: {unit.name: unit.reads for unit in uniform_model.units}
            for name, uniform_model in everywhere.items()
        }
        self.reference = clock.begin(self._model({}))
        """Seconds with the first format everywhere."""

    def seconds(self, formats: Mapping[str, str]) -> float:
        """Return the seconds of a run with `formats` by layer."""
        return self._clock(self._model(formats))

    def _model(self, formats: Mapping[str, str]) -> Model:
        base = self._everywhere[self._base]
        left = frozenset(read for name in formats for read in self._reads[self._base].get(name, ()))
        parts = [(base.grids, frozenset(base.grids.reads) - left)]
        for format in dict.fromkeys(formats.values()):
            if format in self._everywhere:  # float has no grids
                names = [name for name, format_name in formats.items() if format_name == format]
                parts.append((self._everywhere[format].grids, self._read_by(format, names)))
        return quantize_reads(base.before.model, parts)

    def _read_by(self, format: str, layers: Iterable[str]) -> frozenset[Read]:
        reads = self._reads[format]
        return frozenset(read for name in layers for read in reads.get(name, ()))


def neighbours(state: State, layers: Sequence[Layer]) -> list[tuple[int, int]]:
    """Return the pairs of `layers` where one reads what the other computes, through nodes of no layer.

    Args:
        state: In front of the pairs.
        layers: Those with a choice.
    Returns:
        Pairs of indices into `layers`.
    """
    place = {node: index for index, layer in enumerate(layers) for node in layer.nodes}
    within = {node for layer in state.placement.layers for node in layer.nodes}
    makers: dict[str, frozenset[int]] = {}
    pairs: dict[tuple[int, int], None] = {}
    for node in state.model.graph:
        read = frozenset[int]().union(*(makers.get(v.name or "", ()) for v in node.inputs if v is not None))
        name = node.name or ""
        mine = place.get(name)
        if mine is not None:
            pairs |= {(min(producer, mine), max(producer, mine)): None for producer in sorted(read - {mine})}
        producers = frozenset([mine]) if mine is not None else frozenset() if name in within else read
        makers.update({value.name or "": producers for value in node.outputs})
    return list(pairs)


def program_of(
    layers: Sequence[Layer],
    formats: Sequence[LayerFormat],
    errors: Mapping[str, Mapping[str, float]],
    table: LatencyTable,
    pairs: Sequence[tuple[int, int]],
    fixed: float,
    progress: bool,
) -> BudgetProgram:
    """Build the integer program: measure the missing times, and combine them with the errors.

    Args:
        layers: Those with a choice.
        formats: The first one is what times are compared to.
        errors: By format and layer.
        table: Gives times.
        pairs: Neighbours among `layers`.
        fixed: Error of everything else.
        progress: Draw a progress bar.
    """
    errors_table = np.array([[errors[f.name].get(layer.name, 0.0) for f in formats] for layer in layers])
    errors_table = errors_table.reshape(len(layers), len(formats))
    seconds = np.full(errors_table.shape, np.inf)
    seconds[:, 0] = 0
    alternatives = range(1, len(formats))
    quicker = [f for f in alternatives if _is_quicker(layers, formats[f], table)]
    pending = [
        (i, f)
        for f in alternatives
        for i in range(len(layers))
        if f in quicker or errors_table[i, f] < errors_table[i, 0]
    ]
    with Progress("measuring times", len(pending) + len(pairs), progress) as bar:
        for i, f in pending:
            more = table.seconds({layers[i].name: formats[f].name}) - table.reference
            seconds[i, f] = 0.0 if -_NOISE * table.reference < more < 0 else more
            bar.advance()
        savings = {}
        for exact, (a, b) in product([f for f in alternatives if formats[f].is_float], pairs):
            extra = table.seconds(dict.fromkeys((layers[a].name, layers[b].name), FLOAT)) - table.reference
            savings[(a, b, exact)] = float(seconds[a, exact] + seconds[b, exact] - extra)
            bar.advance()
    costs = {"error": errors_table, "seconds": seconds}
    names = [layer_format.name for layer_format in formats]
    return BudgetProgram(layers, names, costs, {"seconds": savings}, {"error": fixed})


def _is_quicker(layers: Sequence[Layer], format: LayerFormat, table: LatencyTable) -> bool:
    """Return whether a format can be worth its error: float can, and any format that is faster everywhere."""
    if format.is_float:
        return True
    everywhere = table.seconds({layer.name: format.name for layer in layers})
    return everywhere < (1 - _NOISE) * table.reference


FLOAT = "float"
"""The format that loses nothing."""

_COUNTERPARTS = {"uint8": "int8", "int8": "uint8"}
"""Activations on the grid with a free zero point, and on the symmetric one."""


@dataclass(frozen=True)
class LayerFormat:
    """Describes one format that layers may have.

    Attributes:
        name: In tables: that of the activations, mostly.
        override: What `quantize` takes for such a layer; empty for the format that layers have unless told.
    """

    name: str
    override: Mapping[str, Any]

    @property
    def is_float(self) -> bool:
        """Return whether it leaves the layer in float."""
        return self.name == FLOAT


def formats_of(settings: Settings, names: Sequence[str] | None) -> tuple[LayerFormat, ...]:
    """Return the formats to choose from, first the default of `settings`.

    Args:
        settings: Of `quantize`.
        names: Names as overrides have them under "format": "int8", "uint8", "int16", "int4", "float", ...;
            None: the other one of int8 and uint8, and float. 16 bits and 4-bit weights compute in float, so
            that float is as fast and more exact; who counts bytes, or runs the file elsewhere, names them.
    Raises:
        QuantValueError: There is no such format.
    """
    base = settings.layer.activations
    format_names = (_COUNTERPARTS.get(base), FLOAT) if names is None else tuple(names)
    formats = [LayerFormat(base, {})]
    for name in dict.fromkeys(format_names):
        if name is not None and name != base:
            override = {"format": name}
            try:
                with_override(settings.layer, name, override)
            except QuantValueError as error:
                raise error.at("formats") from None
            formats.append(LayerFormat(name, override))
    if len(formats) == 1:
        raise QuantValueError(
            "formats", f"{base!r} alone", "two or more to choose from", "leave it out, or name another one"
        )
    return tuple(formats)


def overrides_of(
    nodes: Mapping[str, Sequence[str]], formats: Mapping[str, LayerFormat], counting: Set[str]
) -> dict[str, Any]:
    """Build the overrides that give layers their formats.

    Args:
        nodes: Names of the nodes of each layer.
        formats: By layer.
        counting: Nodes for which other formats than float change something.
    """
    return {
        escape(node): dict(format.override)
        for layer, format in formats.items()
        for node in nodes[layer]
        if format.override and (format.is_float or node in counting)
    }
