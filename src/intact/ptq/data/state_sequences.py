"""Calibration data for models that pass a state from each run to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from intact import graph
from intact.errors import QuantValueError
from intact.ptq.data.model_inputs import Feeds, Input, feeds_of, inputs_of


def streamed(
    source: graph.Source,
    sequences: Iterable[Iterable[Any]],
    states: Mapping[str, str],
    first: Mapping[str, Any] | None = None,
) -> Iterator[Feeds]:
    """Yield batches for `quantize`: the steps of sequences, each with the states that the step before it
    left.

    The float model runs over every sequence, so that ranges are those of states which occur.

    Args:
        source: The float model, as for `quantize`.
        sequences: Each is an iterable of steps, and states begin anew with it. A step is what
            `intact.ptq.open_data` takes as a batch, without the states.
        states: For each input that is a state, the output that is its next value.
        first: The first states, by input; those left out are 0, their free sizes as the step's inputs have
            them.
    Raises:
        QuantValueError: There is no such input or output, a step does not fit the model, or the sizes of a
            state are not known.
    """
    model = graph.load(source)
    inputs = {model_input.name: model_input for model_input in inputs_of(model)}
    outputs = {value.name for value in model.graph.outputs}
    _check_names("input", states, inputs)
    _check_names("output", states.values(), outputs)
    step_inputs = [model_input for name, model_input in inputs.items() if name not in states]
    session = graph.Session(graph.to_bytes(model), folded=True)
    for number, sequence in enumerate(sequences):
        current_states: Feeds | None = None
        for step, item in enumerate(sequence):
            feeds = feeds_of(item, step_inputs, f"step {step} of sequence {number}")
            if current_states is None:
                current_states = {
                    name: _first_state(inputs[name], feeds, step_inputs, first or {}) for name in states
                }
            feeds |= current_states
            yield feeds
            results = session.run(feeds)
            current_states = {name: results[output] for name, output in states.items()}


def _check_names(kind: str, names: Iterable[str], available: Iterable[str | None]) -> None:
    names_available = sorted(map(str, available))
    if missing := [name for name in names if name not in names_available]:
        raise QuantValueError(
            "states",
            f"no {kind} '{missing[0]}'",
            f"one of {names_available}",
            "give names of the model: {input: output}",
        )


def _first_state(state: Input, feeds: Feeds, step_inputs: list[Input], first: Mapping[str, Any]) -> Any:
    """Return the first value of a state: the user's, or zeros."""
    if state.name in first:
        return feeds_of({state.name: first[state.name]}, [state], "the first states")[state.name]
    sizes = {
        dim: size
        for model_input in step_inputs
        for dim, size in zip(model_input.shape or (), feeds[model_input.name].shape, strict=False)
        if isinstance(dim, str)
    }
    shape = [sizes.get(dim) if isinstance(dim, str) else dim for dim in state.shape or (None,)]
    known_sizes = [size for size in shape if size is not None]
    if len(known_sizes) < len(shape):
        raise QuantValueError(
            f"input '{state.name}'", f"free sizes {state.shape}", "sizes that the step's inputs tell",
            "give its first value: first={input: array}",
        )  # fmt: skip
    return np.zeros(known_sizes, state.dtype)
