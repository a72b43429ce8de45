"""Which ranges the activations get: what each method would choose, compared by the outputs on held runs."""

from __future__ import annotations

from dataclasses import replace

from intact.graph import set_initializer
from intact.ptq.measure.output_errors import Evaluator, relative
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_ranges import Activations
from intact.ptq.stages.bias_correction import corrected
from intact.ptq.stages.insert_qdq import feeds_of_ranges

UNCORRECTED = "without corrected biases"


def with_candidates(state: State) -> State:
    """The ranges of every method; those of one configuration where there are no runs to compare on."""
    assert state.calibration is not None
    chooser = Activations(state.activations, state.calibration, state.settings.options, state.known)
    configurations = chooser.configurations(several=bool(state.runs))
    return replace(state, chooser=chooser, configurations=configurations)


def with_best_ranges(state: State) -> State:
    """The ranges under which the outputs change least, the first of equals, stored in the model, in place.

    Whole ranges are clipped only where that halves the error: the runs that are held show few of the rare
    values that a detector, for example, answers with, and the task may be about these.

    They are compared with corrected biases: what rounding does to the means would drown what they do. The
    better ones are then measured without, too.
    """
    model = state.model
    if state.runs:
        biases = corrected(model, state.bias_errors)
        feeds = {name: feeds_of_ranges(state, ranges) for name, ranges in state.configurations.items()}
        evaluator = Evaluator(model, state.runs, [*next(iter(feeds.values())), *biases])
        chosen, errors = evaluator.best({name: r | biases for name, r in feeds.items()}, "max")
        if biases:
            errors[UNCORRECTED] = evaluator.errors(feeds[chosen], errors[chosen])
        state = replace(state, chosen=chosen, errors=errors)
    for name, array in feeds_of_ranges(state, state.ranges).items():
        set_initializer(model, name, array)
    return state


def measured_error(state: State) -> float:
    """Error of the outputs under the chosen ranges, with the biases as they are: where these are worse than
    corrected ones at least so much."""
    return relative(state.errors[label(state)], state.errors[state.chosen])


def label(state: State) -> str:
    """What `errors` calls the model as it is."""
    return UNCORRECTED if state.bias_errors and not state.corrected else state.chosen
