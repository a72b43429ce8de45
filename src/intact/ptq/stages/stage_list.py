"""The ordered list of quantization stages: each proposes a state, which is scored, and kept or not.

To add one, write ``stage(state) -> State | None`` in a file of its own, which changes a clone of the model,
and give it a line of `STAGES`: in front of "calibrate" it sees the float model and no data; between
"calibrate" and "ranges" statistics and hold-out samples, too; behind "pairs" the quantized model.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from intact.graph import check_after
from intact.progress import Progress
from intact.ptq.measure.quantization_state import State
from intact.ptq.stages.bias_correction import with_bias_errors, with_corrected_biases, with_settled_biases
from intact.ptq.stages.bias_overflow import with_room_for_biases
from intact.ptq.stages.choose_ranges import (
    error_of_chosen_ranges,
    with_best_ranges,
    with_candidates,
    with_halves,
)
from intact.ptq.stages.collect_statistics import with_statistics
from intact.ptq.stages.cross_layer_equalization import (
    equalize_on_request,
    propose_equalization,
    reason_against_second_pass,
)
from intact.ptq.stages.dynamic_layers import write_dynamic_layers
from intact.ptq.stages.embedding_tables import write_embedding_tables
from intact.ptq.stages.insert_qdq import with_pairs, with_weights
from intact.ptq.stages.proposal_scores import error_by_held_runs, error_by_statistics
from intact.ptq.stages.rounding_boundaries import with_cleared_boundaries
from intact.ptq.stages.smoothing import smooth_images, smooth_products
from intact.ptq.stages.stored_codes import store_codes_again
from intact.ptq.stages.weight_rounding import round_all_weights, round_weights

_CLEARLY = 0.95
"""Of the error before: below that a change is worth a second pass over the data, or new operators."""

_LARGE = 2**24
"""Bytes of float weights that are worth a look at every object of the process."""


@dataclass(frozen=True)
class Stage:
    """Describes one step of `quantize`.

    Attributes:
        name: The name, shown by progress bars.
        propose: Returns the state that the stage would make, or None where there is nothing to do.
        switch: The name of the setting that controls the stage. False skips it, True keeps its proposal, and
            "auto" scores the proposal. A stage with "" always runs.
        error: Scores a state, the lower the better; None keeps proposals without a score.
        below: The part of the earlier error that a proposal must fall below.
        barred: Returns the reason why a helpful proposal cannot be taken, for a warning; "" where it can.
        has_bar: Whether the stage draws its own progress bar.
        in_place: Whether `propose` changes the given model; only stages without a score may.
    """

    name: str
    propose: Callable[[State], State | None]
    switch: str = ""
    error: Callable[[State], float] | None = None
    below: float = 1.0
    barred: Callable[[State], str] | None = None
    has_bar: bool = False
    in_place: bool = False

    def run(self, state: State, own: bool = False) -> State:
        """Run this stage; `own` allows it to change the model of `state` in place."""
        if self.in_place and not own:
            state = state.with_own_model()
        switch = getattr(state.settings, self.switch) if self.switch else True
        proposed = self.propose(state) if switch else None
        if proposed is None or (switch == "auto" and not self._helps(state, proposed)):
            return state
        if self.barred is not None and (why := self.barred(state)):
            return replace(state, warnings=(*state.warnings, why))
        return proposed

    def _helps(self, before: State, after: State) -> bool:
        return self.error is None or self.error(after) < self.below * self.error(before)


STAGES = (
    Stage("equalize as asked", equalize_on_request, "equalization"),
    Stage("calibrate", with_statistics, has_bar=True),
    Stage(
        "equalize where it helps", propose_equalization, "equalization",
        error_by_held_runs, _CLEARLY, reason_against_second_pass,
    ),
    Stage("calibrate what was equalized", with_statistics, has_bar=True),
    Stage("smooth images", smooth_images, "equalization"),
    Stage("smooth", smooth_products, "equalization", error_by_statistics, _CLEARLY),
    Stage("ranges", with_candidates),
    Stage("weights", with_weights),
    Stage("round weights", round_weights, "rounding"),
    Stage("round all weights", round_all_weights, "rounding"),
    Stage("room for biases", with_room_for_biases),
    Stage("bias errors", with_bias_errors, "bias_correction", in_place=True),
    Stage("halves", with_halves),
    Stage("embedding tables", write_embedding_tables, in_place=True),
    Stage("pairs", with_pairs, in_place=True),
    Stage("dynamic layers", write_dynamic_layers, in_place=True),
    Stage("best ranges", with_best_ranges, in_place=True),
    Stage("correct biases", with_corrected_biases, "bias_correction", error_of_chosen_ranges),
    Stage("settle biases", with_settled_biases, in_place=True),
    Stage("clear boundaries", with_cleared_boundaries, in_place=True),
    Stage("codes of floats", store_codes_again, in_place=True),
)  # fmt: skip


def run(state: State, stages: Sequence[Stage] = STAGES, *, own: bool = False) -> State:
    """Run all `stages` on `state`.

    Args:
        state: The first stage's.
        stages: In their order.
        own: Nobody else needs the model of `state`: it may change in place.
    """
    first_model = None if own else state.model
    for number, stage in enumerate(stages):
        weight_bytes = sum(weight.array.nbytes for weight in state.weights)
        has_own_bar = state.settings.progress and not stage.has_bar
        with Progress(stage.name, len(stages), True) if has_own_bar else nullcontext() as bar:
            if bar is not None:
                bar.advance(done=number)
            state = stage.run(state, own=state.model is not first_model)
        check_after(state.model, stage.name)
        if weight_bytes >= _LARGE and not state.weights:
            gc.collect()  # a model is a circle of nodes and values: its float weights would stay for a while
    return state
