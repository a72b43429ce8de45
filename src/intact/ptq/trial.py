"""Whether equalization helps, tried on a few held runs before the whole data are read again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from intact.ptq.collect import Held, collect
from intact.ptq.data import Source
from intact.ptq.equalization import equalize, find_pairs
from intact.ptq.inputs import inputs_of
from intact.ptq.judge import Judge, relative
from intact.ptq.prepare import Prepared, emit
from intact.ptq.ranges import Activations

_TRIED = 8
_CLEARLY = 0.95  # of the error without it: what equalization must get below to be worth a second pass


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


def _error_with(ready: Prepared, runs: Sequence[Held], equalized: bool) -> float:
    """Error of the outputs on `runs` when they are the calibration data, too."""
    trial = replace(ready, model=ready.model.clone())
    if equalized:
        equalize(trial.model)
    feeds = Source(iter([held.feeds for held in runs]), len(runs), "held runs")
    stats = collect(trial.model, trial.wanted, feeds, inputs_of(trial.model), progress=False).calibration
    chooser = Activations(trial.activations, stats, {})
    emit(trial, chooser, trial.quantized_weights(), next(iter(chooser.configurations(False).values())))
    return relative(Judge(trial.model, runs).errors())
