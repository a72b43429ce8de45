"""What equalization, smoothing and rounding are scored by: the outputs of a trial on a few held runs."""

from __future__ import annotations

from dataclasses import replace

from intact.graph import Inserter, Namer, prune
from intact.ptq.data.batches import Source
from intact.ptq.data.model_inputs import inputs_of
from intact.ptq.measure.output_errors import Evaluator, relative
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_ranges import Activations
from intact.ptq.stages.bias_correction import put_corrected, with_bias_errors
from intact.ptq.stages.collect_statistics import collect
from intact.ptq.stages.insert_qdq import with_pairs, with_weights

TRIED = 8
"""Of the held runs, at most."""


def error_by_statistics(state: State) -> float:
    """Error of the outputs, with ranges of small squared error (the other methods cost more than they tell).

    Biases are corrected where they may be: coarser weights move means.
    """
    return _error(replace(state, runs=state.runs[:TRIED]), bool(state.settings.bias_correction))


def error_by_held_runs(state: State) -> float:
    """The same where the held runs are the calibration data, too: a state needs no statistics of its own."""
    runs = state.runs[:TRIED]
    feeds = Source(iter([held.feeds for held in runs]), len(runs), "held runs")
    stats = collect(state.model, state.wanted, feeds, inputs_of(state.model), progress=False).calibration
    return _error(replace(state, runs=runs, calibration=stats), False)


def error_of_weights(state: State) -> float:
    """Error of the outputs with the weights on their grids, as they are rounded, and activations in float.

    Those would add an error of chance, which is many times as large as what is asked for. Biases are
    corrected where they may be.
    """
    state = replace(state, runs=state.runs[:TRIED]).with_own_model()
    weights, model = state.weights, state.model
    if state.settings.bias_correction:
        state = with_bias_errors(state) or state
    put_corrected(model, state.bias_errors)
    nodes, names = {node.name or "": node for node in model.graph}, Namer(model.graph)
    for weight in weights:
        for name, index in weight.readers:
            insert = Inserter(model.graph, nodes[name], names)
            nodes[name].replace_input_with(index, insert.constant(f"{name}.meant", weight.meant))
    prune(model)
    return relative(Evaluator(model, state.runs).errors())


def _error(state: State, correct: bool) -> float:
    assert state.calibration is not None
    chooser = Activations(state.activations, state.calibration, {}, state.known)
    state = with_weights(replace(state, chooser=chooser, configurations={"mse": chooser.by("mse")}))
    state = state.with_own_model()
    if correct:
        state = with_bias_errors(state) or state
    model = with_pairs(state).model
    put_corrected(model, state.bias_errors)
    return relative(Evaluator(model, state.runs).errors())
