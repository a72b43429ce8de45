"""Tile, Expand, Pads that copy and Gather by constants move codes as they move floats."""

from __future__ import annotations

import re

import numpy as np
import pytest

from intact.engine.lower import lower

MOVES = {
    "tile": lambda g, x: g.node("Tile", x, g.ints(1, 1, 2, 3)),
    "tile of channels": lambda g, x: g.node("Tile", x, g.ints(1, 2, 1, 1)),
    "tile of nothing new": lambda g, x: g.node("Tile", x, g.ints(1, 1, 1, 1)),
    "expand": lambda g, x: g.node("Expand", g.node("GlobalMaxPool", x), g.ints(1, 1, 4, 5)),
    "expand to more axes": lambda g, x: g.node(
        "Squeeze", g.node("Expand", x, g.ints(1, 1, 4, 6, 6)), g.ints(0)
    ),
    "edge": lambda g, x: g.node("Pad", x, g.ints(0, 0, 1, 2, 0, 0, 3, 1), mode="edge"),
    "reflect": lambda g, x: g.node("Pad", x, g.ints(0, 0, 1, 2, 0, 0, 3, 1), mode="reflect"),
    "wrap": lambda g, x: g.node("Pad", x, g.ints(0, 0, 1, 2, 0, 0, 3, 1), mode="wrap"),
    "gather of channels": lambda g, x: g.node("Gather", x, g.ints(2, -1, 0, 2), axis=1),
    "gather of rows": lambda g, x: g.node("Gather", x, g.ints(5, 0), axis=2),
}


@pytest.mark.parametrize("case", list(MOVES))
@pytest.mark.parametrize("where", ["behind", "before", "floats"])
def test_codes_pass(qdq, lower_graph, case, where):
    """A pair in front of the operator, behind it, or none."""
    g = qdq()
    x = g.input("x", [1, 4, 6, 6])
    x = g.pair(x) if where == "before" else x
    y = MOVES[case](g, x)
    channels = 8 if case == "tile of channels" else 4
    y = g.conv(g.pair(y) if where == "behind" else y, channels, 3) if where != "floats" else g.node("Abs", y)
    lowered = lower_graph(g, g.quantize(y) if where != "floats" else y).agree(1e-6)
    assert where == "floats" or "onnx" not in lowered.kinds
    if where != "floats":
        assert set(lowered.kinds) <= {"quantize", "pool", "reshape", "resize", "pad", "conv", "gather"}


def test_gather_by_a_table_of_indices(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", ["n", 6, 5]))
    y = g.node("Gather", x, g.constant(np.array([[0, 5], [3, -2]], np.int64)), axis=1)
    lowered = lower_graph(g, g.quantize(y), sizes={"n": 2}).agree()
    assert lowered.kinds == ["quantize", "gather"]


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda g, x: g.node("Tile", x, g.input("often", [2], 7)), "how often it repeats is computed"),
        (lambda g, x: g.node("Gather", x, g.ints(0, 9), axis=1), "an index is out of range"),
    ],
    ids=["computed", "range"],
)
def test_what_is_left_to_the_fallback_says_why(qdq, write, why):
    g = qdq()
    plan = lower(g.proto(g.quantize(write(g, g.pair(g.input("x", ["n", 4]))))))
    (step,) = (step for step in plan.steps if step.kind == "onnx")
    assert re.search(why, step.reason)
