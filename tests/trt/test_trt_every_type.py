"""Layers take and give the types that the pages of TensorRT's operators allow, under their own names, in
network, engine and memory; what a strongly typed network refuses is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.trt.networks import constant, whole_numbers
from tests.trt.operator_cases import (
    ACTIVATIONS,
    BINARIES,
    CASES,
    PAIRS,
    REDUCTIONS,
    SHAPE,
    TYPES,
    UNARIES,
    Case,
)

import intact.trt as trt
from intact import numerics
from intact.spec import QuantSpec
from intact.trt.base import dialects
from intact.trt.base.itensor import pack, unpack

FLOATS = (trt.float32, trt.float16, trt.bfloat16)
ALL = (*FLOATS, trt.int32, trt.int64, trt.bool)
CASTS = [(a, b) for a in (*ALL, trt.uint8) for b in (*ALL, trt.uint8)]
FILLS = [
    (trt.FillOperation.LINSPACE, dtype) for dtype in (trt.float32, trt.int32, trt.int64)
] + [(kind, dtype) for kind in (trt.FillOperation.RANDOM_UNIFORM, trt.FillOperation.RANDOM_NORMAL)
     for dtype in (trt.float32, trt.float16)]  # fmt: skip
ELSEWHERE = {
    "add_input": "every test", "add_constant": "every test", "add_quantize": "below",
    "add_dequantize": "below", "add_dynamic_quantize": "below", "add_cast": "below", "add_fill": "below",
    "add_dynamic_quantize_v2": "test_trt_experts_and_forms", "add_assertion": "test_trt_types_and_sizes",
    "add_attention_v2": "test_trt_attention", "add_kv_cache_update": "test_trt_attention",
    "add_moe": "test_trt_experts_and_forms", "add_nms": "below",
    "add_normalization_v2": "test_trt_layers_more",
    "add_dist_collective": "refused", "add_plugin": "test_trt_plugins", "add_plugin_v2": "test_trt_plugins",
    "add_plugin_v3": "test_trt_plugins",
}  # fmt: skip
"""Calls that no case makes, and where they are tested."""
E, U, NONE = trt.ElementWiseOperation, trt.UnaryOperation, trt.MatrixOperation.NONE
Network = trt.INetworkDefinition
Make = Callable[[Network, trt.ITensor], Any]


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


def run(
    log: trt.ILogger, dtype: trt.DataType, make: Make, output: trt.DataType, data: np.ndarray | None = None
) -> np.ndarray:
    """Build a strongly typed network, serialize it, and run it on memory of the engine's types."""
    data = values(dtype) if data is None else data
    builder = trt.Builder(log)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    layer = make(network, network.add_input("x", dtype, data.shape))
    tensor = layer if isinstance(layer, trt.ITensor) else layer.get_output(0)
    tensor.name = "y"
    network.mark_output(tensor)
    assert tensor.dtype is output
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    assert plan is not None, log.messages
    engine = trt.Runtime(log).deserialize_cuda_engine(plan)
    assert (engine.get_tensor_dtype("x"), engine.get_tensor_dtype("y")) == (dtype, output)
    context, memory = engine.create_execution_context(), Memory()
    packed = pack(data, dtype)
    context.set_tensor_address("x", packed.ctypes.data)
    context.set_output_allocator("y", memory)
    assert context.execute_async_v3(0), log.messages
    count = int(np.prod(memory.shape))
    return unpack(memory.bytes[: output.bytes_of(count)], output, count).reshape(memory.shape)


def data_of(case: Case, dtype: trt.DataType) -> np.ndarray:
    numbers = (case.data or whole_numbers)(case.shape)
    return (np.abs(numbers) if dtype in (trt.bool, trt.uint8) else numbers).astype(dtype.numpy)


def compare(array: np.ndarray, want: np.ndarray, output: trt.DataType) -> None:
    """Compare numbers: those of floats within a part in a hundred, as bfloat16 rounds; others to the bit."""
    assert array.shape == want.shape
    close = {"rtol": 1e-2, "atol": 1e-3} if output in FLOATS else {"rtol": 0, "atol": 0}
    np.testing.assert_allclose(array.astype(np.float64), want.astype(np.float64), **close)


@pytest.fixture(params=["10.x", "11.x"])
def dialect(request: pytest.FixtureRequest) -> Iterator[str]:
    trt.set_dialect(request.param)
    yield request.param
    dialects._chosen.clear()


@pytest.mark.parametrize(("name", "kind"), PAIRS, ids=[f"{name}-{kind}" for name, kind in PAIRS])
def test_a_layer_takes_and_gives_every_type_of_its_page(log, dialect, name: str, kind: str) -> None:
    case = CASES[name]
    if kind == "codes":
        check_codes(log, case)
        return
    dtype = TYPES[kind]
    output, data = TYPES[case.gives] if case.gives else dtype, data_of(case, dtype)
    exact = data if dtype in (trt.int32, trt.int64, trt.bool, trt.uint8) else data.astype(np.float64)
    want = np.asarray(case.result(exact)).astype(output.numpy)
    compare(run(log, dtype, case.make, output, data), want, output)


def check_codes(log: trt.ILogger, case: Case) -> None:
    """Compare codes in front of and behind a layer with numerics."""
    step, result_step = np.float32(0.5), np.float32(0.25)
    spec = QuantSpec("int8")

    def make(n: Network, x: trt.ITensor) -> trt.ILayer:
        floats = n.add_dequantize(x, constant(n, step), trt.float32).get_output(0)
        layer = case.make(n, floats)
        tensor = layer if isinstance(layer, trt.ITensor) else layer.get_output(0)
        return n.add_quantize(tensor, constant(n, result_step), trt.int8)

    codes = (2 * data_of(case, trt.float32)).astype(np.int8)
    floats = np.asarray(case.result(codes * np.float64(step)), np.float32)
    want = numerics.quantize(floats, result_step, 0, spec)
    compare(run(log, trt.int8, make, trt.int8, codes), np.asarray(want), trt.int8)


def test_every_call_that_adds_a_layer_is_generated_or_tested_elsewhere() -> None:
    names = (Path(__file__).parent / "bindings_11_1.txt").read_text().splitlines()
    (line,) = (line for line in names if line.startswith("INetworkDefinition "))
    calls = {word for word in line.split() if word.startswith("add_")}
    generated = {case.method for case in CASES.values()}
    assert generated | ELSEWHERE.keys() >= calls
    assert not generated & ELSEWHERE.keys()


def test_every_operation_of_a_layer_with_operations_is_generated() -> None:
    assert {name.upper() for name in ACTIVATIONS} == set(trt.ActivationType.__members__)
    assert {name.upper() for name in UNARIES} == set(trt.UnaryOperation.__members__)
    assert {name.upper() for name in BINARIES} == set(trt.ElementWiseOperation.__members__)
    reductions = {name.removeprefix("reduce_").upper() for name in REDUCTIONS}
    assert reductions == set(trt.ReduceOperation.__members__) - {"NONE"}


@pytest.mark.parametrize(("kind", "dtype"), FILLS, ids=[f"{a.name}-{b.name}" for a, b in FILLS])
def test_a_fill_gives_the_type_that_it_says(log, kind, dtype) -> None:
    def add(n: Network, x: trt.ITensor) -> trt.ILayer:
        layer = n.add_fill((4,), kind, dtype)
        number = dtype.numpy.type
        layer.set_input(0, n.add_shape(x).get_output(0))
        layer.set_input(1, constant(n, number(1)))
        two = number(2) if kind is not trt.FillOperation.LINSPACE else np.full(3, 2, dtype.numpy)
        layer.set_input(2, constant(n, two))
        return layer

    filled = run(log, trt.float32, add, dtype)
    assert filled.shape == values(trt.float32).shape
    if kind is trt.FillOperation.LINSPACE:
        np.testing.assert_array_equal(filled, 1 + 2 * np.indices(filled.shape).sum(0))
    else:
        assert np.isfinite(filled.astype(np.float64)).all()


@pytest.mark.parametrize("dtype", FLOATS[:2], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("indices", [trt.int32, trt.int64], ids=lambda dtype: dtype.name)
def test_boxes_are_suppressed_in_every_type(log, dtype, indices) -> None:
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5]]], dtype.numpy)

    def add(n: Network, x: trt.ITensor) -> trt.ILayer:
        scores = constant(n, np.array([[[0.5], [0.75], [0.25], [1.0]]], dtype.numpy))
        return n.add_nms(x, scores, constant(n, np.int32(4)), indices)

    got = run(log, dtype, add, indices, boxes)
    np.testing.assert_array_equal(got, [[0, 0, 3], [0, 0, 1], [0, 0, 2]])


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
