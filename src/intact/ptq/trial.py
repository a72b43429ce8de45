"""Whether equalization or smoothing helps, tried on a few held runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from intact.calib import Calibration
from intact.graph import set_initializer
from intact.ptq.bias_correction import corrected, mean_errors
from intact.ptq.collect import Held, collect
from intact.ptq.data import Source
from intact.ptq.equalization import equalize, find_pairs
from intact.ptq.evaluator import Evaluator, relative
from intact.ptq.inputs import inputs_of
from intact.ptq.prepare import Prepared, emit
from intact.ptq.ranges import Activations

_TRIED = 8
_CLEARLY = (
    0.95  # of the error without it: below that it is worth a second pass over the data, or new operators
)


def equalizing_helps(ready: Prepared, held: Sequence[Held], per_channel: bool) -> bool:
    """Whether the outputs on a few held runs change less when channels are equalized first.

    It is tried where it can matter: weights with one scale, or depthwise layers.
    """
    pairs = find_pairs(ready.model)
    matters = bool(pairs) and (not per_channel or any(pair.depthwise for pair in pairs))
    if not matters:
        return False
    runs = held[:_TRIED]
    before, after = (_error_with(ready, runs, equalized) for equalized in (False, True))
    return after < _CLEARLY * before


def smoothing_helps(
    plain: tuple[Prepared, Calibration],
    smooth: tuple[Prepared, Calibration],
    held: Sequence[Held],
    correct: bool,
) -> bool:
    """Whether the outputs on a few held runs change less in the smoothed copy of a model.

    Args:
        plain, smooth: The model and its statistics, as it was and smoothed.
        held: The runs.
        correct: Whether biases may be corrected: coarser weights move means.
    """
    before, after = (
        _error(replace(ready, model=ready.model.clone()), stats, held[:_TRIED], correct)
        for ready, stats in (plain, smooth)
    )
    return after < _CLEARLY * before


def _error_with(ready: Prepared, runs: Sequence[Held], equalized: bool) -> float:
    """Error of the outputs on `runs` when they are the calibration data, too."""
    trial = replace(ready, model=ready.model.clone())
    if equalized:
        equalize(trial.model)
    feeds = Source(iter([held.feeds for held in runs]), len(runs), "held runs")
    stats = collect(trial.model, trial.wanted, feeds, inputs_of(trial.model), progress=False).calibration
    return _error(trial, stats, runs, False)


def _error(trial: Prepared, stats: Calibration, runs: Sequence[Held], correct: bool) -> float:
    """Error of the outputs on `runs`; puts the pairs into the model of `trial`."""
    chooser, weights = Activations(trial.activations, stats, {}), trial.quantized_weights()
    layers = mean_errors(trial.model, weights, runs) if correct else []
    emit(trial, chooser, weights, next(iter(chooser.configurations(False).values())))
    for name, bias in corrected(trial.model, layers).items():
        set_initializer(trial.model, name, bias)
    return relative(Evaluator(trial.model, runs).errors())
