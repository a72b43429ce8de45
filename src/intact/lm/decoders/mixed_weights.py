"""Choose the bits of each layer of a decoder within a budget of the whole.

What a format costs is the divergence of the model's answers: each group of layers is rounded alone, once.
The errors of its outputs tell what other formats would cost, because the divergence grows as their squares.
Without a text the errors of the weights stand in for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from intact.errors import QuantValueError
from intact.graph import Session
from intact.lm.decoders.calibrated_weights import HEADS, float_model, prompt_inputs, role_of
from intact.lm.decoders.decoder_weights import DecoderWeights
from intact.lm.decoders.product_times import seconds_per_weight
from intact.lm.decoders.weight_encoder import FLOAT, KEEP
from intact.lm.language_model import log_probabilities
from intact.numerics import dequantize_blocks
from intact.progress import Progress
from intact.ptq.blocks import (
    RECIPES,
    BlockFormat,
    FormatErrors,
    InputMoments,
    candidate_formats,
    choose_formats,
    find_linear_layers,
    group_by_input,
    measure_formats,
    read_groups,
    round_group,
    stored_bits,
)

WINDOW, WINDOWS = 128, 2
"""Tokens of a window on which divergences are measured, and how many windows: each layer costs a run."""

_BITS = (2, 3, 4, 5, 6, 8)
_TABLE = "embedding.weight"


@dataclass(frozen=True)
class WeightBudget:
    """Holds what all weights may cost. One of both is set.

    Attributes:
        bits: For each weight on average, scales of 16 bits included.
        milliseconds: Of the products with all weights, for one token, on this machine.
        threads: Of these products; None: as many as the process may use.
    """

    bits: float | None = None
    milliseconds: float | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if (self.bits is None) == (self.milliseconds is None):
            raise QuantValueError("bits_budget", "a time_budget, too", "one of them", "leave one out")
        for name, value, most in (("bits_budget", self.bits, 64), ("time_budget", self.milliseconds, 1e9)):
            if value is not None and not (isinstance(value, int | float) and 0 < value < most):
                raise QuantValueError(name, f"{value!r:.40}", "a positive number", "take a larger one")


def choose_bits(
    weights: DecoderWeights, positions: int, windows: Sequence[NDArray[np.int64]], *, format: str,
    block: int, budget: WeightBudget, head: str | None = None, progress: bool = False,
) -> dict[str, str]:  # fmt: skip
    """Choose a format for each layer.

    Args:
        weights: Of the decoder.
        positions: The longest sequence that it takes.
        windows: Tokens of a text on whose beginning divergences are measured; none: errors of weights.
        format, block: A format, whose sign all get, and the block of all.
        budget: What they may cost.
        head: Format of the head, which then is no part of the budget; None: it is chosen, too.
        progress: Show a progress bar.
    Returns:
        `bits_of` for `weight_encoder`.
    Raises:
        QuantValueError: The cheapest formats cost more than the budget.
    """
    if format in (KEEP, FLOAT):
        raise QuantValueError("weights", f"{format} under a budget", "intN or uintN", "take int4")
    model = float_model(weights, positions, {}, block)
    layers, _ = find_linear_layers(model)
    groups = [
        group for group in group_by_input(model, layers) if not (head and group.layers[0].name in HEADS)
    ]
    table = None
    if not (weights.config.tied or head) and budget.bits is not None:  # a row of it takes no time
        table = np.asarray(model.graph.initializers[_TABLE].const_value.numpy())
    shapes = [layer.shape for group in groups for layer in group.layers]
    costs = _costs_of(BlockFormat(format, block), budget, shapes)
    parts = [window[begin : begin + WINDOW] for window in windows for begin in range(0, len(window), WINDOW)]
    batches = [prompt_inputs(weights, part, range(len(part))) for part in parts[:WINDOWS]]
    trials = _Trials(model, batches) if batches else None
    errors, matrices = {}, read_groups(model, groups, batches or None)
    with Progress("measure layers", len(groups), progress) as bar:
        for group, (weight, moments) in bar.over(zip(groups, matrices, strict=True)):
            targets = [(layer.weight.name or "", layer.shape[0], True) for layer in group.layers]
            if group.layers[0].name in HEADS and weights.config.tied:
                targets.append((_TABLE, 0, False))
            names = [_role_of(layer.name) for layer in group.layers]
            errors[" ".join(names)] = _measure(weight, moments, costs, trials, targets)
        if table is not None:
            errors["embedding"] = _measure(table, None, costs, trials, [(_TABLE, len(table), False)])
    chosen = choose_formats(errors, costs.grids, costs.most, costs.each, costs.name)
    bits_of = {name: grid.name for names, grid in chosen.items() for name in names.split()}
    fixed = head or bits_of.get("head", "int8")
    return {"head": fixed, "embedding": fixed} | bits_of


def _role_of(name: str) -> str:
    return "head" if name in HEADS else role_of(name)


@dataclass(frozen=True)
class _Costs:
    """Formats, the cheapest first; what a weight costs in each, and the most on average; the name of both."""

    grids: tuple[BlockFormat, ...]
    each: tuple[float, ...]
    most: float
    name: str

    @property
    def middle(self) -> int:
        """The place of the last format that all weights could have."""
        return max(sum(cost <= self.most for cost in self.each) - 1, 0)


def _costs_of(grid: BlockFormat, budget: WeightBudget, shapes: Sequence[tuple[int, int]]) -> _Costs:
    """Return what formats like `grid` cost products with weights of these shapes."""
    grids = candidate_formats(grid, _BITS)
    if budget.bits is not None:
        return _Costs(grids, tuple(map(stored_bits, grids)), budget.bits, "bits_budget")
    assert budget.milliseconds is not None
    seconds = seconds_per_weight(grids, shapes, budget.threads)
    pairs = sorted(zip(seconds, grids, strict=True), key=lambda pair: pair[0])
    each = tuple(second * 1e3 * sum(map(prod, shapes)) for second, _ in pairs)
    return _Costs(tuple(grid for _, grid in pairs), each, budget.milliseconds, "time_budget")


class _Trials:
    """Runs the model with some weights replaced.

    Args:
        model: Float; it stays as it is.
        batches: Inputs, whose logits of all tokens are compared.
    """

    def __init__(self, model: Any, batches: Sequence[dict[str, NDArray[Any]]]) -> None:
        self._batches = batches
        clone = model.clone()
        layers, _ = find_linear_layers(clone)
        self._weights: dict[str, Any] = {}
        for name in {*(layer.weight.name or "" for layer in layers), _TABLE}:
            value = clone.graph.initializers.pop(name)  # as an input: files end at 2 GB
            self._weights[name] = np.ascontiguousarray(value.const_value.numpy(), np.float32)
            value.const_value = None
            clone.graph.inputs.append(value)
        for output in [output for output in clone.graph.outputs if output.name != "logits"]:
            clone.graph.outputs.remove(output)
        self._session = Session(clone, folded=True)
        self._logits = [self._run(batch, {}) for batch in batches]
        self._shares = [np.exp(log_probabilities(rows)).astype(np.float32) for rows in self._logits]

    def divergence(self, weights: Mapping[str, NDArray[np.float32]]) -> float:
        """Return the mean Kullback-Leibler divergence, nats per token, with these weights in place of others.

        With shares p and logits that change by d it is ``log(sum(p exp(d))) - sum(p d)``.
        """
        rows = []
        for batch, logits, shares in zip(self._batches, self._logits, self._shares, strict=True):
            change = self._run(batch, weights) - logits
            change -= change.max(1, keepdims=True)
            rows.append(np.log((shares * np.exp(change)).sum(1)) - (shares * change).sum(1))
        return float(np.concatenate(rows).mean())

    def _run(
        self, batch: Mapping[str, NDArray[Any]], weights: Mapping[str, NDArray[np.float32]]
    ) -> NDArray[np.float32]:
        inputs = {**batch, **self._weights, **weights}
        feeds = {name: inputs[name] for name in self._session.inputs}
        return dict(self._session.stream(feeds, ["logits"]))["logits"]


def _measure(
    weight: NDArray[np.float32], moments: InputMoments | None, costs: _Costs, trials: _Trials | None,
    targets: Sequence[tuple[str, int, bool]],
) -> FormatErrors:  # fmt: skip
    """Return what each format costs weights [N, K].

    Args:
        weight, moments: As for `measure_formats`.
        costs: Formats.
        trials: Runs the model; None: errors of the outputs are what counts.
        targets: Constants that hold the weights, in their order: name, rows (0: all), whether as [K, N].
    """
    errors = measure_formats(weight, moments, costs.grids)
    if trials is None:
        return errors
    grid = costs.grids[costs.middle]
    floats = dequantize_blocks(round_group(weight, moments, grid, RECIPES["rtn"]).weights)
    replaced, begin = {}, 0
    for name, count, is_turned in targets:
        rows = floats[begin : begin + count] if count else floats
        replaced[name] = np.ascontiguousarray(rows.T if is_turned else rows, np.float32)
        begin += count
    factor = max(trials.divergence(replaced), 0.0) / max(errors.errors[costs.middle], 1e-300)
    return FormatErrors(errors.weights, tuple(factor * error for error in errors.errors))
