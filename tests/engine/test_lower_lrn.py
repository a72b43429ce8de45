"""LRN runs natively."""

import numpy as np
import pytest


@pytest.mark.rule("N55")
@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize("size", [1, 5, 21])
def test_norms_of_neighbouring_channels(qdq, lower_graph, size, codes):
    g = qdq()
    x = g.node("Mul", g.input("x", ["n", 9, 3, "w"]), g.constant(np.float32(20)))
    y = g.node("LRN", x, size=size, alpha=0.01, beta=0.6, bias=1.5)
    lowered = lower_graph(g, g.quantize(y, 0.2) if codes else y, sizes={"n": 2, "w": 4}).agree(1e-4)
    assert "onnx" not in lowered.kinds and lowered.kinds.count("float_conv") == 1
