"""ONNX files whose shapes depend on values: the parser's layers say so as the network's own do."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact.trt as trt

X = np.float32([[0, 1, 0], [2, 0, 3]])


def parse(network, nodes, outputs, inputs, weights=()):
    """`network` with an ONNX file in it."""
    model = onnx_model(
        nodes,
        [helper.make_tensor_value_info(n, kind, shape) for n, kind, shape in inputs],
        [helper.make_tensor_value_info(n, kind, shape) for n, kind, shape in outputs],
        dict(weights),
    )
    onnx.checker.check_model(model)
    assert trt.OnnxParser(network, network.logger).parse(model.SerializeToString())


def context_of(network, log, profiled=()):
    builder = trt.Builder(log)
    config = builder.create_builder_config()
    if profiled:
        profile = builder.create_optimization_profile()
        for name, *shapes in profiled:
            profile.set_shape(name, *shapes)
        config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    assert plan is not None, log.messages
    return trt.Runtime(log).deserialize_cuda_engine(plan).create_execution_context()


class Allocator(trt.IOutputAllocator):
    """Memory for what only a run tells."""

    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        self.memory = np.empty(size, np.uint8)
        return self.memory.ctypes.data

    def notify_shape(self, tensor_name: str, shape: trt.Dims) -> None:
        self.shape = shape


def run(context, feeds, output, dtype):
    """Run and return `output`, through an allocator."""
    allocator = Allocator()
    for name, value in feeds.items():
        context.set_tensor_address(name, value.ctypes.data)
    context.set_output_allocator(output, allocator)
    assert context.execute_async_v3(0)
    used = allocator.memory[: int(np.prod(allocator.shape)) * np.dtype(dtype).itemsize]
    return used.view(dtype).reshape(allocator.shape)


@pytest.mark.parametrize("data", [X, np.zeros_like(X)])
def test_places_that_are_not_zero(network, log, data) -> None:
    node = helper.make_node("NonZero", ["x"], ["y"])
    parse(network, [node], [("y", TensorProto.INT64, [2, "n"])], [("x", TensorProto.FLOAT, [2, 3])])
    context = context_of(network, log)
    assert context.get_tensor_shape("y") == (2, -1)
    assert (run(context, {"x": data}, "y", np.int64) == np.nonzero(data)).all()


def test_an_allocator_gives_memory_for_an_output_of_known_size_too(network, log) -> None:
    node = helper.make_node("Neg", ["x"], ["y"])
    parse(network, [node], [("y", TensorProto.FLOAT, ["n", 3])], [("x", TensorProto.FLOAT, ["n", 3])])
    context = context_of(network, log, [("x", (1, 3), (2, 3), (4, 3))])
    assert context.set_input_shape("x", (2, 3))
    assert (run(context, {"x": X}, "y", np.float32) == -X).all()


def test_sizes_that_only_a_run_tells_inside_of_a_network_of_known_outputs(network, log) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "rows"], ["found"]),
        helper.make_node("ReduceSum", ["found"], ["y"], keepdims=0),
    ]
    parse(network, nodes, [("y", TensorProto.FLOAT, [])], [("x", TensorProto.FLOAT, [2, 3])])
    out = np.zeros((), np.float32)
    for data in (X, np.zeros_like(X), X + 1):
        assert context_of(network, log).execute_v2([data.ctypes.data, out.ctypes.data]), log.messages
        assert out == data.sum()


def test_an_input_that_says_the_sizes_of_a_reshape(network, log) -> None:
    node = helper.make_node("Reshape", ["x", "sizes"], ["y"])
    inputs = [("x", TensorProto.FLOAT, [2, 3]), ("sizes", TensorProto.INT64, [2])]
    parse(network, [node], [("y", TensorProto.FLOAT, ["a", "b"])], inputs)
    context, out, sizes = context_of(network, log), np.empty(6, np.float32), np.int64([3, 2])
    assert context.engine.is_shape_inference_io("sizes")
    context.set_tensor_address("sizes", sizes.ctypes.data)
    assert context.get_tensor_shape("y") == (3, 2)
    context.set_tensor_address("x", X.ctypes.data)
    context.set_tensor_address("y", out.ctypes.data)
    assert context.execute_async_v3(0), log.messages
    assert (out == X.reshape(-1)).all()


def test_sizes_that_follow_from_shapes_leave_the_engine_as_it_is(network, log) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "zero", "one"], ["rows"]),
        helper.make_node("Concat", ["rows", "rest"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["x", "sizes"], ["y"]),
    ]
    weights = [("zero", np.int64([0])), ("one", np.int64([1])), ("rest", np.int64([-1]))]
    inputs = [("x", TensorProto.FLOAT, ["n", 3, 2])]
    parse(network, nodes, [("y", TensorProto.FLOAT, ["n", 6])], inputs, weights)
    context = context_of(network, log, [("x", (1, 3, 2), (2, 3, 2), (4, 3, 2))])
    assert not context.engine._record.dependence
    assert context.set_input_shape("x", (4, 3, 2)) and context.get_tensor_shape("y") == (4, 6)


def test_places_in_what_only_shapes_say_leave_the_engine_as_it_is(network, log) -> None:
    """Exporters of PyTorch once wrote `arange` so: as the places of ones, as many as a size says."""
    ones = helper.make_tensor("one", TensorProto.INT64, [1], [1])
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Slice", ["sizes", "zero", "one"], ["rows"]),
        helper.make_node("ConstantOfShape", ["rows"], ["ones"], value=ones),
        helper.make_node("NonZero", ["ones"], ["places"]),
        helper.make_node("Transpose", ["places"], ["column"], perm=[1, 0]),
        helper.make_node("Cast", ["column"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "numbers"], ["y"]),
    ]
    weights = [("zero", np.int64([0])), ("one", np.int64([1]))]
    inputs = [("x", TensorProto.FLOAT, ["n", 2])]
    parse(network, nodes, [("y", TensorProto.FLOAT, ["n", 2])], inputs, weights)
    context = context_of(network, log, [("x", (1, 2), (2, 2), (4, 2))])
    assert not context.engine._record.dependence
    for rows in (3, 4):
        x, out = np.ones((rows, 2), np.float32), np.empty((rows, 2), np.float32)
        assert context.set_input_shape("x", x.shape)
        assert context.execute_v2([x.ctypes.data, out.ctypes.data]), log.messages
        assert (out == x + np.arange(rows)[:, None]).all()
