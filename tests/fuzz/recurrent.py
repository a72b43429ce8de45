"""Steps with states: LSTM, GRU and RNN in one direction or both, over sequences of any length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz.layers import MOST, finish
from tests.fuzz.net import Impossible, Net

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(net: Net) -> None:
    """Over the first axis; all states behind each other, or the last one."""
    x = net.real(3, grid=net.chance(0.8))
    steps, batch, inputs = x.sizes
    op, hidden = net.pick(["LSTM", "LSTM", "GRU", "GRU", "RNN"]), net.pick([1, 2, 5, 8, 17, 33])
    direction = net.pick(["forward", "forward", "reverse", "bidirectional"])
    directions = 2 if direction == "bidirectional" else 1
    if min(steps, batch, inputs) == 0 or np.prod(x.sizes) > MOST:
        raise Impossible
    net.off |= {"empty"}  # ONNX Runtime ends the process where a sequence or a batch has nothing
    rows = _GATES[op] * hidden
    w, typical = net.weights((directions, rows, inputs), net.pick([1, 1, 0]))
    biases = net.floats_of((directions, 2 * rows), x.spread * typical) if net.chance(0.7) else ""
    lengths = ""
    if net.chance(0.2):
        lengths = net.constant(net.rng.integers(1, steps + 1, batch).astype(np.int32))
    states = [
        net.floats_of((directions, batch, hidden), 1.0) if net.chance(0.4) else ""
        for _ in range(2 if op == "LSTM" else 1)
    ]
    more: dict[str, Any] = {"direction": direction, "hidden_size": hidden}
    if op == "GRU" and net.chance(0.5):
        more["linear_before_reset"] = 1
    r = net.floats_of((directions, rows, hidden), hidden**-0.5)
    result = net.node(op, x.name, w, r, biases, lengths, *states, outputs=2, **more)
    if net.chance(0.3):
        finish(net, net.add_value(result[1], (directions, batch, hidden), 1.0), 2)
        return
    y = net.node("Transpose", result[0], perm=[0, 2, 1, 3])
    y = net.node("Reshape", y, net.ints(0, 0, directions * hidden))
    finish(net, net.add_value(y, (steps, batch, directions * hidden), 1.0), 2)


STEPS: tuple[tuple[float, Callable[[Net], None]], ...] = ((0.8, recurrent),)
"""Steps with their frequencies."""
