"""uint8 weights with a zero point other than 128: 9 bits, which int8 kernels multiply in two parts."""

from __future__ import annotations

import numpy as np
import pytest

LAYERS = {
    "Conv": ([1, 8, 6, 6], (6, 8, 3, 3), 0, {"pads": [1] * 4}),
    "Conv of groups": ([1, 8, 6, 6], (6, 4, 3, 3), 0, {"pads": [1] * 4, "group": 2}),
    "Conv of sequences": ([1, 8, 9], (6, 8, 3), 0, {"strides": [2]}),
    "Conv of volumes": ([1, 4, 5, 6, 7], (6, 4, 3, 3, 3), 0, {"pads": [1] * 6}),
    "ConvTranspose": ([1, 8, 5, 5], (8, 6, 3, 3), 1, {"strides": [2, 2]}),
    "ConvTranspose of groups": ([1, 8, 5, 5], (8, 3, 3, 3), 1, {"strides": [2, 2], "group": 2}),
    "MatMul": ([2, 5, 16], (16, 6), 1, {}),
    "Gemm": ([4, 16], (6, 16), 0, {"transB": 1}),
}


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("zero", [0, 100, 131, 255])
@pytest.mark.parametrize("layer", LAYERS)
def test_layers_run_in_int8(qdq, lower_graph, layer, zero, per_channel):
    shape, weight, axis, attributes = LAYERS[layer]
    g = qdq()
    x = g.pair(g.input("x", shape))
    if per_channel and "groups" in layer and "Transpose" in layer:
        axis = None  # groups share scales
    w = g.weight(*weight, axis=axis if per_channel else None, dtype="uint8", zero=zero)
    y = g.node(layer.split()[0], x, w, **attributes)
    lowered = lower_graph(g, g.quantize(y, 0.4)).agree()
    kinds = set(lowered.kinds)
    assert kinds & {"conv", "conv_transpose", "linear"} and not kinds & {"onnx", "dequantize"}


def test_so_do_int8_weights_with_a_zero_point_far_from_0(qdq, lower_graph):
    g = qdq()
    y = g.node("MatMul", g.pair(g.input("x", [3, 8])), g.weight(8, 4, axis=1, dtype="int8", zero=100))
    assert lower_graph(g, g.quantize(y, 0.3)).agree().kinds == ["quantize", "concat", "linear"]


@pytest.mark.parametrize("few", [True, False])
def test_channels_are_repeated_where_a_weight_is_wide(qdq, lower_graph, few):
    g = qdq()
    w = g.rng.integers(90, 150, (6, 16, 3, 3)).astype(np.uint8)
    w[2, (3 if few else slice(None)), 1, 1] = 255
    parameters = [g.constant(w), g.constant(np.float32(0.01)), g.constant(np.uint8(100))]
    y = g.node("Conv", g.pair(g.input("x", [2, 16, 6, 6])), g.node("DequantizeLinear", *parameters))
    lowered = lower_graph(g, g.quantize(y, 0.2)).agree()
    assert lowered.kinds == ["quantize", "gather" if few else "concat", "conv"]
    assert lowered.plan.constants[lowered.step("conv").weight].shape == (6, 3, 3, 17 if few else 32)


def test_layers_that_read_one_tensor_share_its_repetition(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [2, 8, 6, 6]))
    ys = [
        g.quantize(g.node("Conv", x, g.weight(4, 8, 3, 3, axis=None, dtype="uint8", zero=90)), 0.3)
        for _ in range(2)
    ]
    assert lower_graph(g, *ys).agree().kinds.count("concat") == 1


def test_codes_of_16_bits_are_repeated_in_both_halves(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [2, 5, 16]), 0.001, 20000, "uint16")
    y = g.node("MatMul", x, g.weight(16, 6, axis=None, dtype="uint8", zero=90))
    lowered = lower_graph(g, g.quantize(y, 0.3)).agree()
    assert lowered.kinds == ["split_quantize", "concat", "concat", "linear"]


def test_a_depthwise_layer_says_why_it_stays_in_float(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [1, 8, 6, 6]))
    y = g.node("Conv", x, g.weight(8, 1, 3, 3, axis=None, dtype="uint8", zero=90), name="deep", group=8)
    lowered = lower_graph(g, g.quantize(y, 0.3)).agree()
    (layer,) = (layer for layer in lowered.plan.layers if "deep" in layer.nodes)
    assert "float_conv" in lowered.kinds and "groups have one channel" in layer.reason
