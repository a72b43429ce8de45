"""Layers of float16 and bfloat16 tensors: outputs have the type of the inputs, and the values of float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.trt.networks import constant, ints

import intact.trt as trt

Network = trt.INetworkDefinition
X = np.random.default_rng(1).standard_normal((1, 4, 8, 8)).astype(np.float32)
W = np.random.default_rng(2).standard_normal((4, 4, 3, 3)).astype(np.float32) / 6
ONE = np.ones((1, 4, 1, 1), np.float32)
SUM, NONE = trt.ElementWiseOperation.SUM, trt.MatrixOperation.NONE


def floats(network: Network, values: np.ndarray, dtype: trt.DataType) -> trt.ITensor:
    return constant(network, np.asarray(values, np.float32).astype(dtype.numpy))


def clip(network: Network, x: trt.ITensor) -> trt.ILayer:
    layer = network.add_activation(x, trt.ActivationType.CLIP)
    layer.alpha, layer.beta = -0.5, 0.5
    return layer


def average(network: Network, x: trt.ITensor) -> trt.ILayer:
    layer = network.add_pooling_nd(x, trt.PoolingType.AVERAGE, (2, 2))
    layer.stride_nd = (2, 2)
    return layer


def group_norm(network: Network, x: trt.ITensor) -> trt.ILayer:
    factors = [floats(network, np.ones((1, 2, 1, 1)), x.dtype) for _ in range(2)]
    layer = network.add_normalization(x, *factors, 12)
    layer.num_groups = 2
    return layer


def loop(network: Network, x: trt.ITensor) -> trt.ILayer:
    loop = network.add_loop()
    loop.add_trip_limit(constant(network, np.int32(3)), trt.TripLimit.COUNT)
    state = loop.add_recurrence(x)
    following = network.add_elementwise(state.get_output(0), floats(network, ONE, x.dtype), SUM)
    state.set_input(1, following.get_output(0))
    return loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE)


def conditional(network: Network, x: trt.ITensor) -> trt.ILayer:
    choice = network.add_if_conditional()
    choice.set_condition(constant(network, np.array(True)))
    branch_input = choice.add_input(x).get_output(0)
    sides = [
        network.add_unary(branch_input, op).get_output(0)
        for op in (trt.UnaryOperation.NEG, trt.UnaryOperation.ABS)
    ]
    return choice.add_output(*sides)


LAYERS: dict[str, Callable[[Network, trt.ITensor], trt.ILayer]] = {
    "convolution": lambda n, x: n.add_convolution_nd(x, 4, (3, 3), W, np.ones(4, np.float32)),
    "deconvolution": lambda n, x: n.add_deconvolution_nd(x, 4, (3, 3), W, np.ones(4, np.float32)),
    "clip": clip,
    "gelu": lambda n, x: n.add_activation(x, trt.ActivationType.GELU_TANH),
    "average": average,
    "norm": group_norm,
    "sum": lambda n, x: n.add_elementwise(x, floats(n, ONE, x.dtype), SUM),
    "scale": lambda n, x: n.add_scale(x, trt.ScaleMode.CHANNEL, ONE.reshape(-1), ONE.reshape(-1)),
    "softmax": lambda n, x: n.add_softmax(x),
    "product": lambda n, x: n.add_matrix_multiply(x, NONE, x, NONE),
    "concatenation": lambda n, x: n.add_concatenation([x, floats(n, X, x.dtype)]),
    "gather": lambda n, x: n.add_gather(x, ints(n, 0, 2), 1),
    "attention": lambda n, x: n.add_attention(x, x, x, trt.AttentionNormalizationOp.SOFTMAX, True),
    "loop": loop,
    "conditional": conditional,
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_of_halves_is_as_one_of_float32(name, log) -> None:
    results = {}
    for dtype in (trt.float32, trt.float16, trt.bfloat16):
        builder = trt.Builder(log)
        network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        y = LAYERS[name](network, network.add_input("x", dtype, X.shape)).get_output(0)
        network.mark_output(y)
        engine = builder.build_engine(network, builder.create_builder_config())
        assert y.dtype is engine.get_tensor_dtype(y.name) is dtype, log.messages
        x, result = X.astype(dtype.numpy), np.empty(y.shape, dtype.numpy)
        context = engine.create_execution_context()
        assert context.execute_v2([x.ctypes.data, result.ctypes.data]), log.messages
        results[dtype] = result.astype(np.float32)
    for dtype, tolerance in ((trt.float16, 0.01), (trt.bfloat16, 0.08)):
        assert np.abs(results[dtype] - results[trt.float32]).max() < tolerance * (1 + np.abs(X).max())


def test_types_that_differ_are_refused_where_a_network_is_strongly_typed(log) -> None:
    for flags, builds in ((0, True), (1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED), False)):
        builder = trt.Builder(log)
        network = builder.create_network(flags)
        x, y = network.add_input("x", trt.float16, (4,)), network.add_input("y", trt.float32, (4,))
        total = network.add_elementwise(x, y, SUM).get_output(0)
        network.mark_output(total)
        serialized = builder.build_serialized_network(network, builder.create_builder_config())
        assert (serialized is not None) is builds
    assert "incompatible input types HALF and FLOAT" in log.of("ERROR")[0]
