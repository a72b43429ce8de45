"""Rounds the weights of one sum together, so that their errors cancel (LDLQ / GPTQ).

The nearest code of each weight is not the best one of all: what one weight's rounding adds to an output, the
next one can take back, as far as the inputs that both multiply go together. With d the rounding errors of one
output channel and H = E[x x^T] over the inputs of the float model, the output's squared error is d^T H d.
Columns are rounded one after the other, each moved by what the errors before it ask for: with H = U D U^T, U
a unit upper triangle, w_i + sum over k < i of d_k U_ki is rounded, with d = w - w_q (LDLQ, Chee et al. 2023,
section 3.2; the same codes as GPTQ, Frantar et al. 2023). Where the bias is corrected afterwards
(`bias_correction`) the mean of the error does not count: H is then the covariance.

A layer keeps this where its error is smaller on inputs that it was not fitted to, and nearest codes else
(docs/decisions/0023-default-grids.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact import kernels, numerics
from intact.graph import Node
from intact.ptq.measure.holdout_samples import HoldoutSample, halves_of
from intact.ptq.measure.input_means import Means, mean_readers, weight_shapes
from intact.ptq.measure.layer_inputs import read_layer_inputs
from intact.ptq.measure.moment_readers import FEW_COLUMNS, moment_readers, rows_of_run
from intact.ptq.measure.quantization_state import InputMeans, State
from intact.ptq.measure.running_sums import Moments, RunningSums, add_by_name, blocks_of, means_of
from intact.ptq.measure.weight_rows import as_rows, from_rows
from intact.ptq.scope.quantization_ranges import QuantizedWeight
from intact.ptq.stages.proposal_scores import error_by_statistics, error_of_weights

_LITTLE = 1e-4  # of the outputs' squares (40 dB): weights that lose less are left as they are
_HALVED = 0.5  # of the error before: what fitting all weights must get below, as much of it fits chance
_LOOKED = 2  # of the hold-out samples: enough to see whose error decides
_DECIDES = 0.5  # of the error of all: where weights lose a smaller part, halving it is hardly seen
_MANY = 2**23  # weights of a model: fitting more takes longer than all other stages
_DAMPING = 0.01  # of the mean square, added to each: what was not seen may happen


def round_weights(state: State) -> State | None:
    """Round the weights of layers that sum few products, or of all layers on request.

    Return None where there is nothing to fit.

    Those of layers that sum up few products, or all where that is asked for.
    """
    everywhere = state.settings.rounding is True
    layers = {
        number: nodes
        for number, (nodes, columns) in _layers(state).items()
        if everywhere or columns <= FEW_COLUMNS
    }
    return _round_layers(state, layers)


def round_all_weights(state: State) -> State | None:
    """Round all weights, if that halves the output error that weights cause on samples not fitted to.

    Codes are fitted to half of the hold-out samples and scored on the other half; what is kept is fitted to
    all. None where it does not help, where weights lose little or less than activations do, where there are
    so many that it would take long, or where there is one sample.
    """
    if state.settings.rounding is True or not state.runs:  # True: they were
        return None
    layers = {number: nodes for number, (nodes, columns) in _layers(state).items() if columns > FEW_COLUMNS}
    if not layers or sum(weight.array.size for weight in state.weights) > _MANY:
        return None
    few = replace(state, runs=state.runs[:_LOOKED])
    least = error_of_weights(few)
    if least <= _LITTLE or least < _DECIDES * error_by_statistics(few):
        return None
    runs = state.runs if len(state.runs) > 1 else tuple(chain(*halves_of(state.runs)))
    if len(runs) < 2:
        return None
    fits, means = _fit_layers(replace(state, runs=runs), layers)
    if min((fit.ratio for fit in fits.values()), default=1.0) >= _HALVED:
        return None  # errors of layers add up: that of the outputs is not halved either
    unseen = replace(state, runs=runs[1::2], input_means=means)
    half_rounded = {number: fit.codes_of_half for number, fit in fits.items()}
    if error_of_weights(_with_rounded(unseen, half_rounded)) >= _HALVED * error_of_weights(unseen):
        return None
    return _with_rounded(replace(state, input_means=means), {n: fit.codes for n, fit in fits.items()})


def _round_layers(state: State, layers: Mapping[int, list[Node]]) -> State | None:
    if not state.runs or not layers:
        return None
    fits, means = _fit_layers(state, layers)
    codes = {number: fit.codes for number, fit in fits.items()}
    return _with_rounded(replace(state, input_means=means), codes)


def _with_rounded(state: State, codes: Mapping[int, Callable[[], NDArray[np.float32] | None]]) -> State:
    """Return the state with other codes of the weights with these numbers; None: the nearest ones."""
    weights = list(state.weights)
    for number, codes_of_weight in codes.items():
        weights[number] = replace(weights[number], rounded=codes_of_weight())
    return replace(state, weights=tuple(weights))


def _fit_layers(
    state: State, layers: Mapping[int, list[Node]]
) -> tuple[dict[int, _LayerFit], InputMeans | None]:
    """Fit weights to every other run, by number; return the means of inputs, too, if these are known."""
    measured_means = state.input_means
    if measured_means is not None and not measured_means.are_of(state):
        measured_means = None
    moments, means = _measure(
        state, [node for nodes in layers.values() for node in nodes], measured_means is None
    )
    centred, fits = bool(state.settings.bias_correction), dict[int, _LayerFit]()
    for number, nodes in layers.items():
        halves = [moments[node.name or ""] for node in nodes if (node.name or "") in moments]
        if halves:
            fitted, tested = (sum(half[1:], half[0]).hessians(centred) for half in zip(*halves, strict=True))
            fits[number] = _LayerFit(state.weights[number], nodes[0], fitted, tested)
    return fits, measured_means if means is None else InputMeans(state.model, means)


def _layers(state: State) -> dict[int, tuple[list[Node], int]]:
    """Return the readers of each weight, and how many products they sum, by the weight's number."""
    nodes = {node.name or "": node for node in state.model.graph}
    layers = {}
    for number, weight in enumerate(state.weights):
        readers = [nodes[name] for name, _ in weight.readers]
        if weight.spec.format.is_float or any(index != 1 for _, index in weight.readers):
            continue
        alike = {(node.op_type, getattr(as_rows(node, weight.array), "shape", None)) for node in readers}
        if len(alike) != 1 or (shape := next(iter(alike))[1]) is None:
            continue
        layers[number] = readers, shape[2]
    return layers


def _measure(
    state: State, layers: Sequence[Node], with_means: bool
) -> tuple[dict[str, tuple[Moments, Moments]], Means | None]:
    """Measure the moments of every layer's inputs by name, over the even runs and over the odd ones.

    And `with_means` those of all layers' inputs, where biases are to be corrected: in the same pass.
    """
    runs = _at_least_two_runs(state.runs)
    rows = rows_of_run(len(runs))
    names = {node.name or "" for node in layers}
    measured_names = {
        name for name in names if state.has_run and all((name, rows) in sample.moments for sample in runs)
    }
    shapes = {name: weight.array.shape for weight in state.weights for name, _ in weight.readers}
    readers = moment_readers(state.model, {name: shapes[name] for name in names - measured_names}, rows)
    corrects = with_means and bool(state.settings.bias_correction)
    means = dict[str, RunningSums]()
    sums: tuple[dict[str, Moments], dict[str, Moments]] = ({}, {})
    readers_of_pass = (
        readers,
        mean_readers(state.model, weight_shapes(state.model, state.weights)) if corrects else {},
    )
    none: tuple[dict[str, Any], ...] = {}, {}
    passes: Iterable[tuple[dict[str, Any], ...]]
    passes = (
        read_layer_inputs(state.model, runs, *readers_of_pass, has_run=state.has_run)
        if any(readers_of_pass)
        else repeat(none)
    )
    for number, (sample, (moments_read, mean)) in enumerate(zip(runs, passes, strict=False)):
        add_by_name(means, mean)
        add_by_name(
            sums[number % 2], moments_read | {name: sample.moments[name, rows] for name in measured_names}
        )
    moments = {name: (first_half, sums[1][name]) for name, first_half in sums[0].items() if name in sums[1]}
    return moments, means_of(means) if corrects else None


def _at_least_two_runs(runs: Sequence[HoldoutSample]) -> Sequence[HoldoutSample]:
    """Return at least two runs; a single one is used twice."""
    return runs if len(runs) > 1 else (*runs, *runs)


class _LayerFit:
    """Holds codes of a weight that are fitted to half of the runs, and what they lose on the other half.

    Args:
        weight: It.
        node: A layer that reads it.
        fitted, tested: The Hessians of both halves, block by block.

    Attributes:
        ratio: The error on the half that codes were not fitted to, as a part of that of nearest codes; 1
            where nearest codes do as well.
    """

    def __init__(
        self, weight: QuantizedWeight, node: Node, fitted: Sequence[NDArray], tested: Sequence[NDArray]
    ) -> None:
        shape = weight.array.shape
        scale = np.broadcast_to(numerics.expand(weight.grid[0], shape, weight.spec), shape)
        rows, steps = (as_rows(node, np.asarray(a, np.float64)) for a in (weight.array, scale))
        assert rows is not None and steps is not None
        self._node, self._shape, self._rows = node, shape, rows
        self._grid = _Grid(steps, weight.spec.qmin, weight.spec.qmax)
        self._hessians = fitted, tested
        self._of_half = self._grid.round_with_hessians(rows, fitted)
        nearest = _output_error(self._grid.nearest(rows) - rows, tested)
        error = _output_error(self._of_half - rows, tested)
        self.ratio = error / nearest if error < nearest else 1.0

    def codes_of_half(self) -> NDArray[np.float32] | None:
        """Return codes fitted to half of the runs; None where nearest codes do as well."""
        return None if self.ratio >= 1 else self._weight_of(self._of_half)

    def codes(self) -> NDArray[np.float32] | None:
        """Return codes fitted to all runs; None where nearest codes do as well."""
        if self.ratio >= 1:
            return None
        hessians = [(a + b) / 2 for a, b in zip(*self._hessians, strict=True)]
        return self._weight_of(self._grid.round_with_hessians(self._rows, hessians))

    def _weight_of(self, rows: NDArray[np.float64]) -> NDArray[np.float32]:
        return from_rows(self._node, rows.astype(np.float32), self._shape)


def _output_error(errors: NDArray[np.float64], hessians: Sequence[NDArray]) -> float:
    """Return the sum over the outputs of d^T H d, block by block."""
    parts = [errors[:, :, block] for block in blocks_of(errors.shape[2])]
    return sum(float(kernels.quadratic_forms(d, h).sum()) for d, h in zip(parts, hessians, strict=True))


@dataclass(frozen=True)
class _Grid:
    """Holds the grid that the weights of a layer are rounded to.

    Attributes:
        steps: float64 [groups, outputs, columns].
        low, high: The codes at its ends.
    """

    steps: NDArray[np.float64]
    low: float
    high: float

    def nearest(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Round each weight to its nearest grid point."""
        return np.asarray(np.clip(np.rint(rows / self.steps), self.low, self.high) * self.steps)

    def round_with_hessians(
        self, rows: NDArray[np.float64], hessians: Sequence[NDArray]
    ) -> NDArray[np.float64]:
        """Round weights for `hessians`, block by block of columns."""
        rounded = np.empty_like(rows)
        for block, hessian in zip(blocks_of(rows.shape[2]), hessians, strict=True):
            grid = replace(self, steps=self.steps[:, :, block])
            rounded[:, :, block] = grid._round_block(rows[:, :, block], hessian)
        return rounded

    def _round_block(self, rows: NDArray[np.float64], hessian: NDArray) -> NDArray[np.float64]:
        """Round columns one after the other, those with the largest squares first."""
        order, factors = _spread(hessian)
        rounded = np.empty_like(rows)
        rounded[:, :, order] = kernels.round_together(
            rows[:, :, order], self.steps[:, :, order], factors, self.low, self.high
        )
        return rounded


def _spread(hessian: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the order of the columns, and U of U D U^T = H in that order, H damped."""
    count = hessian.shape[1]
    damping = np.trace(hessian, axis1=1, axis2=2) * (_DAMPING / count)
    damped = hessian + np.where(damping > 0, damping, 1.0)[:, None, None] * np.eye(count)
    order = np.argsort(-np.diagonal(damped, axis1=1, axis2=2).sum(axis=0), kind="stable")
    return order, kernels.unit_factor(damped[:, order][:, :, order])
