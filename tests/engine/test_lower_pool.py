"""Pools of images, sequences and windows, of codes and floats."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest


def test_places_of_the_largest_in_windows_are_left_to_onnx_runtime(qdq, lower_graph):
    """MaxPool with its indices as an output, too."""
    g = qdq()
    largest, places = g.node("MaxPool", g.input("x", [1, 2, 4, 4]), kernel_shape=[2, 2], outputs=2)
    lowered = lower_graph(g, largest, places)
    assert lowered.kinds == ["onnx"]


def _means(x, kernel, strides, pads, ceil_mode, count_include_pad):
    """AveragePool by its definition: a window that `ceil_mode` lets hang over divides by what it covers."""
    padded = np.pad(x.astype(np.float64), [(0, 0)] * 2 + list(zip(pads[:2], pads[2:], strict=True)))
    inside = np.pad(np.ones(x.shape[2:]), list(zip(pads[:2], pads[2:], strict=True)))
    counted = np.ones_like(inside) if count_include_pad else inside
    starts = []
    for size, k, s, begin, end in zip(x.shape[2:], kernel, strides, pads[:2], pads[2:], strict=True):
        last = begin + size + end - k + (s - 1 if ceil_mode else 0)
        starts.append([start for start in range(0, last + 1, s) if start < begin + size])
    means = np.empty((*x.shape[:2], *map(len, starts)))
    for (i, top), (j, left) in product(*map(enumerate, starts)):
        window = np.s_[top : top + kernel[0], left : left + kernel[1]]
        means[:, :, i, j] = padded[:, :, *window].sum((2, 3)) / counted[window].sum()
    return means


# By the definition: ONNX Runtime 1.24 divides by another number where the rim is counted at one end only.
@pytest.mark.rule("N55")
@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 1, 1]], ids=str)
@pytest.mark.parametrize("count_include_pad", [0, 1])
def test_means_of_windows(qdq, lower_graph, count_include_pad, pads, ceil_mode, codes):
    g = qdq()
    x = g.node("Sigmoid", g.input("x", ["n", 5, 9, 8]))
    how = {"strides": [2, 3], "pads": pads, "ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    y = g.node("AveragePool", x, kernel_shape=[3, 2], **how)
    lowered = lower_graph(g, g.quantize(y, 0.05) if codes else y, sizes={"n": 2}).exact()
    assert lowered.kinds[:2] == ["function", "float_conv"] and "onnx" not in lowered.kinds
    (name,) = lowered.expected
    want = _means(lowered.values[x], [3, 2], **how)
    if codes:
        want = np.clip(want / 0.05, -128, 127)
    np.testing.assert_allclose(lowered.values[name], want, atol=0.501 if codes else 1e-5)


def test_means_of_windows_over_a_rim_whose_place_is_not_known(qdq, lower_graph):
    g = qdq()
    x = g.node("Sigmoid", g.input("x", [1, 5, "h", 8]))
    y = g.node("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    assert lower_graph(g, y, sizes={"h": 6}).kinds == ["function", "onnx"]


SEQUENCE_POOLS = {
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


@pytest.mark.parametrize("name", SEQUENCE_POOLS)
@pytest.mark.parametrize("what", ["codes", "floats", "floats to codes"])
def test_pools_of_sequences(qdq, lower_graph, name, what):
    g, (op_type, how) = qdq(), SEQUENCE_POOLS[name]
    x = g.input("x", ["n", 5, 9])
    x = g.pair(x, 0.05, 3) if what == "codes" else g.node("Sigmoid", x)
    image = g.node("Unsqueeze", x, g.ints(2))
    wide = {key: [int(key != "pads"), *n] for key, n in how.items() if isinstance(n, list) and key != "pads"}
    wide |= {"pads": [0, how["pads"][0], 0, how["pads"][1]]} if "pads" in how else {}
    ys = g.node(op_type, x, **how), g.node("Squeeze", g.node(op_type, image, **how | wide), g.ints(2))
    if what != "floats":
        ys = tuple(g.quantize(y, 0.05 if "Max" in op_type else 0.0437, 3) for y in ys)
    lowered = lower_graph(g, *ys, sizes={"n": 2}).exact()
    assert "onnx" not in lowered.kinds
    got, want = (lowered.values[y] for y in lowered.plan.outputs)
    np.testing.assert_array_equal(got, want, strict=True)
    if name not in ("one end", "counting padding"):  # where ONNX Runtime 1.24 divides by another number
        lowered.agree(1e-6)


def test_between_layers_a_pool_is_one_of_images(qdq, lower_graph):
    """No Reshape stands between the layers of a network over sequences."""
    g = qdq()
    x = g.pair(g.input("x", ["n", 3, 16]))
    for channels in (3, 4):
        x = g.pair(g.node("Conv", x, g.weight(4, channels, 3), pads=[1, 1]))
        x = g.pair(g.node("MaxPool", x, kernel_shape=[2], strides=[2]))
    y = g.pair(g.node("GlobalAveragePool", x))
    lowered = lower_graph(
        g, g.node("Gemm", g.node("Flatten", y), g.weight(3, 4), transB=1), sizes={"n": 2}
    ).agree(0.02)
    kinds = [kind for kind in lowered.kinds if kind != "reshape"]
    assert kinds == ["quantize", "conv", "pool", "conv", "pool", "pool", "linear"]
    assert lowered.kinds.count("reshape") == 2


@pytest.mark.parametrize("size", ["known", "free"])
@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_the_largest_of_windows_of_floats(qdq, lower_graph, size, ceil_mode):
    g = qdq()
    x = g.node("Sigmoid", g.input("x", ["n", 5, 9, 7 if size == "known" else "w"]))
    y = g.node("MaxPool", x, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], ceil_mode=ceil_mode)
    lowered = lower_graph(g, y, sizes={"n": 2, "w": 7}).agree(1e-6)
    assert lowered.kinds == ["function", "pool"]


POOLS = {
    "average": ("AveragePool", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    "counting padding": ("AveragePool", {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1}),
    "ceil": ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    "global": ("GlobalAveragePool", {}),
    "max": ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 0, 0]}),
    "max ceil": ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    "global max": ("GlobalMaxPool", {}),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools(qdq, lower_graph, name):
    g, (op_type, attributes) = qdq(), POOLS[name]
    x = g.pair(g.input("x", [2, 3, 7, 7]), 0.05, 3)
    y = g.quantize(g.node(op_type, x, **attributes), 0.05 if "Max" in op_type else 0.0437, 3)
    assert lower_graph(g, y).agree().kinds == ["quantize", "pool"]


@pytest.mark.parametrize("keep", [1, 0], ids=["kept axes", "dropped axes"])
def test_mean_over_the_planes_is_a_pool(qdq, lower_graph, keep):
    g = qdq()
    x = g.pair(g.input("x", ["batch", 3, 4, 4]))
    y = g.quantize(g.node("ReduceMean", x, g.ints(2, 3), keepdims=keep), 0.02)
    lowered = lower_graph(g, y, sizes={"batch": 2}).agree()
    assert lowered.kinds == ["quantize", "pool"] + ["reshape"] * (1 - keep)


def test_the_mean_of_what_is_never_negative_is_not_either(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.node("Relu", g.conv(g.pair(g.input("x", [1, 3, 4, 4])), 3, 4)))
    lowered = lower_graph(g, g.quantize(g.node("GlobalAveragePool", x))).agree()
    step = lowered.step("pool")
    assert lowered.plan.tensors[step.y].codes.offset == 0
