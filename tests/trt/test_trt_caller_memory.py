"""Memory is read and written as a script is told of it: guard bytes around tensors of every type."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact.trt as trt
from intact.trt.base import itensor

GUARD = 0xA5
SHAPE = (3, 5)
MOVED = [t for t in trt.DataType if t not in (trt.int4, trt.fp8)]
FLOATS = (trt.float16, trt.bfloat16, trt.float32)
FILE_TYPES = {
    trt.float32: TensorProto.FLOAT, trt.float16: TensorProto.FLOAT16, trt.bfloat16: TensorProto.BFLOAT16,
    trt.int8: TensorProto.INT8, trt.int32: TensorProto.INT32, trt.int64: TensorProto.INT64,
    trt.uint8: TensorProto.UINT8, trt.bool: TensorProto.BOOL,
}  # fmt: skip


class Guarded:
    """Memory of a number of bytes, with bytes before and behind it that nobody may change."""

    def __init__(self, nbytes: int) -> None:
        self.room, self.nbytes = np.full(nbytes + 128, GUARD, np.uint8), nbytes
        self.address = self.room.ctypes.data + 64

    @property
    def content(self) -> np.ndarray:
        return self.room[64 : 64 + self.nbytes]

    def is_intact(self) -> bool:
        around = np.concatenate([self.room[:64], self.room[64 + self.nbytes :]])
        return bool((around == GUARD).all())


class Allocator(trt.IOutputAllocator):
    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        self.memory = Guarded(size)
        return self.memory.address

    def notify_shape(self, tensor_name: str, shape: tuple[int, ...]) -> None:
        self.shape = tuple(shape)


def bytes_of_tensor(engine: trt.ICudaEngine, context: trt.IExecutionContext, name: str) -> int:
    """The bytes that a script computes from what it is told, as every script does."""
    shape, dtype = tuple(context.get_tensor_shape(name)), engine.get_tensor_dtype(name)
    assert engine.get_tensor_format(name) is trt.TensorFormat.LINEAR
    assert engine.get_tensor_vectorized_dim(name) == engine.get_tensor_bytes_per_component(name) == -1
    strides = tuple(context.get_tensor_strides(name))
    assert strides == tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
    nbytes = int(-(-trt.volume(shape) * dtype.itemsize // 1))
    if engine.get_tensor_mode(name) is trt.TensorIOMode.OUTPUT and trt.volume(shape) > 0:
        assert context.get_max_output_size(name) == nbytes
    return nbytes


def bytes_for(engine: trt.ICudaEngine, context: trt.IExecutionContext) -> dict[str, Guarded]:
    names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
    return {name: Guarded(bytes_of_tensor(engine, context, name)) for name in names}


def run(engine: trt.ICudaEngine, context: trt.IExecutionContext, x: np.ndarray) -> dict[str, np.ndarray]:
    """Run on memory of exactly the bytes that were told; the outputs' bytes."""
    memory = bytes_for(engine, context)
    assert memory["x"].nbytes == x.size
    memory["x"].content[...] = x
    for name, room in memory.items():
        assert context.set_tensor_address(name, room.address)
    assert context.execute_async_v3(0)
    assert all(room.is_intact() for room in memory.values())
    return {name: room.content.copy() for name, room in memory.items() if name != "x"}


def engines(network: trt.INetworkDefinition, log, shape: Any = None) -> Iterator[trt.ICudaEngine]:
    """The engine of a network, and what is read of its bytes."""
    builder = trt.Builder(log)
    config = builder.create_builder_config()
    if shape is not None:
        profile = builder.create_optimization_profile()
        profile.set_shape("x", (1, *shape[1:]), shape, shape)
        config.add_optimization_profile(profile)
    trt.set_dialect("8.x")
    yield builder.build_engine(network, config)
    data = builder.build_serialized_network(network, config)
    assert data is not None, log.messages
    yield trt.Runtime(log).deserialize_cuda_engine(data)


def random_bytes(dtype: trt.DataType, shape: tuple[int, ...]) -> np.ndarray:
    """Bytes of numbers of a type."""
    rng, count = np.random.default_rng(0), prod(shape)
    if dtype.itemsize < 1:
        nibbles = rng.integers(0, 16, count + count % 2, np.uint8)
        nibbles[nibbles == 8] = 0  # minus zero
        nibbles[count:] = 0
        return nibbles[::2] | nibbles[1::2] << 4
    numbers = rng.integers(0, 2, count) if dtype is trt.bool else rng.integers(-4, 5, count) * 0.5
    return numbers.astype(trt.nptype(dtype)).view(np.uint8)


@pytest.fixture(autouse=True)
def _dialect() -> Iterator[None]:
    from intact.trt.base import dialects

    yield
    dialects._chosen.clear()


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("dtype", MOVED, ids=lambda t: t.name)
def test_every_type_is_read_and_written_as_told_by_the_network(dtype, dynamic, log) -> None:
    network = trt.Builder(log).create_network()
    x = network.add_input("x", dtype, (-1, *SHAPE[1:]) if dynamic else SHAPE)
    moved = network.add_shuffle(x)
    moved.second_transpose = (1, 0)
    back = network.add_shuffle(moved.get_output(0))
    back.second_transpose = (1, 0)
    for tensor in (moved.get_output(0), back.get_output(0)):
        assert tensor.dtype is dtype
        network.mark_output(tensor)
    back.get_output(0).name = "y"
    data = random_bytes(dtype, SHAPE)
    for engine in engines(network, log, SHAPE if dynamic else None):
        assert engine.get_tensor_dtype("x") is engine.get_tensor_dtype("y") is dtype
        context = engine.create_execution_context()
        assert context.set_input_shape("x", SHAPE)
        outputs = run(engine, context, data)
        assert (outputs["y"] == data).all()


NARROW = (trt.int4, trt.fp8)


@pytest.mark.parametrize("dtype", NARROW, ids=lambda t: t.name)
def test_types_of_codes_that_numpy_lacks_keep_their_bytes(dtype, log) -> None:
    network = trt.Builder(log).create_network()
    output = network.add_identity(network.add_input("x", dtype, SHAPE)).get_output(0)
    output.name = "y"
    network.mark_output(output)
    data = random_bytes(dtype, SHAPE)
    for engine in engines(network, log):
        assert engine.get_tensor_dtype("x") is engine.get_tensor_dtype("y") is dtype
        assert (run(engine, engine.create_execution_context(), data)["y"] == data).all()


@pytest.mark.parametrize("dtype", NARROW, ids=lambda t: t.name)
def test_codes_are_dequantized_from_and_quantized_to_a_callers_memory(dtype, log) -> None:
    flags = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    network = trt.Builder(log).create_network(flags)
    scale = network.add_constant((), trt.Weights(np.float32([0.5]))).get_output(0)
    x = network.add_input("x", dtype, (2, 4))
    reals = network.add_dequantize(x, scale, trt.float32).get_output(0)
    doubled = network.add_elementwise(reals, reals, trt.ElementWiseOperation.SUM).get_output(0)
    codes = network.add_quantize(doubled, scale, dtype).get_output(0)
    for name, tensor in (("reals", reals), ("codes", codes)):
        tensor.name = name
        network.mark_output(tensor)
    values = np.array([[1, -2, 3, 0], [-1, 2, -3, 1]], np.float32)
    data = itensor.pack(values.astype(dtype.numpy), dtype)
    for engine in engines(network, log):
        assert engine.get_tensor_dtype("x") is engine.get_tensor_dtype("codes") is dtype
        outputs = run(engine, engine.create_execution_context(), data)
        assert (outputs["reals"].view(np.float32).reshape(2, 4) == values / 2).all()
        assert (outputs["codes"] == itensor.pack((2 * values).astype(dtype.numpy), dtype)).all()


FILE_CASES = [(t, t) for t in FILE_TYPES] + [(a, b) for a in FLOATS for b in FLOATS if a is not b]


@pytest.mark.parametrize(("dtype", "outer"), FILE_CASES, ids=lambda t: t.name)
def test_every_type_is_read_and_written_as_told_by_a_file(dtype, outer, log) -> None:
    info = [helper.make_tensor_value_info(n, FILE_TYPES[dtype], SHAPE) for n in "xy"]
    node = helper.make_node("Identity", ["x"], ["y"])
    network = trt.Builder(log).create_network()
    assert trt.OnnxParser(network, log).parse(
        onnx_model([node], info[:1], info[1:], opset=17).SerializeToString()
    )
    assert network.get_input(0).dtype is network.get_output(0).dtype is dtype
    if dtype is not outer:  # scripts choose the types of floats at the border
        network.get_input(0).dtype = network.get_output(0).dtype = outer
        dtype = outer
    data = random_bytes(dtype, SHAPE)
    for engine in engines(network, log):
        assert engine.get_tensor_dtype("x") is engine.get_tensor_dtype("y") is dtype
        assert (run(engine, engine.create_execution_context(), data)["y"] == data).all()


OUTER = [*FLOATS, trt.int32]


@pytest.mark.parametrize("inner", OUTER, ids=lambda t: t.name)
@pytest.mark.parametrize("outer", OUTER, ids=lambda t: t.name)
def test_outputs_have_the_type_that_a_script_sets(inner, outer, log) -> None:
    network = trt.Builder(log).create_network()
    y = network.add_identity(network.add_input("x", inner, SHAPE)).get_output(0)
    y.name, y.dtype = "y", outer
    network.mark_output(y)
    for engine in engines(network, log):
        assert engine.get_tensor_dtype("y") is outer
        run(engine, engine.create_execution_context(), random_bytes(inner, SHAPE))


@pytest.mark.parametrize("dtype", [trt.float32, trt.float16, trt.bfloat16, trt.int32], ids=lambda t: t.name)
def test_allocators_are_asked_for_the_bytes_of_the_told_type(dtype, log) -> None:
    network = trt.Builder(log).create_network()
    x = network.add_input("x", dtype, SHAPE)
    indices = network.add_non_zero(x).get_output(0)
    columns = network.add_shuffle(indices)
    columns.second_transpose = (1, 0)
    gather = network.add_gather_v2(x, columns.get_output(0), trt.GatherMode.ND)
    gather.get_output(0).name = "y"
    network.mark_output(gather.get_output(0))
    data = random_bytes(dtype, SHAPE)
    values = data.view(trt.nptype(dtype))
    for engine in engines(network, log):
        assert engine.get_tensor_dtype("y") is dtype
        context, allocator = engine.create_execution_context(), Allocator()
        context.set_tensor_address("x", data.ctypes.data)
        context.set_output_allocator("y", allocator)
        assert context.execute_async_v3(0) and allocator.memory.is_intact()
        assert (allocator.memory.content.view(values.dtype) == values[values != 0]).all()
        assert context.get_max_output_size("y") >= values.nbytes


class Failing(Allocator):
    def __init__(self, answer: object, fails: str = "") -> None:
        super().__init__()
        self.answer, self.fails = answer, fails

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> object:
        if self.fails == "memory":
            raise RuntimeError("no memory")
        return super().reallocate_output(tensor_name, memory, size, alignment) if self.fails else self.answer

    def notify_shape(self, tensor_name: str, shape: tuple[int, ...]) -> None:
        if self.fails == "shape":
            raise RuntimeError("no shape")


@pytest.mark.parametrize(
    "allocator", [Failing(None), Failing(0), Failing("text"), Failing(0, "memory"), Failing(0, "shape")],
    ids=["None", "0", "text", "raises", "raises at the shape"],
)  # fmt: skip
def test_what_an_allocator_gets_wrong_is_logged(allocator, log) -> None:
    network = trt.Builder(log).create_network()
    x = network.add_input("x", trt.float32, SHAPE)
    network.mark_output(network.add_non_zero(x).get_output(0))
    context = next(engines(network, log)).create_execution_context()
    data = np.ones(SHAPE, np.float32)
    context.set_tensor_address("x", data.ctypes.data)
    context.set_output_allocator(network.get_output(0).name, allocator)
    assert context.execute_async_v3(0) is False
    assert any("output allocator of" in message for message in log.of("ERROR"))


@pytest.mark.parametrize("dtype", [trt.float16, trt.bfloat16], ids=lambda t: t.name)
def test_every_sample_of_an_implicit_batch_lies_behind_the_one_before(dtype, log) -> None:
    trt.set_dialect("8.x")
    builder = trt.Builder(log)
    builder.max_batch_size = 3
    network = builder.create_network()
    x = network.add_input("x", dtype, (4,))
    y = network.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)
    network.mark_output(y)
    engine = builder.build_engine(network, builder.create_builder_config())
    values = (np.arange(12) / 4).astype(trt.nptype(dtype))
    memory = Guarded(values.nbytes)
    assert engine.create_execution_context().execute(3, [values.ctypes.data, memory.address])
    assert memory.is_intact() and (memory.content.view(values.dtype) == values * 2).all()


class Listener(trt.IDebugListener):
    def process_debug_tensor(self, addr, location, type, shape, name, stream) -> bool:
        import ctypes

        nbytes = int(-(-trt.volume(shape) * type.itemsize // 1))
        self.seen = {**getattr(self, "seen", {}), name: (type, ctypes.string_at(addr, nbytes))}
        return True


def test_listeners_of_debug_tensors_are_told_their_type(log) -> None:
    network = trt.Builder(log).create_network()
    x = network.add_input("x", trt.bfloat16, SHAPE)
    middle = network.add_unary(x, trt.UnaryOperation.NEG).get_output(0)
    middle.name = "middle"
    y = network.add_unary(middle, trt.UnaryOperation.ABS).get_output(0)
    network.mark_output(y)
    network.mark_debug(middle)
    data = random_bytes(trt.bfloat16, SHAPE)
    for engine in engines(network, log):
        context, listener = engine.create_execution_context(), Listener()
        context.set_debug_listener(listener)
        context.set_all_tensors_debug_state(True)
        run(engine, context, data)
        dtype, raw = listener.seen["middle"]
        assert dtype is trt.bfloat16
        assert raw == (-data.view(ml_dtypes.bfloat16)).tobytes()


def test_arrays_in_place_of_addresses_must_hold_the_told_type(log) -> None:
    network = trt.Builder(log).create_network()
    x = network.add_input("x", trt.bfloat16, SHAPE)
    y = network.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)
    network.mark_output(y)
    engine = next(engines(network, log))
    context = engine.create_execution_context()
    x = (np.arange(15).reshape(SHAPE) / 4).astype(ml_dtypes.bfloat16)
    own, raw = np.zeros(SHAPE, x.dtype), np.zeros(15, np.uint16)
    assert context.execute_v2([x, own]) and context.execute_v2([x.view(np.uint16), raw])
    assert (own == x * 2).all() and (raw.view(x.dtype) == (x * 2).reshape(-1)).all()
    for wrong in (np.zeros(SHAPE, np.float32), np.zeros(14, x.dtype), np.zeros((5, 3), np.int16).T):
        before = wrong.copy()
        assert not context.execute_v2([x, wrong]) and (wrong == before).all()
    torch = pytest.importorskip("torch")
    input_tensor, target = (
        torch.arange(15).reshape(3, 5).to(torch.bfloat16),
        torch.zeros(3, 5, dtype=torch.bfloat16),
    )
    assert context.execute_v2([input_tensor, target]) and (target == input_tensor * 2).all()


@pytest.mark.parametrize("dtype", trt.DataType, ids=lambda t: t.name)
def test_weights_tell_the_bytes_that_their_memory_has(dtype) -> None:
    for count in (1, 4, 7):
        nbytes = int(-(-count * dtype.itemsize // 1))
        raw = np.arange(1, nbytes + 1, dtype=np.uint8)
        weights = trt.Weights(dtype, raw.ctypes.data, count)
        assert (weights.size, weights.nbytes, weights.dtype) == (count, nbytes, dtype)
        if dtype.itemsize >= 1:
            assert weights.numpy().tobytes() == raw.tobytes()
        else:
            assert (weights.numpy().view(np.uint8) == [1, 0, 2, 0, 3, 0, 4][:count]).all()
            with pytest.raises(TypeError):
                trt.nptype(dtype)
