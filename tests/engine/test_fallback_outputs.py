"""Parts that ONNX Runtime runs read and write what is also an output of the model."""

from __future__ import annotations

import numpy as np
import pytest

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate

STEPS = {
    "a function behind a layer": lambda g, x: g.node("Sigmoid", g.conv(x, 8, 16)),
    "a layer": lambda g, x: g.conv(x, 8, 16),
    "a pool": lambda g, x: g.node("MaxPool", g.conv(x, 8, 16), kernel_shape=[2, 2]),
    "a layer of sequences": lambda g, x: g.node("Reshape", g.conv(x, 8, 16), g.ints(0, 0, -1)),
}


@pytest.mark.parametrize("what", STEPS)
@pytest.mark.parametrize("n", [1, 3])
def test_a_part_reads_an_output_that_lies_channels_last(qdq, what, n):
    """Its memory as an output is written at the end of a run; until then it lies in the arena."""
    g = qdq()
    y = STEPS[what](g, g.pair(g.input("x", [n, 8, 6, 6])))
    outputs = [y, g.node("Hardmax", y, axis=1)]
    plan = lower(g.proto(*outputs))
    assert "onnx" in [step.kind for step in plan.steps]
    feeds = g.feeds()
    actual, want = Engine(plan, threads=1).run(feeds), evaluate(plan, feeds)
    for name in outputs:
        np.testing.assert_array_equal(actual[name], want[name], err_msg=name)


def test_a_part_writes_an_output_that_layers_read_channels_last(qdq):
    g = qdq()
    y = g.node("Hardmax", g.conv(g.pair(g.input("x", [2, 8, 6, 6])), 8, 16), axis=1)
    outputs = [y, g.conv(g.pair(y, 1 / 127), 16, 8)]
    plan = lower(g.proto(*outputs))
    feeds = g.feeds()
    actual, want = Engine(plan, threads=1).run(feeds), evaluate(plan, feeds)
    for name in outputs:
        np.testing.assert_array_equal(actual[name], want[name], err_msg=name)
