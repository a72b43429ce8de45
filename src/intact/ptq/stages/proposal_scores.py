"""Scores proposals of equalization, smoothing and rounding by their outputs on hold-out samples."""

from __future__ import annotations

from dataclasses import replace

from intact.graph import Inserter, Namer, prune
from intact.ptq.data.batches import Source
from intact.ptq.data.model_inputs import inputs_of
from intact.ptq.measure.output_errors import Evaluator, relative_error
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_ranges import Activations
from intact.ptq.stages.bias_correction import correct_biases, with_bias_errors
from intact.ptq.stages.collect_statistics import collect
from intact.ptq.stages.insert_qdq import with_pairs, with_weights

TRIAL_RUNS = 8
"""Of the hold-out samples, at most."""


def error_by_statistics(state: State) -> float:
    """Return the output error with mean-squared-error ranges; other methods cost more than they tell.

    Biases are corrected where they may be: coarser weights move means.
    """
    return _output_error(replace(state, runs=state.runs[:TRIAL_RUNS]), bool(state.settings.bias_correction))


def error_by_held_runs(state: State) -> float:
    """Return the output error with ranges from the hold-out samples alone, so that no pass over the data is
    needed.
    """
    runs = state.runs[:TRIAL_RUNS]
    feeds = Source(iter([sample.feeds for sample in runs]), len(runs), "hold-out samples")
    stats = collect(
        state.model, state.tensors_to_calibrate, feeds, inputs_of(state.model), progress=False
    ).calibration
    return _output_error(replace(state, runs=runs, calibration=stats), False)


def error_of_weights(state: State) -> float:
    """Return the output error with weights on their grids and activations in float.

    Those would add an error of chance, which is many times as large as what is asked for. Biases are
    corrected where they may be.
    """
    state = replace(state, runs=state.runs[:TRIAL_RUNS]).with_own_model()
    weights, model = state.weights, state.model
    if state.settings.bias_correction:
        state = with_bias_errors(state) or state
    correct_biases(model, state.bias_errors)
    nodes, names = {node.name or "": node for node in model.graph}, Namer(model.graph)
    for weight in weights:
        for name, index in weight.readers:
            insert = Inserter(model.graph, nodes[name], names)
            nodes[name].replace_input_with(index, insert.constant(f"{name}.meant", weight.value_of_codes))
    prune(model)
    return relative_error(Evaluator(model, state.runs).errors())


def _output_error(state: State, correct: bool) -> float:
    assert state.calibration is not None
    chooser = Activations(state.activations, state.calibration, {}, state.candidate_cache)
    state = with_weights(replace(state, chooser=chooser, configurations={"mse": chooser.by("mse")}))
    state = state.with_own_model()
    if correct:
        state = with_bias_errors(state) or state
    model = with_pairs(state).model
    correct_biases(model, state.bias_errors)
    return relative_error(Evaluator(model, state.runs).errors())
