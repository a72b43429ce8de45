"""Networks with a state: the formulas of ONNX, one number at a time, and what lengths and directions mean."""

from __future__ import annotations

import numpy as np
import pytest

from intact import numerics

STEPS, BATCH, HIDDEN = 4, 3, 5


def _case(cell: str, seed: int = 0):
    rng = np.random.default_rng(seed)
    rows = numerics.GATES[cell] * HIDDEN

    def reals(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    bias = reals(HIDDEN) if cell == "gru_reset_after" else None
    weights = numerics.StateWeights(reals(rows, HIDDEN) / 2, bias)
    return reals(STEPS, BATCH, rows), weights, reals(BATCH, HIDDEN), reals(BATCH, HIDDEN)


def _sum(row, h, start):
    """N51: one fused multiply-add after the other."""
    for weight, state in zip(row, h, strict=True):
        start = numerics.fma(state, weight, start)
    return start


def _step(cell, start, weights, h, c):
    """One step of one row, as the page says it."""
    unit, n = np.float32(1), HIDDEN
    s, t = numerics.FUNCTIONS["sigmoid"], numerics.FUNCTIONS["tanh"]
    gates = [_sum(weights.states[i], h, start[i]) for i in range(len(start))]
    if cell.startswith("rnn"):
        return np.array([(t if cell == "rnn_tanh" else numerics.FUNCTIONS["relu"])(g) for g in gates]), c
    if cell == "lstm":
        c = np.array([s(gates[2 * n + j]) * c[j] + s(gates[j]) * t(gates[3 * n + j]) for j in range(n)])
        return np.array([s(gates[n + j]) * t(c[j]) for j in range(n)]), c
    z, r = (np.array([s(gates[i * n + j]) for j in range(n)]) for i in (0, 1))
    rows = weights.states[2 * n :]
    if cell == "gru":
        g = [_sum(rows[j], r * h, start[2 * n + j]) for j in range(n)]
    else:
        g = [start[2 * n + j] + r[j] * _sum(rows[j], h, weights.bias[j]) for j in range(n)]
    return np.array([(unit - z[j]) * t(g[j]) + z[j] * h[j] for j in range(n)], np.float32), c


@pytest.mark.rule("N52")
@pytest.mark.parametrize("cell", numerics.GATES)
def test_a_step_is_the_formula(cell):
    start, weights, h, c = _case(cell)
    y, last_h, last_c = numerics.recurrence(cell, start, weights, h, c)
    for row in range(BATCH):
        state = h[row], c[row]
        for step in range(STEPS):
            state = _step(cell, start[step, row], weights, *state)
            np.testing.assert_array_equal(y[step, row], state[0])
        np.testing.assert_array_equal([last_h[row], last_c[row]], state)


@pytest.mark.rule("N52")
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_row_with_fewer_steps_is_a_shorter_sequence(cell, reverse):
    start, weights, h, c = _case(cell)
    lengths = np.array([2, STEPS, 0], np.int32)
    y, *last = numerics.recurrence(cell, start, weights, h, c, lengths, reverse=reverse)
    for row, length in enumerate(lengths):
        rows = slice(row, row + 1)
        single_row = numerics.recurrence(
            cell, start[:length, rows], weights, h[rows], c[rows], reverse=reverse
        )
        np.testing.assert_array_equal(y[:length, rows], single_row[0])
        np.testing.assert_array_equal([v[rows] for v in last], single_row[1:])
        assert not y[length:, row].any()


@pytest.mark.rule("N52")
def test_the_other_direction_is_the_sequence_turned_round():
    start, weights, h, c = _case("lstm")
    forth = numerics.recurrence("lstm", start[::-1], weights, h, c)
    back = numerics.recurrence("lstm", start, weights, h, c, reverse=True)
    np.testing.assert_array_equal(back[0], forth[0][::-1])
    np.testing.assert_array_equal(back[1:], forth[1:])


def test_a_sequence_in_two_parts_is_one():
    start, weights, h, c = _case("lstm")
    whole = numerics.recurrence("lstm", start, weights, h, c)
    first = numerics.recurrence("lstm", start[:2], weights, h, c)
    second = numerics.recurrence("lstm", start[2:], weights, *first[1:])
    np.testing.assert_array_equal(np.concatenate([first[0], second[0]]), whole[0])
    np.testing.assert_array_equal(second[1:], whole[1:])
