"""Recurrent networks, step by step: LSTM, GRU and simple cells. NORMATIVE.

A sum over the state begins at the sum over the input, and adds one product after the other by fused
multiply-adds (`float_product`). Everything else is single float32 operations, in the order written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from intact.numerics.floats.activations import relu, sigmoid
from intact.numerics.floats.float_matmul import float_product
from intact.numerics.floats.hyperbolic import tanh

Reals = NDArray[np.float32]
ONE = np.float32(1)


@dataclass(frozen=True)
class StateWeights:
    """The weights of the state of one direction.

    Attributes:
        states: [gates * hidden, hidden].
        bias: [hidden]: where the last gate's sum over the state begins, apart from that over the input.

    Rule N52.
    """

    states: Reals
    bias: Reals | None = None

    def sums(self, start: Reals, h: Reals) -> Reals:
        """Continue sums over the input by those over the state, one fused multiply-add after the other."""
        return float_product(h, self.states.T, start)


class LstmWeights(Protocol):
    """The weights of an LSTM's state, of any form."""

    def sums(self, start: Reals, h: Reals) -> Reals:
        """Add the products of states h [batch, hidden] to sums [batch, gates * hidden]."""


Step = Callable[[Reals, Any, Reals, Reals], tuple[Reals, Reals]]
"""start [batch, gates * hidden], weights, h and c [batch, hidden] -> h and c."""


def _lstm(start: Reals, weights: LstmWeights, h: Reals, c: Reals) -> tuple[Reals, Reals]:
    """Compute one LSTM step; gates: input, output, forget, candidate. Source: ONNX, LSTM."""
    i, o, f, g = np.split(weights.sums(start, h), 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


def _gru(start: Reals, weights: StateWeights, h: Reals, c: Reals) -> tuple[Reals, Reals]:
    """Compute one GRU step; gates: update, reset, candidate. Source: ONNX, GRU, linear_before_reset = 0."""
    z, r = _update_and_reset(start, weights, h)
    n = h.shape[-1]
    g = tanh(float_product(r * h, weights.states[2 * n :].T, start[:, 2 * n :]))
    return (ONE - z) * g + z * h, c


def _gru_reset_after(start: Reals, weights: StateWeights, h: Reals, c: Reals) -> tuple[Reals, Reals]:
    """Compute one GRU step, reset after the product, as PyTorch and cuDNN.

    Source: ONNX, GRU, linear_before_reset = 1.
    """
    z, r = _update_and_reset(start, weights, h)
    n = h.shape[-1]
    bias = np.zeros(n, np.float32) if weights.bias is None else weights.bias
    over_state = float_product(h, weights.states[2 * n :].T, np.broadcast_to(bias, h.shape))
    g = tanh(start[:, 2 * n :] + r * over_state)
    return (ONE - z) * g + z * h, c


def _update_and_reset(start: Reals, weights: StateWeights, h: Reals) -> list[Reals]:
    n = 2 * h.shape[-1]
    return np.split(sigmoid(float_product(h, weights.states[:n].T, start[:, :n])), 2, axis=-1)


def _simple_cell(function: Callable[[Any], Reals]) -> Step:
    def step(start: Reals, weights: StateWeights, h: Reals, c: Reals) -> tuple[Reals, Reals]:
        """Compute one simple RNN step. Source: ONNX, RNN."""
        return function(float_product(h, weights.states.T, start)), c

    return step


_STEPS: Mapping[str, tuple[int, Step]] = {
    "gru": (3, _gru),
    "gru_reset_after": (3, _gru_reset_after),
    "lstm": (4, _lstm),
    "rnn_relu": (1, _simple_cell(relu)),
    "rnn_tanh": (1, _simple_cell(tanh)),
}
GATES: Mapping[str, int] = {cell: gates for cell, (gates, _) in _STEPS.items()}
"""The kinds of cells, and the number of gates of each.

Rule N52.
"""


def recurrence(
    cell: str, start: Reals, weights: StateWeights | LstmWeights, h: Reals, c: Reals,
    lengths: NDArray[np.int32] | None = None, *, reverse: bool = False,
) -> tuple[Reals, Reals, Reals]:  # fmt: skip
    """Run all steps of one direction. NORMATIVE.

    Args:
        cell: One of `GATES`.
        start: float32 [steps, batch, gates * hidden]: inputs times their weights, and the biases.
        weights: The weights of the state; of cells other than "lstm" `StateWeights`.
        h, c: float32 [batch, hidden], before the first step. A cell without a second state returns c as it
            is.
        lengths: int32 [batch]: the number of steps of each row, at most `steps`; None: all.
        reverse: Begin each row at its last step.
    Returns:
        y [steps, batch, hidden], the state h after each step and 0 behind the end of a row; h and c after the
        last step. All are float32.
    Source: ONNX LSTM, GRU, RNN.

    Rules N52, N74.
    """
    steps, batch, _ = start.shape
    y, h, c = np.zeros((steps, *h.shape), np.float32), h.copy(), c.copy()
    ends = np.full(batch, steps) if lengths is None else np.clip(lengths, 0, steps)
    with np.errstate(all="ignore"):
        for step in range(steps):
            rows = np.flatnonzero(step < ends)
            at = ends[rows] - 1 - step if reverse else np.full(rows.size, step)
            h[rows], c[rows] = _STEPS[cell][1](start[at, rows], weights, h[rows], c[rows])
            y[at, rows] = h[rows]
    return y, h, c
