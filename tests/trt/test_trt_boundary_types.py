"""Types and sizes that scripts see of inputs, outputs and debug tensors, whatever the plan has inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

import intact.trt as trt
from intact.trt.base import itensor

F, D = TensorProto.FLOAT, TensorProto.DOUBLE
X = np.arange(6, dtype=np.float32).reshape(2, 3) + np.float32(0.5)


def info(name: str, dtype: int, *shape: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def parse(log, nodes: list, inputs: list, outputs: list, weights: tuple = (), opset: int = 18):
    """A network with the nodes; the parser, and whether it took them."""
    constants = [numpy_helper.from_array(array, name) for name, array in weights]
    model = onnx_model(nodes, inputs, outputs, constants, opset=opset, ir_version=8)
    network = trt.Builder(log).create_network()
    parser = trt.OnnxParser(network, log)
    return network, parser, parser.parse(model.SerializeToString())


class Allocator(trt.IOutputAllocator):
    """Memory that is as large as asked for."""

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        self.memory = np.zeros(size, np.uint8)
        return self.memory.ctypes.data

    def notify_shape(self, tensor_name: str, shape: tuple[int, ...]) -> None:
        self.shape = tuple(shape)


def engine_of(network, log) -> trt.ICudaEngine:
    builder = trt.Builder(log)
    engine = builder.build_engine(network, builder.create_builder_config())
    assert engine is not None, log.messages
    return engine


DOUBLES = {
    "cast": [helper.make_node("Cast", ["x"], ["y"], to=D)],
    "eye": [helper.make_node("EyeLike", ["x"], ["y"], dtype=D)],
    "product": [
        helper.make_node("Cast", ["x"], ["d"], to=D), helper.make_node("Mul", ["d", "d"], ["y"])
    ],
}  # fmt: skip
WANT = {"cast": X, "eye": np.eye(2, 3, dtype=np.float32), "product": X * X}


@pytest.mark.parametrize("name", DOUBLES)
def test_outputs_of_float64_are_float32_for_a_script(log, name) -> None:
    network, _, _ = parse(log, DOUBLES[name], [info("x", F, 2, 3)], [info("y", D, 2, 3)])
    engine = engine_of(network, log)
    assert engine.get_tensor_dtype("y") is trt.float32
    context, memory = engine.create_execution_context(), np.full(12, 77, np.float32)
    assert context.execute_v2([X.ctypes.data, memory.ctypes.data])
    assert (memory[:6].reshape(2, 3) == WANT[name]).all() and (memory[6:] == 77).all()
    allocator = Allocator()
    context.set_tensor_address("x", X.ctypes.data)
    assert context.set_output_allocator("y", allocator) and context.execute_async_v3(0)
    assert (allocator.memory.view(np.float32).reshape(allocator.shape) == WANT[name]).all()


def test_inputs_of_float64_are_float32_for_a_script(log) -> None:
    nodes = [helper.make_node("Add", ["x", "c"], ["y"])]
    inputs, outputs = [info("x", D, 2, 3)], [info("y", D, 2, 3)]
    network, _, took = parse(log, nodes, inputs, outputs, (("c", np.float64(1)),))
    assert took and network.get_input(0).dtype is trt.float32
    engine, output = engine_of(network, log), np.empty_like(X)
    assert engine.get_tensor_dtype("x") is trt.float32
    assert engine.create_execution_context().execute_v2([X.ctypes.data, output.ctypes.data])
    assert (output == X + 1).all()


FOREIGN = {
    "int16": info("x", TensorProto.INT16, 2), "uint16": info("x", TensorProto.UINT16, 2),
    "uint32": info("x", TensorProto.UINT32, 2), "uint64": info("x", TensorProto.UINT64, 2),
    "string": info("x", TensorProto.STRING, 2), "complex": info("x", TensorProto.COMPLEX64, 2),
    "sequence": helper.make_tensor_sequence_value_info("x", F, [2]),
    "without a shape": helper.make_tensor_value_info("x", F, None),
}  # fmt: skip


@pytest.mark.parametrize("kind", FOREIGN)
def test_the_parser_answers_false_for_an_input_that_tensorrt_has_not(log, kind) -> None:
    outputs = [onnx.ValueInfoProto(name="y")]
    outputs[0].CopyFrom(FOREIGN[kind])
    outputs[0].name = "y"
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    network, parser, took = parse(log, nodes, [FOREIGN[kind]], outputs)
    assert took is False and parser.num_errors == 1 and "input 'x'" in parser.get_error(0).desc()
    assert network.num_layers == network.num_inputs == 0
    model = onnx_model(nodes, [FOREIGN[kind]], outputs)
    assert parser.supports_model(model.SerializeToString())[0] is False


def test_an_output_that_tensorrt_has_not_is_refused_by_parser_and_builder(log) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.UINT16),
        helper.make_node("Cast", ["wide"], ["y"], to=F),
    ]
    _, parser, took = parse(log, nodes[:1], [info("x", F, 2)], [info("wide", TensorProto.UINT16, 2)])
    assert not took and "uint16" in parser.get_error(0).desc()
    network, _, took = parse(log, nodes, [info("x", F, 2)], [info("y", F, 2)])
    assert took
    network.mark_output(network.get_layer(0).get_output(0))
    builder = trt.Builder(log)
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert any("'wide' has the type uint16" in message for message in log.of("ERROR"))


class Listener(trt.IDebugListener):
    """Keeps copies of what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, np.ndarray] = {}

    def process_debug_tensor(self, addr, location, type, shape, name, stream) -> bool:
        array = np.zeros(shape, trt.nptype(type))
        np.copyto(array, itensor.at_address(addr, tuple(shape), array.dtype))
        self.seen[name] = array
        return True


def test_inputs_outputs_and_what_is_between_can_be_debug_tensors(log) -> None:
    network, _, _ = parse(
        log,
        [helper.make_node("Cast", ["x"], ["d"], to=D), helper.make_node("Mul", ["d", "d"], ["y"])],
        [info("x", F, 2, 3)], [info("y", D, 2, 3)],
    )  # fmt: skip
    middle = network.get_layer(0).get_output(0)
    for tensor in (network.get_input(0), middle, network.get_output(0)):
        network.mark_debug(tensor)
    data = trt.Builder(log).build_serialized_network(network, trt.IBuilderConfig())
    engine = trt.Runtime(log).deserialize_cuda_engine(data)
    assert [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)] == ["x", "y"]
    assert all(map(engine.is_debug_tensor, "xdy"))
    context, listener, output = engine.create_execution_context(), Listener(), np.empty_like(X)
    context.set_debug_listener(listener)
    assert context.execute_v2([X.ctypes.data, output.ctypes.data]) and listener.seen == {}
    assert context.set_all_tensors_debug_state(True) and context.set_tensor_debug_state("y", False)
    assert context.execute_v2([X.ctypes.data, output.ctypes.data]) and listener.seen.keys() == {"x", "d"}
    assert context.set_tensor_debug_state("y", True)
    assert context.execute_v2([X.ctypes.data, output.ctypes.data])
    assert (listener.seen["x"] == X).all() and (listener.seen["d"] == X).all()
    assert (listener.seen["y"] == X * X).all() and (output == X * X).all()


def test_sizes_behind_constants_that_nodes_make_are_known(log) -> None:
    nodes = [
        helper.make_node(
            "ConstantOfShape", ["three"], ["s"], value=helper.make_tensor("v", TensorProto.INT64, [1], [1])
        ),
        helper.make_node("Expand", ["c", "s"], ["e"]), helper.make_node("Add", ["e", "x"], ["y"]),
    ]  # fmt: skip
    weights = (("three", np.array([3])), ("c", np.ones((2, 4), np.float32)))
    network, _, _ = parse(log, nodes, [info("x", F, 1, 2, 4)], [info("y", F, "a", "b", "c")], weights, 11)
    assert tuple(network.get_output(0).shape) == (1, 2, 4)
    assert tuple(engine_of(network, log).get_tensor_shape("y")) == (1, 2, 4)


@pytest.mark.parametrize(("opset", "numbers"), [(18, 2), (21, 4)])
def test_norms_of_groups_build_and_have_a_shape(log, opset, numbers) -> None:
    scale = np.arange(numbers, dtype=np.float32) + 1
    nodes = [
        helper.make_node("GroupNormalization", ["x", "s", "s"], ["g"], num_groups=2),
        helper.make_node("Relu", ["g"], ["y"]),
    ]
    network, _, _ = parse(
        log, nodes, [info("x", F, 1, 4, 3)], [info("y", F, 1, 4, 3)], (("s", scale),), opset
    )
    assert tuple(network.get_output(0).shape) == (1, 4, 3)
    x = np.random.default_rng(0).standard_normal((1, 4, 3)).astype(np.float32)
    rows = x.reshape(2, 6)
    normal = ((rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)).reshape(4, 3)
    factor = np.repeat(scale, 4 // numbers)[:, None]
    output = engine_of(network, log).engine.run({"x": x})["y"][0]
    np.testing.assert_allclose(output, np.maximum(normal * factor + factor, 0), atol=1e-5)


class Ones(trt.IInt8MinMaxCalibrator):
    """Two batches of ones; keeps the cache."""

    def __init__(self) -> None:
        super().__init__()
        self.batches, self.cache = [np.ones((1, 1, 2, 2), np.float32)] * 2, None

    def get_batch_size(self) -> int:
        return 1

    def get_batch(self, names) -> list[np.ndarray] | None:
        return [self.batches.pop()] if self.batches else None

    def read_calibration_cache(self):
        return self.cache

    def write_calibration_cache(self, cache) -> None:
        self.cache = bytes(cache)


def test_a_network_without_a_layer_for_int8_is_built_in_float(log) -> None:
    builder = trt.Builder(log)
    network, config = builder.create_network(1), builder.create_builder_config()
    x = network.add_input("x", trt.float32, (1, 1, 2, 2))
    network.mark_output(network.add_identity(x).get_output(0))
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = calibrator = Ones()
    assert builder.build_serialized_network(network, config) is not None
    assert calibrator.batches == [] and calibrator.cache is not None
    assert any("INT8 is not used" in message for message in log.of("WARNING"))
    assert builder.build_serialized_network(network, config) is not None  # from the cache


def test_a_network_that_is_pinned_to_float_is_built_in_float(small, log) -> None:
    builder = trt.Builder(log)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    calibrator = Ones()
    calibrator.batches = [np.ones((2, 16, 8, 8), np.float32)]
    config.int8_calibrator = calibrator
    for layer in small:
        layer.precision = trt.float32
    engine = builder.build_engine(small, config)
    assert engine is not None and "int8" not in {layer.precision for layer in engine.engine.plan.layers}
