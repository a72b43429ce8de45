"""Layers take and give the types that TensorRT's header allows, under their own names, in network, engine and
memory; what a strongly typed network refuses is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.trt.networks import constant

import intact.trt as trt
from intact.trt.base.itensor import pack, unpack

FLOATS, INTEGERS, BOOLS = (trt.float32, trt.float16, trt.bfloat16), (trt.int32, trt.int64), (trt.bool,)
NUMBERS, ALL = (*FLOATS, *INTEGERS), (*FLOATS, *INTEGERS, *BOOLS)
E, U, NONE = trt.ElementWiseOperation, trt.UnaryOperation, trt.MatrixOperation.NONE
SHAPE = (2, 4, 4)
Network = trt.INetworkDefinition
Make = Callable[[Network, trt.ITensor], trt.ILayer]
Result = Callable[[np.ndarray], np.ndarray]


def softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(2, keepdims=True))
    return e / e.sum(2, keepdims=True)


def with_axes(layer: Any) -> Any:
    layer.axes = 4
    return layer


LAYERS: dict[str, tuple[tuple[trt.DataType, ...], Make, Result]] = {
    "relu": (FLOATS, lambda n, x: n.add_activation(x, trt.ActivationType.RELU), lambda a: np.maximum(a, 0)),
    "softmax": (FLOATS, lambda n, x: with_axes(n.add_softmax(x)), softmax),
    "exp": (FLOATS, lambda n, x: n.add_unary(x, U.EXP), np.exp),
    "abs": (NUMBERS, lambda n, x: n.add_unary(x, U.ABS), np.abs),
    "negative": (NUMBERS, lambda n, x: n.add_unary(x, U.NEG), np.negative),
    "not": (BOOLS, lambda n, x: n.add_unary(x, U.NOT), np.logical_not),
    "sum": (NUMBERS, lambda n, x: n.add_elementwise(x, x, E.SUM), lambda a: a + a),
    "and": (BOOLS, lambda n, x: n.add_elementwise(x, x, E.AND), lambda a: a),
    "reduce": (
        NUMBERS, lambda n, x: n.add_reduce(x, trt.ReduceOperation.SUM, 2, True),
        lambda a: a.sum(1, keepdims=True),
    ),
    "top": (
        NUMBERS, lambda n, x: n.add_topk(x, trt.TopKOperation.MAX, 1, 4), lambda a: a.max(2, keepdims=True),
    ),
    "product": (FLOATS, lambda n, x: n.add_matrix_multiply(x, NONE, x, NONE), lambda a: a @ a),
    "shuffle": ((*ALL, trt.uint8), lambda n, x: n.add_shuffle(x), lambda a: a),
    "concatenate": (ALL, lambda n, x: n.add_concatenation([x, x]), lambda a: np.concatenate([a, a])),
    "slice": (ALL, lambda n, x: n.add_slice(x, (0, 1, 0), (1, 2, 2), (1, 1, 1)), lambda a: a[:1, 1:3, :2]),
    "gather": (ALL, lambda n, x: n.add_gather(x, constant(n, np.int32([1])), 0), lambda a: a[1:]),
    "select": (ALL, lambda n, x: n.add_select(constant(n, np.ones(SHAPE, bool)), x, x), lambda a: a),
    "identity": ((*ALL, trt.uint8), lambda n, x: n.add_identity(x), lambda a: a),
    "resize": (FLOATS, lambda n, x: n.add_resize(x), lambda a: a),
}  # fmt: skip
PAIRS = [(name, dtype) for name, (types, _, _) in LAYERS.items() for dtype in types]
CASTS = [(a, b) for a in (*ALL, trt.uint8) for b in (*ALL, trt.uint8)]


class Memory(trt.IOutputAllocator):
    """Memory that is as large as asked for."""

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        self.bytes = np.zeros(size, np.uint8)
        return int(self.bytes.ctypes.data)

    def notify_shape(self, tensor_name: str, shape: tuple[int, ...]) -> None:
        self.shape = tuple(shape)


def values(dtype: trt.DataType) -> np.ndarray:
    """Small whole numbers, of either sign where the type has one."""
    numbers = np.arange(32).reshape(SHAPE) % 5
    return (numbers if dtype in (trt.bool, trt.uint8) else numbers - 2).astype(dtype.numpy)


def run(log: trt.ILogger, dtype: trt.DataType, make: Make, output: trt.DataType) -> np.ndarray:
    """Build a strongly typed network, serialize it, and run it on memory of the engine's types."""
    builder = trt.Builder(log)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    tensor = make(network, network.add_input("x", dtype, SHAPE)).get_output(0)
    tensor.name = "y"
    network.mark_output(tensor)
    assert tensor.dtype is output
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    assert plan is not None, log.messages
    engine = trt.Runtime(log).deserialize_cuda_engine(plan)
    assert (engine.get_tensor_dtype("x"), engine.get_tensor_dtype("y")) == (dtype, output)
    context, memory = engine.create_execution_context(), Memory()
    data = pack(values(dtype), dtype)
    context.set_tensor_address("x", data.ctypes.data)
    context.set_output_allocator("y", memory)
    assert context.execute_async_v3(0), log.messages
    count = int(np.prod(memory.shape))
    return unpack(memory.bytes[: output.bytes_of(count)], output, count).reshape(memory.shape)


@pytest.mark.parametrize(("name", "dtype"), PAIRS, ids=[f"{name}-{dtype.name}" for name, dtype in PAIRS])
def test_a_layer_gives_the_type_that_it_takes(log, name: str, dtype: trt.DataType) -> None:
    _, make, result = LAYERS[name]
    wide = values(dtype).astype(np.float64) if dtype in FLOATS else values(dtype)
    want = result(wide).astype(dtype.numpy)
    got = run(log, dtype, make, dtype)
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=1e-2)


@pytest.mark.parametrize(("dtype", "to"), CASTS, ids=[f"{a.name}-{b.name}" for a, b in CASTS])
def test_a_cast_gives_the_type_that_it_says(log, dtype: trt.DataType, to: trt.DataType) -> None:
    got = run(log, dtype, lambda n, x: n.add_cast(x, to), to)
    if to is not trt.uint8 or dtype in (trt.bool, trt.uint8):  # negative numbers have no meaning there
        np.testing.assert_array_equal(got, values(dtype).astype(to.numpy))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("codes", [trt.int8, trt.fp8], ids=lambda dtype: dtype.name)
def test_codes_have_their_own_type(log, dtype, codes) -> None:
    got = run(log, dtype, lambda n, x: n.add_quantize(x, constant(n, np.float32(0.5)), codes), codes)
    np.testing.assert_array_equal(got, (values(dtype).astype(np.float32) / 0.5).astype(codes.numpy))


@pytest.mark.parametrize("to", FLOATS, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("codes", [trt.int8, trt.fp8, trt.int4, trt.fp4], ids=lambda dtype: dtype.name)
def test_weights_of_codes_become_the_floats_that_are_asked_for(log, codes, to) -> None:
    stored = (np.arange(32).reshape(SHAPE) % 4).astype(codes.numpy)

    def add(n: Network, x: trt.ITensor) -> trt.ILayer:
        scale = constant(n, np.array(0.5, to.numpy))
        floats = n.add_dequantize(constant(n, stored), scale, to).get_output(0)
        return n.add_elementwise(x, floats, E.SUM)

    want = values(to).astype(np.float32) + stored.astype(np.float32) * 0.5
    np.testing.assert_array_equal(run(log, to, add, to), want.astype(to.numpy))


@pytest.mark.parametrize("to", FLOATS, ids=lambda dtype: dtype.name)
def test_dynamic_codes_become_the_floats_that_are_asked_for(log, to) -> None:
    def add(n: Network, x: trt.ITensor) -> trt.ILayer:
        layer = n.add_dynamic_quantize(x, 2, 4, trt.fp4, trt.fp8)
        layer.set_input(1, constant(n, np.float32(1)))
        scale = n.add_dequantize(layer.get_output(1), constant(n, np.float32(1)), to).get_output(0)
        return n.add_dequantize(layer.get_output(0), scale, to)

    got = run(log, to, add, to).astype(np.float32)
    assert np.abs(got - values(to).astype(np.float32)).max() <= 0.5


def other(n: Network) -> trt.ITensor:
    return n.add_input("other", trt.float32, SHAPE)


MIXED: dict[str, tuple[trt.DataType, Make]] = {
    "product": (trt.float16, lambda n, x: n.add_matrix_multiply(x, NONE, other(n), NONE)),
    "sum": (trt.float16, lambda n, x: n.add_elementwise(x, other(n), E.SUM)),
    "concatenation": (trt.float16, lambda n, x: n.add_concatenation([x, other(n)])),
    "select": (trt.float16, lambda n, x: n.add_select(constant(n, np.ones(SHAPE, bool)), x, other(n))),
    "scatter": (
        trt.float16,
        lambda n, x: n.add_scatter(
            x, constant(n, np.zeros(SHAPE, np.int32)), other(n), trt.ScatterMode.ELEMENT
        ),
    ),
    "einsum": (trt.float16, lambda n, x: n.add_einsum([x, other(n)], "abc,abc->abc")),
    "slopes": (
        trt.float16, lambda n, x: n.add_parametric_relu(x, constant(n, np.ones((1, 1, 1), np.float32))),
    ),
    "scale": (trt.float32, lambda n, x: n.add_quantize(x, constant(n, np.float16(0.5)), trt.int8)),
    "exp-of-integers": (trt.int32, lambda n, x: n.add_unary(x, U.EXP)),
    "softmax-of-integers": (trt.int32, lambda n, x: n.add_softmax(x)),
    "sum-of-booleans": (trt.bool, lambda n, x: n.add_elementwise(x, x, E.SUM)),
    "and-of-floats": (trt.float32, lambda n, x: n.add_elementwise(x, x, E.AND)),
    "codes-of-integers": (trt.int32, lambda n, x: n.add_quantize(x, constant(n, np.float32(1)), trt.int8)),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_types_that_do_not_fit_are_refused(log, name: str) -> None:
    dtype, make = MIXED[name]
    builder = trt.Builder(log)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    network.mark_output(make(network, network.add_input("x", dtype, SHAPE)).get_output(0))
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert log.of("ERROR")


def test_memory_of_constants_has_the_bytes_of_its_type() -> None:
    for dtype, size in (
        (trt.fp4, 4),
        (trt.int4, 4),
        (trt.fp8, 8),
        (trt.bfloat16, 16),
        (trt.float16, 16),
        (trt.float32, 32),
    ):
        array = np.zeros(8, dtype.numpy)
        assert (trt.Weights(array).dtype, trt.Weights(array).nbytes) == (dtype, size)
    assert trt.nptype(trt.fp8) is ml_dtypes.float8_e4m3fn
