"""Zeros for rows of a Softmax of which a mask leaves nothing: lowered where a quantizer reads them."""

from __future__ import annotations

import numpy as np
import pytest

from intact.engine.engine import Engine
from intact.engine.lower import lower


@pytest.mark.parametrize("number, guarded", [(0.0, False), (1.0, True)])
def test_a_guard_of_nan_behind_a_softmax_goes_where_a_quantizer_does_its_work(
    qdq, lower_graph, number, guarded
):
    g = qdq()
    p = g.node("Softmax", g.node("Add", g.input("x", [2, 3, 5]), g.input("mask", [2, 1, 5])))
    without_nan = g.node("Where", g.node("IsNaN", p), g.constant(np.float32(number)), p)
    lowered = lower_graph(g, g.quantize(without_nan, 1 / 127)).agree()
    assert ("elementwise" in lowered.kinds) == guarded and "onnx" not in lowered.kinds


@pytest.mark.parametrize("form", ["of the scores", "with axes to the left", "constant"])
@pytest.mark.parametrize("axis", [-1, 2, 1])
def test_a_guard_of_masked_rows_goes_where_a_quantizer_does_its_work(qdq, lower_graph, form, axis):
    """`ReduceMax(bias) == -inf`, as ONNX's Attention has it; along another axis it is no such guard."""
    g = qdq()
    hidden = np.zeros((1, 3, 5), np.float32)
    hidden[0, 1] = -np.inf
    bias = g.constant(hidden) if form == "constant" else g.input("mask", [1, 3, 5])
    g.feeds = lambda sizes=None: {"x": scores} | ({} if form == "constant" else {"mask": hidden})
    scores = g.rng.standard_normal((2, 3, 5)).astype(np.float32)
    p = g.node("Softmax", g.node("Add", g.input("x", [2, 3, 5]), bias), axis=axis)
    largest = g.node("ReduceMax", bias, g.ints(2 if form == "with axes to the left" else -1), keepdims=1)
    is_masked = g.node("Equal", largest, g.constant(np.float32(-np.inf)))
    y = g.quantize(g.node("Where", is_masked, g.constant(np.float32(0)), p), 1 / 127)
    lowered = lower_graph(g, y).agree()
    assert ("elementwise" in lowered.kinds) == (axis == 1) and "onnx" not in lowered.kinds
    assert axis == 1 or not lowered.values[y][:, 1].any()


@pytest.mark.parametrize("also", ["nothing", "another quantizer", "the probabilities", "the test"])
def test_a_row_of_which_nothing_may_be_attended_to_is_zeros(qdq, also):
    """Whoever else reads the Softmax wants it in floats, of which a quantizer makes codes below 0 too."""
    g = qdq()
    p = g.node("Softmax", g.input("x", [2, 5]))
    bad = g.node("IsNaN", p)
    without_nan = g.node("Where", bad, g.constant(np.float32(0)), p)
    variants = {
        "nothing": list,
        "another quantizer": lambda: [g.quantize(without_nan, 1 / 100)],
        "the probabilities": lambda: [g.node("Relu", p)],
        "the test": lambda: [g.node("Where", bad, g.constant(np.float32(1)), g.constant(np.float32(2)))],
    }[also]()
    x = np.full((2, 5), -np.inf, np.float32)
    x[1] = 0
    engine = Engine(lower(g.proto(g.quantize(without_nan, 1 / 127), *variants)), threads=1)
    output = next(iter(engine.run({"x": x}).values()))
    assert not output[0].any() and output[1].all()
