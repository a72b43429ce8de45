"""`analyze`: what the quantization of each tensor costs the outputs, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from intact import graph, placement
from intact.calib import Histogram
from intact.errors import IntactError, QuantValueError
from intact.progress import Progress
from intact.ptq.analysis.accuracy_findings import Look, findings_of
from intact.ptq.analysis.analysis_records import Drawn, Sensitivity, SensitivityAnalysis
from intact.ptq.analysis.partial_quantization import QuantizedReads, grids_of
from intact.ptq.analysis.sensitivity_trials import Sweep
from intact.ptq.analysis.sensitivity_units import By, measured, units_of
from intact.ptq.analysis.tensor_observations import Observed, observe
from intact.ptq.data.batch_splitting import Cutter
from intact.ptq.data.batches import open_data
from intact.ptq.data.model_inputs import Feeds, inputs_of
from intact.ptq.measure.output_errors import relative, sqnr
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.settings import Settings
from intact.ptq.stages.prepare_model import nothing_to_quantize, prepared
from intact.ptq.stages.stage_list import STAGES, run
from intact.spec import is_whole

BUDGET = 256
"""Tensors that are measured one by one, alone quantized and alone in float, unless told otherwise."""


def analyze(
    source: graph.Source,
    data: Any,
    *,
    by: By = "tensor",
    budget: int = BUDGET,
    runs: int | None = None,
    later: Any = None,
    progress: bool = True,
    **options: Any,
) -> SensitivityAnalysis:
    """Quantize a float ONNX model as `quantize` does, and measure what each tensor costs its outputs.

    Each tensor (or layer) is quantized alone, and left in float alone, on the runs that calibration
    keeps; the error of the outputs against the float model's is compared. Equal inputs give equal
    results. The share of each is its squared error, alone quantized, of the sum over all: rounding errors of
    single tensors are nearly independent, and their squares add up (Lin, Talathi and Annapureddy 2016, "Fixed
    point quantization of deep convolutional networks"; Zhou et al. 2018, "Adaptive quantization for deep
    neural network"; docs/decisions/0033-whose-error.md measures it). Branches of Ifs stay in float.

    Args:
        source: A path, the bytes of a file, an `onnx.ModelProto` or an onnx-ir model; never changed.
        data: Calibration data, as for `quantize`.
        by: "tensor": each activation and weight; "layer": each layer, with all that it reads quantized.
        budget: Measure at most so many alone, and as many alone in float; where there are more, they are
            measured in groups, and groups with large errors are halved.
        runs: Measure on at most so many of the runs that calibration keeps (8 or more, at most 64, small ones
            together); None: on all.
        later: Data that calibration does not see, of any kind that `data` can be: do ranges hold there?
        progress: Draw progress bars on standard error.
        options: All others of `quantize`: ``profile``, ``method``, ``exclude``, ``overrides``, ...
    Returns:
        The analysis: ``parts``, ``findings``, `save`; `intact.report.write_analysis` makes a page of it.
    Raises:
        QuantValueError: `by`, `budget` or `runs` is wrong, statistics came instead of data, or no output is
            real.
        IntactError: As for `quantize`.
    """
    _check(by, budget, runs)
    settings = settings_of(options | {"progress": progress})
    before, after = quantized_with_before(source, data, settings)
    grids = grids_of(before, after)
    held = before.runs[:runs]
    sweep = Sweep(before.model, grids, held)
    if not sweep.total:
        raise QuantValueError(
            "model", "no real output", "an output of floats to measure errors by",
            "analyze it without the ArgMax or the like at its end",
        )  # fmt: skip
    seen, weighed = _seen_activations(before, grids), _seen_weights(grids)
    local = _local_errors(grids, seen)
    parts, trials = measured(units_of(before, grids, by, local), sweep, budget, progress)
    shares = _shares(parts, local)
    behind = {} if later is None else _observed_later(before, seen, later, settings)
    gains, wide = _gains(parts, relative(sweep.total)), placement.profile_of(settings.profile).bits16
    looks = [
        Look(name, one, behind.get(name), shares[name], gains.get(name), name in weighed, wide)
        for name, one in (seen | weighed).items()
    ]
    return SensitivityAnalysis(
        error=relative(sweep.total),
        sqnr=sqnr(sweep.total),
        parts=tuple(parts),
        findings=tuple(findings_of(looks)),
        runs=len(held),
        trials=trials,
        segments=sweep.segments,
        settings=_said(after, settings, by),
        drawn=_drawn(grids, after),
    )


def settings_of(options: Mapping[str, Any]) -> Settings:
    """The arguments of `quantize`, those of the methods apart."""
    known = {one.name for one in fields(Settings) if one.init} - {"options"}
    rest = {name: value for name, value in options.items() if name not in known}
    return Settings(**{name: options[name] for name in known & options.keys()}, options=rest)


def _check(by: str, budget: int, runs: int | None) -> None:
    if by not in ("tensor", "layer"):
        raise QuantValueError("by", f"{by!r:.60}", "'tensor' or 'layer'", "choose one of these")
    for name, number in (("budget", budget), ("runs", 1 if runs is None else runs)):
        if not is_whole(number) or number < 1:
            raise QuantValueError(
                name, f"{number!r:.60}", "at least 1", "leave it out, or give a positive number"
            )


def quantized_with_before(source: graph.Source, data: Any, settings: Settings) -> tuple[State, State]:
    """The model before its pairs, with all that was decided by then; and the quantized one."""
    state = prepared(source, data, settings)
    if not state.targets:
        raise nothing_to_quantize(state.model)
    if state.calibration is not None:
        raise QuantValueError(
            "analyze: data", "statistics of an earlier run", "data to run the model on",
            "give the data that they were collected on",
        )  # fmt: skip
    at = [stage.name for stage in STAGES].index("pairs")
    before = run(state, STAGES[:at])
    return before, run(before, STAGES[at:])


def _seen_activations(before: State, grids: QuantizedReads) -> dict[str, Observed]:
    ranges = {target.site.value: (spec, ends) for target, spec, ends in grids.activations}
    return observe(before.model, ranges, (held.feeds for held in before.runs))


def _seen_weights(grids: QuantizedReads) -> dict[str, Observed]:
    found = {}
    for target, weight in grids.weights:
        one = Observed(weight.spec, weight.ends, target.site.axis)
        one.add(weight.array, 0)
        found[target.site.value] = one
    return found


def _local_errors(grids: QuantizedReads, seen: Mapping[str, Observed]) -> dict[str, float]:
    """Squared error of each tensor relative to its square."""
    found = {name: one.relative_error for name, one in seen.items()}
    for target, weight in grids.weights:
        square = float(np.square(weight.array, dtype=np.float64).sum())
        lost = float(np.square(weight.lost).sum())
        found[target.site.value] = lost / square if square > 0 else 0.0
    return found


def _shares(parts: Sequence[Sensitivity], local: Mapping[str, float]) -> dict[str, float]:
    """Of each tensor; those of a layer get theirs by their local errors."""
    shares: dict[str, float] = {}
    for one in parts:
        for tensor in one.tensors:
            mine = local[tensor] / one.local if one.local > 0 else 1 / len(one.tensors)
            shares[tensor] = shares.get(tensor, 0.0) + mine * one.share
    return shares


def _gains(parts: Sequence[Sensitivity], error: float) -> dict[str, float]:
    """What leaving each tensor alone in float takes off; only of those for which that was measured."""
    return {
        one.name: 1 - one.without / error
        for one in parts
        if one.measured and one.kind != "layer" and error > 0
    }


def _observed_later(
    state: State, seen: Mapping[str, Observed], later: Any, settings: Settings
) -> dict[str, Observed]:
    inputs = inputs_of(state.model)
    outputs = [value.name for value in state.model.graph.outputs if value.name]
    cutter = Cutter(graph.Session(state.model, folded=True), outputs, inputs)

    def feeds() -> Iterable[Feeds]:
        source = open_data(later, inputs, batch_size=settings.batch_size, num_batches=settings.num_batches)
        with Progress("later data", source.total, settings.progress) as bar:
            for number, one in cutter.runs(source.batches):
                bar.advance(done=number)
                yield one

    try:
        return observe(state.model, {name: (one.spec, one.ends) for name, one in seen.items()}, feeds())
    except IntactError as error:
        raise error.at("later data") from error


def _drawn(grids: QuantizedReads, after: State) -> dict[str, Drawn]:
    assert after.calibration is not None
    found = {}
    for target, spec, (low, high) in grids.activations:
        stats = after.calibration[target.site.value]
        if isinstance(stats, Histogram):
            found[target.site.value] = Drawn(stats, (float(low.min()), float(high.max())), str(spec))
    for target, weight in grids.weights:
        stats = Histogram()
        stats.collect(weight.array)
        low, high = weight.ends
        found[target.site.value] = Drawn(stats, (float(low.min()), float(high.max())), str(weight.spec))
    return found


def _said(state: State, settings: Settings, by: By) -> dict[str, str]:
    """What was asked for and what became of it, in words."""
    profile = settings.profile if isinstance(settings.profile, str) else settings.profile.name
    return {
        "profile": profile,
        "method": settings.method,
        "activations": settings.layer.activations,
        "weights": settings.layer.weights,
        "measured by": by,
        "smoothed": f"{len(state.smoothed)} tensors",
        "equalized": "yes" if state.equalized else "no",
    }
