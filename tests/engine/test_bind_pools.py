"""MaxPool in every form that it runs in: whole windows, down and along, and pixels in place of channels."""

import numpy as np
import pytest

from intact.engine.engine import Engine


@pytest.mark.parametrize("kind", ["floats", "codes"])
@pytest.mark.parametrize("channels", [1, 3, 7, 17])
@pytest.mark.parametrize("window", [
    {"kernel_shape": [2, 3], "strides": [2, 1]},
    {"kernel_shape": [7, 5], "pads": [3, 2, 3, 2]},
    {"kernel_shape": [5, 5], "pads": [1, 4, 3, 0], "strides": [3, 2]},
    {"kernel_shape": [4, 6], "dilations": [3, 2], "pads": [2, 3, 3, 1], "ceil_mode": 1, "strides": [1, 3]},
    {"kernel_shape": [13, 1]},
], ids=str)  # fmt: skip
def test_the_largest_of_windows(qdq, lower_graph, window, channels, kind):
    g = qdq()
    x = g.input("x", [2, channels, 17, 19])
    y = g.node("MaxPool", g.pair(x) if kind == "codes" else g.node("Neg", x), **window)
    lowered = lower_graph(g, g.quantize(y) if kind == "codes" else y)
    assert "pool" in lowered.kinds and "onnx" not in lowered.kinds
    lowered.agree(0)


def test_what_is_no_number_and_zeros_of_either_sign(qdq, lower_graph):
    g = qdq()
    y = g.node("MaxPool", g.node("Neg", g.input("x", [1, 2, 9, 9])), kernel_shape=[5, 5])
    plan = lower_graph(g, y).plan
    kinds = np.float32([0, -0.0, -1, np.nan, -np.inf])
    x = np.random.default_rng(0).choice(kinds, (1, 2, 9, 9), p=[0.3, 0.3, 0.2, 0.02, 0.18])
    cpu, reference = (Engine(plan, backend=name)(x) for name in ("cpu", "reference"))
    assert cpu.tobytes() == reference.tobytes() and np.isnan(cpu).any() and not np.isnan(cpu).all()
