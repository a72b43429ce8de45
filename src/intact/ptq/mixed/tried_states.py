"""Measures other formats of a model's tensors without the comparisons that a result needs.

A result compares ranges, corrected biases and samples apart: three to four times the runs that a search needs
to know whether an output is good enough. So a search measures the ranges that were chosen before, and biases
as they were then, and what it takes is run to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from intact.graph import Model
from intact.processes import cached_property
from intact.ptq.measure.holdout_samples import HoldoutSample
from intact.ptq.measure.output_errors import Errors, Evaluator, lowest_sqnr, relative_error, sum_errors
from intact.ptq.measure.quantization_state import State
from intact.ptq.scope.quantization_ranges import Ranges
from intact.ptq.stages.bias_correction import biases_after_correction
from intact.ptq.stages.choose_ranges import UNCORRECTED, store_ranges
from intact.ptq.stages.insert_qdq import feeds_of_ranges
from intact.ptq.stages.stage_list import STAGES, run

AT_PAIRS, _AT_RANGES = ([stage.name for stage in STAGES].index(name) for name in ("pairs", "best ranges"))
"""Index of the first of the last stages: what was decided in front of them stays."""


class TriedState:
    """Holds a proposal with its pairs; errors are measured when they are first asked for.

    Args:
        proposed: In front of the pairs.
        like: A state with its pairs, of the same samples: its chosen ranges and biases are tried.
        own: Nobody else needs the model of `proposed`.
    """

    def __init__(self, proposed: State, like: State, *, own: bool = False) -> None:
        self._state = run(proposed, STAGES[AT_PAIRS:_AT_RANGES], own=own)
        self._biases = biases_after_correction(self._state.model, self._state.bias_errors)
        self._biases = self._biases if like.corrected else {}
        configurations = self._state.configurations
        self._ranges = configurations.get(like.chosen) or next(iter(configurations.values()))

    @property
    def model(self) -> Model:
        """The model with its pairs, and with the codes of dynamic layers."""
        return self._state.model

    @cached_property
    def _evaluator(self) -> Evaluator:
        scales = feeds_of_ranges(self._state, self._ranges)
        return Evaluator(self._state.model, self._state.runs, [*scales, *self._biases])

    def _errors_with(self, ranges: Ranges, runs: Sequence[HoldoutSample]) -> Errors:
        return self._evaluator.errors_of(feeds_of_ranges(self._state, ranges) | self._biases, runs)

    @cached_property
    def errors(self) -> Errors:
        """The errors on all hold-out samples, see `State.errors`."""
        return self._errors_with(self._ranges, self._state.runs)

    @cached_property
    def unseen(self) -> Errors:
        """The errors on samples that ranges do not know, see `State.unseen`; on all where these are few."""
        chooser, halves = self._state.chooser, self._state.halves
        assert chooser is not None
        if not halves:
            return self.errors
        refitted = (chooser.refit(self._ranges, half.calibration) for half in halves)
        parts = [self._errors_with(r, half.runs) for r, half in zip(refitted, halves, strict=True)]
        return sum_errors(parts)

    @property
    def least_sqnr(self) -> float:
        """See `intact.ptq.stages.choose_ranges.least_sqnr`."""
        return lowest_sqnr(self.errors)

    @property
    def least_unseen_sqnr(self) -> float:
        """See `intact.ptq.stages.choose_ranges.least_unseen_sqnr`."""
        return lowest_sqnr(self.unseen)

    @property
    def error(self) -> float:
        """The relative error of all outputs, on samples that ranges do not know where these suffice."""
        return relative_error(self.unseen)

    def finish(self, *, keeps_ranges: bool = False) -> State:
        """Run all other stages, once: they change the model in place.

        Args:
            keeps_ranges: Do not compare the ranges again, where biases stay corrected, too: formats of pairs
                are as they were, and their errors are measured.
        """
        measured = self._with_measured_ranges() if keeps_ranges else None
        if measured is not None:
            return run(measured, STAGES[_AT_RANGES + 1 :], own=True)
        return run(self._state, STAGES[_AT_RANGES:], own=True)

    def _with_measured_ranges(self) -> State | None:
        """Return the state with the ranges that were tried, and their errors; None where biases are open."""
        configurations = self._state.configurations
        chosen = next(name for name, ranges in configurations.items() if ranges is self._ranges)
        errors = {chosen: self.errors}
        if self._state.bias_errors:
            plain = self._evaluator.errors(feeds_of_ranges(self._state, self._ranges), self.errors)
            if not self._biases or relative_error(plain, self.errors) <= relative_error(self.errors):
                return None
            errors[UNCORRECTED] = plain
        state = replace(self._state, chosen=chosen, errors=errors)
        return store_ranges(replace(state, unseen=self.unseen if state.halves else Errors()))
