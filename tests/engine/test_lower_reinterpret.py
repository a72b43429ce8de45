"""Codes that stay what they are on another grid."""

import numpy as np


def test_a_factor_that_the_scales_share_leaves_the_codes(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [4, 64]), 0.05)
    y = g.quantize(g.node("Mul", x, g.constant(np.float32(0.5))), 0.025)
    lowered = lower_graph(g, y).agree()
    assert lowered.kinds == ["quantize", "reinterpret"]
    assert lowered.plan.tensors[y].codes.scale == np.float32(0.025)


def test_a_pair_whose_halves_differ_reads_the_codes_anew(qdq, lower_graph):
    g = qdq()
    x = g.dequantize(g.quantize(g.input("x", [1, 3, 4, 4]), 0.05, 3), 0.04, -2)
    assert lower_graph(g, g.quantize(g.conv(x, 3, 4), 0.1)).agree().kinds == [
        "quantize",
        "reinterpret",
        "conv",
    ]
