"""`analyze` measures what quantizing each tensor costs the outputs, and explains why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from intact import graph, placement
from intact.calib import Histogram
from intact.errors import IntactError, QuantValueError
from intact.progress import Progress
from intact.ptq.analysis.accuracy_findings import TensorEvidence, findings_of
from intact.ptq.analysis.analysis_records import Drawn, Sensitivity, SensitivityAnalysis
from intact.ptq.analysis.partial_quantization import QuantizedReads, grids_of
from intact.ptq.analysis.sensitivity_trials import Sweep
from intact.ptq.analysis.sensitivity_units import By, measure_units, units_of
from intact.ptq.analysis.tensor_observations import TensorObservation, observe
from intact.ptq.data.batch_splitting import BatchSplitter
from intact.ptq.data.batches import open_data
from intact.ptq.data.model_inputs import Feeds, inputs_of
from intact.ptq.measure.output_errors import relative_error, sqnr
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.settings import Settings
from intact.ptq.stages.prepare_model import nothing_to_quantize, prepare_state
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
    neural network"; docs/decisions/0033-sensitivity-analysis.md measures it). Branches of Ifs stay in float.

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
    _check_arguments(by, budget, runs)
    settings = settings_of(options | {"progress": progress})
    before, after = states_around_pairs(source, data, settings)
    grids = grids_of(before, after)
    runs_used = before.runs[:runs]
    sweep = Sweep(before.model, grids, runs_used)
    if not sweep.total:
        raise QuantValueError(
            "model", "no real output", "an output of floats to measure errors by",
            "analyze it without the ArgMax or the like at its end",
        )  # fmt: skip
    activations, weights = _observe_activations(before, grids), _observe_weights(grids)
    local = _tensor_errors(grids, activations)
    parts, trials = measure_units(units_of(before, grids, by, local), sweep, budget, progress)
    shares = _shares(parts, local)
    later_observations = {} if later is None else _observe_later_data(before, activations, later, settings)
    gains, wide = _gains(parts, relative_error(sweep.total)), placement.profile_of(settings.profile).bits16
    evidence = [
        TensorEvidence(
            name,
            observation,
            later_observations.get(name),
            shares[name],
            gains.get(name),
            name in weights,
            wide,
        )
        for name, observation in (activations | weights).items()
    ]
    return SensitivityAnalysis(
        error=relative_error(sweep.total),
        sqnr=sqnr(sweep.total),
        parts=tuple(parts),
        findings=tuple(findings_of(evidence)),
        runs=len(runs_used),
        trials=trials,
        segments=sweep.segments,
        settings=_settings_in_words(after, settings, by),
        drawn=_histograms_to_draw(grids, after),
    )


def settings_of(options: Mapping[str, Any]) -> Settings:
    """Build `Settings` from arguments of `quantize`; unknown names become options of the calibration
    method.
    """
    setting_names = {entry.name for entry in fields(Settings) if entry.init} - {"options"}
    rest = {name: value for name, value in options.items() if name not in setting_names}
    return Settings(**{name: options[name] for name in setting_names & options.keys()}, options=rest)


def _check_arguments(by: str, budget: int, runs: int | None) -> None:
    if by not in ("tensor", "layer"):
        raise QuantValueError("by", f"{by!r:.60}", "'tensor' or 'layer'", "choose one of these")
    for name, number in (("budget", budget), ("runs", 1 if runs is None else runs)):
        if not is_whole(number) or number < 1:
            raise QuantValueError(
                name, f"{number!r:.60}", "at least 1", "leave it out, or give a positive number"
            )


def states_around_pairs(source: graph.Source, data: Any, settings: Settings) -> tuple[State, State]:
    """Return the state in front of the stage that inserts Q/DQ pairs, and the final quantized state.

    Args:
        source: A model, as `quantize` takes it.
        data: Calibration data, as `quantize` takes them.
        settings: Of the quantization.
    Raises:
        QuantValueError: Nothing can be quantized, or statistics came instead of data.
        IntactError: As for `quantize`.
    """
    state = prepare_state(source, data, settings)
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


def _observe_activations(before: State, grids: QuantizedReads) -> dict[str, TensorObservation]:
    ranges = {target.site.value: (spec, ends) for target, spec, ends in grids.activations}
    return observe(before.model, ranges, (sample.feeds for sample in before.runs))


def _observe_weights(grids: QuantizedReads) -> dict[str, TensorObservation]:
    observations = {}
    for target, weight in grids.weights:
        observation = TensorObservation(weight.spec, weight.ends, target.site.axis)
        observation.add(weight.array, 0)
        observations[target.site.value] = observation
    return observations


def _tensor_errors(grids: QuantizedReads, observations: Mapping[str, TensorObservation]) -> dict[str, float]:
    """Return the squared error of each tensor relative to its square."""
    errors = {name: observation.relative_error for name, observation in observations.items()}
    for target, weight in grids.weights:
        square = float(np.square(weight.array, dtype=np.float64).sum())
        error_square = float(np.square(weight.rounding_error).sum())
        errors[target.site.value] = error_square / square if square > 0 else 0.0
    return errors


def _shares(parts: Sequence[Sensitivity], local: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each tensor; a layer's share is divided by the local errors of its tensors."""
    shares: dict[str, float] = {}
    for part in parts:
        for tensor in part.tensors:
            mine = local[tensor] / part.local if part.local > 0 else 1 / len(part.tensors)
            shares[tensor] = shares.get(tensor, 0.0) + mine * part.share
    return shares


def _gains(parts: Sequence[Sensitivity], error: float) -> dict[str, float]:
    """Return the part of `error` that vanishes when a tensor alone stays in float, for measured tensors."""
    return {
        part.name: 1 - part.without / error
        for part in parts
        if part.measured and part.kind != "layer" and error > 0
    }


def _observe_later_data(
    state: State, observations: Mapping[str, TensorObservation], later: Any, settings: Settings
) -> dict[str, TensorObservation]:
    inputs = inputs_of(state.model)
    outputs = [value.name for value in state.model.graph.outputs if value.name]
    cutter = BatchSplitter(graph.Session(state.model, folded=True), outputs, inputs)

    def feeds() -> Iterable[Feeds]:
        source = open_data(later, inputs, batch_size=settings.batch_size, num_batches=settings.num_batches)
        with Progress("later data", source.total, settings.progress) as bar:
            for number, feeds_of_run in cutter.runs(source.batches):
                bar.advance(done=number)
                yield feeds_of_run

    try:
        return observe(
            state.model,
            {name: (observation.spec, observation.ends) for name, observation in observations.items()},
            feeds(),
        )
    except IntactError as error:
        raise error.at("later data") from error


def _histograms_to_draw(grids: QuantizedReads, after: State) -> dict[str, Drawn]:
    assert after.calibration is not None
    drawings = {}
    for target, spec, (low, high) in grids.activations:
        stats = after.calibration[target.site.value]
        if isinstance(stats, Histogram):
            drawings[target.site.value] = Drawn(stats, (float(low.min()), float(high.max())), str(spec))
    for target, weight in grids.weights:
        stats = Histogram()
        stats.collect(weight.array)
        low, high = weight.ends
        drawings[target.site.value] = Drawn(stats, (float(low.min()), float(high.max())), str(weight.spec))
    return drawings


def _settings_in_words(state: State, settings: Settings, by: By) -> dict[str, str]:
    """Describe the settings and what became of them, for the report."""
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
