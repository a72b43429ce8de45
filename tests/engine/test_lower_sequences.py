"""Pools of sequences run natively, and make what those of images of height 1 make."""

from __future__ import annotations

import numpy as np
import pytest

from intact.engine.engine import Engine

POOLS = {
    "average": ("AveragePool", {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    "one end": ("AveragePool", {"kernel_shape": [3], "pads": [0, 2]}),
    "counting padding": ("AveragePool", {"kernel_shape": [4], "pads": [1, 2], "count_include_pad": 1}),
    "ceil": ("AveragePool", {"kernel_shape": [2], "strides": [2], "ceil_mode": 1}),
    "global": ("GlobalAveragePool", {}),
    "max": ("MaxPool", {"kernel_shape": [3], "strides": [2], "pads": [1, 0]}),
    "dilated": ("MaxPool", {"kernel_shape": [2], "dilations": [3]}),
    "max ceil": ("MaxPool", {"kernel_shape": [2], "strides": [2], "ceil_mode": 1}),
    "global max": ("GlobalMaxPool", {}),
    "same": ("MaxPool", {"kernel_shape": [3], "strides": [2], "auto_pad": "SAME_UPPER"}),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("what", ["codes", "floats", "floats to codes"])
def test_pools_of_sequences(qdq, lowered, name, what):
    g, (op_type, how) = qdq(), POOLS[name]
    x = g.input("x", ["n", 5, 9])
    x = g.pair(x, 0.05, 3) if what == "codes" else g.node("Sigmoid", x)
    image = g.node("Unsqueeze", x, g.ints(2))
    wide = {key: [int(key != "pads"), *n] for key, n in how.items() if isinstance(n, list) and key != "pads"}
    wide |= {"pads": [0, how["pads"][0], 0, how["pads"][1]]} if "pads" in how else {}
    ys = g.node(op_type, x, **how), g.node("Squeeze", g.node(op_type, image, **how | wide), g.ints(2))
    if what != "floats":
        ys = tuple(g.quantize(y, 0.05 if "Max" in op_type else 0.0437, 3) for y in ys)
    found = lowered(g, *ys, sizes={"n": 2}).exact()
    assert "onnx" not in found.kinds
    got, want = (found.values[y] for y in found.plan.outputs)
    np.testing.assert_array_equal(got, want, strict=True)
    if name not in ("one end", "counting padding"):  # where ONNX Runtime 1.24 divides by another number
        found.agree(1e-6)


def test_between_layers_a_pool_is_one_of_images(qdq, lowered):
    """No Reshape stands between the layers of a network over sequences."""
    g = qdq()
    x = g.pair(g.input("x", ["n", 3, 16]))
    for channels in (3, 4):
        x = g.pair(g.node("Conv", x, g.weight(4, channels, 3), pads=[1, 1]))
        x = g.pair(g.node("MaxPool", x, kernel_shape=[2], strides=[2]))
    y = g.pair(g.node("GlobalAveragePool", x))
    found = lowered(g, g.node("Gemm", g.node("Flatten", y), g.weight(3, 4), transB=1), sizes={"n": 2}).agree(
        0.02
    )
    kinds = [kind for kind in found.kinds if kind != "reshape"]
    assert kinds == ["quantize", "conv", "pool", "conv", "pool", "pool", "linear"]
    assert found.kinds.count("reshape") == 2


@pytest.mark.parametrize("codes", [True, False])
def test_axes_of_size_1_come_and_go_where_the_elements_lie(qdq, lowered, codes):
    """As Keras' layers over sequences are written: images of height 1, turned round in front and behind."""
    g = qdq()
    x = g.node("Unsqueeze", g.node("Transpose", g.input("x", [2, 9, 8]), perm=[0, 2, 1]), g.ints(2))
    w = g.weight(5, 8, 1, 3) if codes else g.floats(5, 8, 1, 3)
    y = g.node("Conv", g.pair(x) if codes else x, w)
    y = g.node("Transpose", g.node("Squeeze", g.pair(y) if codes else y, g.ints(2)), perm=[0, 2, 1])
    found = lowered(g, g.node("MatMul", y, g.weight(5, 4) if codes else g.floats(5, 4))).agree(1e-4)
    timings = Engine(found.plan, threads=1).profile(found.feeds, runs=1).timings
    moved = [one.kernels for one in timings if one.kind in ("reshape", "transpose") and one.kernels]
    assert moved == []
