"""Concat of other grids, and of constants."""

import numpy as np
import pytest


@pytest.mark.parametrize("batch", ["n", 2], ids=["free batch", "fixed batch"])
@pytest.mark.parametrize("after", [True, False], ids=["one behind", "none behind"])
def test_tokens_around_a_sequence_are_added_to_its_padding(qdq, lower_graph, batch, after):
    g = qdq()
    x, token = g.input("x", [batch, 5, 8]), g.floats(1, 1, 8)
    if batch == "n":
        size = g.node("Slice", g.node("Shape", x), g.ints(0), g.ints(1))
        token = g.node("Expand", token, g.node("Concat", size, g.ints(1, 8), axis=0))
    else:
        token = g.node("Expand", token, g.ints(2, 1, 8))
    y = g.node("Concat", token, x, *[token] * after, axis=1)
    lowered = lower_graph(g, y, sizes={"n": 2}).agree()
    assert lowered.kinds == ["pad", "binary"]
    np.testing.assert_array_equal(lowered.values[y], lowered.expected[y])


def test_concat_rescales_what_comes_in_another_grid(qdq, lower_graph):
    g = qdq()
    a, b = g.pair(g.input("a", [2, 3, 4]), 0.05, 3), g.pair(g.input("b", [2, 5, 4]), 0.02)
    lowered = lower_graph(g, g.quantize(g.node("Concat", a, b, axis=1), 0.05, 3)).agree()
    assert lowered.kinds == ["quantize", "quantize", "concat"]
