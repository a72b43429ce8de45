"""Chooses the ranges of activations: compares those of each method by the outputs on hold-out samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from numpy.typing import NDArray

from intact.graph import set_initializer
from intact.ptq.measure.holdout_halves import holdout_halves
from intact.ptq.measure.output_errors import Errors, Evaluator, lowest_sqnr, relative_error, sum_errors
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_ranges import Activations
from intact.ptq.stages.bias_correction import biases_after_correction
from intact.ptq.stages.insert_qdq import feeds_of_ranges

UNCORRECTED = "without corrected biases"


def with_halves(state: State) -> State | None:
    """Return `state` with the halves of its hold-out samples, or None where there are none."""
    if not state.runs or state.calibration is None:
        return None
    tensors = [name for name in state.tensors_to_calibrate if name in state.calibration]
    halves = holdout_halves(state.model, state.calibration, tensors, state.runs, has_run=state.has_run)
    return replace(state, halves=halves)


def with_candidates(state: State) -> State:
    """Compute the ranges of every method; of one configuration where no samples exist to compare on."""
    assert state.calibration is not None
    chooser = Activations(state.activations, state.calibration, state.settings.options, state.candidate_cache)
    configurations = chooser.configurations(several=bool(state.runs))
    return replace(state, chooser=chooser, configurations=configurations)


def with_candidates_again(state: State, chosen: str) -> State:
    """Compute ranges anew behind a change of formats: those `chosen` before and whole ones, to compare."""
    state = with_candidates(state)
    again = {name: ranges for name, ranges in state.configurations.items() if name in (chosen, "max")}
    return replace(state, configurations=again or state.configurations)


def with_best_ranges(state: State) -> State:
    """Choose the ranges that change the outputs least (the first of equals), and store them in the model.

    Whole ranges are clipped only where that halves the error: the hold-out samples show few of the rare
    values that a detector, for example, answers with, and the task may be about these.

    They are compared with corrected biases: what rounding does to the means would drown what they do. The
    better ones are then measured without, too.
    """
    model = state.model
    if state.runs:
        biases = biases_after_correction(model, state.bias_errors)
        feeds = {name: feeds_of_ranges(state, ranges) for name, ranges in state.configurations.items()}
        evaluator = Evaluator(model, state.runs, [*next(iter(feeds.values())), *biases])
        chosen, errors = evaluator.best({name: r | biases for name, r in feeds.items()}, "max")
        if biases:
            errors[UNCORRECTED] = evaluator.errors(feeds[chosen], errors[chosen])
        state = replace(state, chosen=chosen, errors=errors)
        corrected = not biases or relative_error(errors[chosen]) < relative_error(errors[UNCORRECTED])
        unseen = _errors_of_halves(state, evaluator, biases if corrected else {})
        state = replace(state, unseen=unseen)
    return store_ranges(state)


def store_ranges(state: State) -> State:
    """Store the chosen ranges in the model, in place."""
    for name, array in feeds_of_ranges(state, state.ranges).items():
        set_initializer(state.model, name, array)
    return state


def _errors_of_halves(state: State, evaluator: Evaluator, biases: Mapping[str, NDArray]) -> Errors:
    """Return the errors on samples that the ranges of the chosen configuration do not know."""
    assert state.chooser is not None
    total = Errors()
    for half in state.halves:
        ranges = state.chooser.refit(state.ranges, half.calibration)
        feeds = feeds_of_ranges(state, ranges) | dict(biases)
        total = sum_errors([evaluator.errors_of(feeds, half.runs)], total)
    return total


def error_of_chosen_ranges(state: State) -> float:
    """Return the output error of the chosen ranges with the biases as they are."""
    return relative_error(state.errors[label(state)], state.errors[state.chosen])


def least_sqnr(state: State) -> float:
    """Return the signal to quantization noise ratio of the worst output, in dB."""
    return lowest_sqnr(state.errors[label(state)])


def least_unseen_sqnr(state: State) -> float:
    """Return that ratio on samples that ranges do not know; on all hold-out samples where these are few."""
    return lowest_sqnr(state.unseen) if state.unseen else least_sqnr(state)


def label(state: State) -> str:
    """Return the name under which `errors` lists the model as it is."""
    return UNCORRECTED if state.bias_errors and not state.corrected else state.chosen
