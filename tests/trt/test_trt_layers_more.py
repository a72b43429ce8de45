"""Layers and names that were accepted and ignored, or missing: each against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.trt.networks import constant, ints, outputs_of

import intact.trt as trt

X = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)


@pytest.fixture
def x(network) -> trt.ITensor:
    return network.add_input("x", trt.float32, X.shape)


def test_a_slice_takes_its_numbers_from_inputs(network, log, x) -> None:
    layer = network.add_slice(x, (0, 0, 0, 0), (1, 1, 1, 1), (1, 1, 1, 1))
    for index, values in ((1, (0, 1, 2, 3)), (2, (1, 1, 2, 2)), (3, (1, 1, -1, -2))):
        layer.set_input(index, ints(network, *values))
    network.mark_output(layer.get_output(0))
    assert layer.get_output(0).shape == (1, 1, 2, 2)
    assert (outputs_of(network, log, x=X)[0] == X[:, 1:2, 2:0:-1, 3::-2]).all()


def test_a_slice_of_some_axes(network, log, x) -> None:
    layer = network.add_slice(x, (1, 2), (2, 2), (1, 1))
    layer.axes = (2, 3)
    network.mark_output(layer.get_output(0))
    assert (outputs_of(network, log, x=X)[0] == X[:, :, 1:3, 2:4]).all()


@pytest.mark.parametrize(
    ("mode", "pad"),
    [(trt.SampleMode.WRAP, "wrap"), (trt.SampleMode.CLAMP, "edge"), (trt.SampleMode.REFLECT, "reflect"),
     (trt.SampleMode.FILL, "constant")],
)  # fmt: skip
def test_a_slice_beyond_the_bounds(network, log, x, mode, pad) -> None:
    layer = network.add_slice(x, (0, 0, -1, -2), (1, 2, 5, 7), (1, 1, 1, 1))
    layer.mode = mode
    if mode == trt.SampleMode.FILL:
        layer.set_input(4, constant(network, np.float32([7])))
    network.mark_output(layer.get_output(0))
    options = {"constant_values": 7} if pad == "constant" else {}
    wanted = np.pad(X, ((0, 0), (0, 0), (1, 1), (2, 1)), mode=pad, **options)
    assert (outputs_of(network, log, x=X)[0] == wanted).all()


def test_a_slice_out_of_strict_bounds_is_refused(network, log, x) -> None:
    network.mark_output(network.add_slice(x, (0, 0, 0, 0), (1, 2, 4, 4), (1, 1, 1, 1)).get_output(0))
    builder = trt.Builder(log)
    assert builder.build_engine(network, builder.create_builder_config()) is None
    assert "out of bounds access on axis 2" in log.of("ERROR")[0]


def test_topk_takes_k_from_an_input_and_gives_the_type_that_was_asked(network, log, x) -> None:
    layer = network.add_topk(x, trt.TopKOperation.MAX, 1, 1 << 3)
    layer.set_input(1, ints(network, 2))
    layer.indices_type = trt.int64
    network.mark_output(layer.get_output(0))
    network.mark_output(layer.get_output(1))
    values, places = outputs_of(network, log, x=X)
    assert (values == X[..., :1:-1]).all() and places.dtype == np.int64


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_a_gather_with_elementwise_dimensions(network, log, axis) -> None:
    data = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    places = np.int32([[1, 0, 2], [2, 2, -1]])
    x = network.add_input("x", trt.float32, data.shape)
    layer = network.add_gather(x, constant(network, places), axis)
    layer.num_elementwise_dims = 1
    network.mark_output(layer.get_output(0))
    wanted = np.stack([np.take(d, p, axis - 1) for d, p in zip(data, places, strict=True)])
    assert (outputs_of(network, log, x=data)[0] == wanted).all()


def test_gather_nd_with_int32_indices(network, log, x) -> None:
    layer = network.add_gather_v2(x, constant(network, np.int32([[0, 1, 2], [0, 0, 1]])), trt.GatherMode.ND)
    network.mark_output(layer.get_output(0))
    assert (outputs_of(network, log, x=X)[0] == X[[0, 0], [1, 0], [2, 1]]).all()


@pytest.mark.parametrize("side", [0, 1])
def test_a_product_with_vectors(network, log, side) -> None:
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    v = np.arange(6 if side == 0 else 8, dtype=np.float32).reshape(2, -1)
    m, vector = network.add_input("m", trt.float32, a.shape), network.add_input("v", trt.float32, v.shape)
    none, vector_op = trt.MatrixOperation.NONE, trt.MatrixOperation.VECTOR
    pair = (vector, vector_op, m, none) if side == 0 else (m, none, vector, vector_op)
    network.mark_output(network.add_matrix_multiply(*pair).get_output(0))
    wanted = np.einsum("bi,bij->bj", v, a) if side == 0 else np.einsum("bij,bj->bi", a, v)
    assert (outputs_of(network, log, m=a, v=v)[0] == wanted).all()


def test_names_of_tensorrt_8_do_what_they_say(network, log, x) -> None:
    kernel = np.ones((1, 2, 2, 2), np.float32)
    old = network.add_convolution(x, 1, (2, 2), kernel)
    old.stride, old.padding, old.dilation = (1, 2), (1, 1), (2, 2)
    new = network.add_convolution_nd(x, 1, (2, 2), kernel)
    new.stride_nd, new.padding_nd, new.dilation_nd = (1, 2), (1, 1), (2, 2)
    padding = network.add_padding(x, (0, 0), (0, 0))
    padding.pre_padding, padding.post_padding = (1, 2), (3, 0)
    for layer in (old, new, padding):
        network.mark_output(layer.get_output(0))
    a, b, c = outputs_of(network, log, x=X)
    assert a.shape == (1, 1, 3, 2) and (a == b).all()
    assert (c == np.pad(X, ((0, 0), (0, 0), (1, 3), (2, 0)))).all()


def test_align_corners_is_the_coordinate_transformation(network, log, x) -> None:
    layer = network.add_resize(x)
    layer.shape, layer.resize_mode, layer.align_corners = (1, 2, 5, 7), trt.ResizeMode.LINEAR, True
    assert layer.coordinate_transformation == trt.ResizeCoordinateTransformation.ALIGN_CORNERS
    network.mark_output(layer.get_output(0))
    resized = outputs_of(network, log, x=X)[0]
    assert (resized[..., ::4, ::6] == X[..., ::2, ::3]).all() and np.allclose(
        resized[0, 0, 0], np.arange(7) / 2
    )


def test_round_up_on_a_convolution(network, log, x) -> None:
    layer = network.add_convolution_nd(x, 1, (2, 2), np.ones((1, 2, 2, 2), np.float32))
    layer.stride_nd, layer.padding_mode = (2, 2), trt.PaddingMode.EXPLICIT_ROUND_UP
    network.mark_output(layer.get_output(0))
    assert layer.get_output(0).shape == (1, 1, 2, 2)
    assert outputs_of(network, log, x=X)[0][0, 0, 1, 0] == X[0, :, 2, :2].sum()


@pytest.mark.parametrize("groups", [1, 2])
def test_normalization_of_instances_and_groups(network, log, groups) -> None:
    data = np.random.default_rng(0).standard_normal((2, 4, 3, 3)).astype(np.float32)
    x = network.add_input("x", trt.float32, data.shape)
    count = 4 if groups == 1 else groups
    scale = np.arange(1, count + 1, dtype=np.float32).reshape(1, count, 1, 1)
    layer = network.add_normalization(x, constant(network, scale), constant(network, -scale), 1 << 2 | 1 << 3)
    layer.num_groups = groups
    network.mark_output(layer.get_output(0))
    flat = data.reshape(2, 4 if groups == 1 else groups, -1)
    normal = (flat - flat.mean(-1, keepdims=True)) / np.sqrt(flat.var(-1, keepdims=True) + 1e-5)
    wanted = normal * scale.reshape(1, -1, 1) - scale.reshape(1, -1, 1)
    assert np.allclose(outputs_of(network, log, x=data)[0].reshape(wanted.shape), wanted, atol=1e-5)


def test_a_constant_may_be_an_output(network, log, x) -> None:
    network.mark_output(constant(network, X))
    network.mark_output(network.add_identity(x).get_output(0))
    assert (outputs_of(network, log, x=X)[0] == X).all()


def test_shape_arithmetic_with_int32_follows_the_dialect(log, x, network) -> None:
    def sizes(network: trt.INetworkDefinition, x: trt.ITensor) -> trt.ITensor:
        shape = network.add_shape(x).get_output(0)
        return network.add_elementwise(
            shape, ints(network, 1, 1, 1, 2), trt.ElementWiseOperation.PROD
        ).get_output(0)

    network.mark_output(sizes(network, x))
    builder = trt.Builder(log)
    assert builder.build_engine(network, builder.create_builder_config()) is None
    assert "trt.set_dialect('8.x')" in log.of("ERROR")[0]
    trt.set_dialect("8.x")
    old = builder.create_network()
    old.mark_output(sizes(old, old.add_input("x", trt.float32, X.shape)))
    assert outputs_of(old, log, x=X)[0].tolist() == [1, 2, 3, 8]


def test_floors_of_integers_are_floors(network, log) -> None:
    a, b = np.int32([7, -7, 7, -7]), np.int32([2, 2, -2, -2])
    x, y = (network.add_input(name, trt.int32, (4,)) for name in "xy")
    network.mark_output(network.add_elementwise(x, y, trt.ElementWiseOperation.FLOOR_DIV).get_output(0))
    assert (outputs_of(network, log, x=a, y=b)[0] == a // b).all()


def test_tensorrt_8_has_sums_of_two_operands_at_most(network, log) -> None:
    a, b, c = (network.add_input(name, trt.float32, (2, 2)) for name in "abc")
    network.mark_output(network.add_einsum([a, b, c], "ij,jk,kl->il").get_output(0))
    value = np.float32([[1, 2], [3, 4]])
    assert (outputs_of(network, log, a=value, b=value, c=value)[0] == value @ value @ value).all()
    trt.set_dialect("8.x")
    builder = trt.Builder(log)
    refused = builder.create_network(0)
    a, b, c = (refused.add_input(name, trt.float32, (2, 2)) for name in "abc")
    refused.mark_output(refused.add_einsum([a, b, c], "ij,jk,kl->il").get_output(0))
    assert builder.build_serialized_network(refused, builder.create_builder_config()) is None
    assert "trt.set_dialect('10.x')" in log.of("ERROR")[-1]


def test_nonzero_gives_its_output_through_an_allocator(network, log) -> None:
    x = network.add_input("x", trt.float32, (2, 3))
    network.add_non_zero(x).get_output(0).name = "y"
    network.mark_output(network.layers[-1].get_output(0))
    builder = trt.Builder(log)
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    engine = trt.Runtime(log).deserialize_cuda_engine(plan)
    context = engine.create_execution_context()
    assert context.get_tensor_shape("y") == (2, -1)

    class Allocator(trt.IOutputAllocator):
        def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
            self.memory = np.empty(size // 4, np.int32)
            return self.memory.ctypes.data

        def notify_shape(self, tensor_name: str, shape: trt.Dims) -> None:
            self.shape = shape

    allocator, data = Allocator(), np.float32([[0, 1, 0], [2, 0, 3]])
    context.set_tensor_address("x", data.ctypes.data)
    context.set_output_allocator("y", allocator)
    assert context.execute_async_v3(0), log.messages
    assert (allocator.memory.reshape(allocator.shape) == np.nonzero(data)).all()


def test_an_output_never_takes_more_memory_than_was_promised(network, log) -> None:
    x = network.add_input("x", trt.float32, (400,))
    two = network.add_constant((1,), np.float32([2])).get_output(0)
    above = network.add_elementwise(x, two, trt.ElementWiseOperation.SUB).get_output(0)
    rectified = network.add_activation(above, trt.ActivationType.RELU).get_output(0)
    network.mark_output(network.add_non_zero(rectified).get_output(0))
    network.get_output(0).name = "y"
    builder = trt.Builder(log)
    engine = builder.build_engine(network, builder.create_builder_config())
    context = engine.create_execution_context()
    promised, out = context.get_max_output_size("y"), np.zeros(400, np.int32)
    assert promised < 400 * 4  # zeros and ones are not above two
    context.set_tensor_address("y", out.ctypes.data)
    for many in (400, 3):
        data = np.zeros(400, np.float32)
        data[:many] = 5
        context.set_tensor_address("x", data.ctypes.data)
        assert context.execute_async_v3(0) == (many == 3)
    assert f"at most {promised}, what memory was for" in log.of("ERROR")[0]
    assert (out[:3] == [0, 1, 2]).all()
    context.set_tensor_address("y", np.zeros(2, np.int32))
    assert not context.execute_async_v3(0) and "at most 8" in log.of("ERROR")[-1]


def test_an_input_that_holds_sizes(network, log, x) -> None:
    sizes = network.add_input("sizes", trt.int32, (4,))
    layer = network.add_slice(x, (0, 0, 0, 0), (0, 0, 0, 0), (1, 1, 1, 1))
    layer.set_input(2, sizes)
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    builder = trt.Builder(log)
    engine = builder.build_engine(network, builder.create_builder_config())
    context = engine.create_execution_context()
    assert engine.is_shape_inference_io("sizes") and context.infer_shapes() == ["sizes"]
    context.set_tensor_address("sizes", np.int32([1, 2, 2, 3]))
    assert context.get_tensor_shape("y") == (1, 2, 2, 3)
    out = np.empty((1, 2, 2, 3), np.float32)
    context.set_tensor_address("x", X)
    context.set_tensor_address("y", out)
    assert context.execute_async_v3(0) and (out == X[:, :, :2, :3]).all()


def test_a_false_assertion_fails_the_build_or_the_run(network, log, x) -> None:
    flag = network.add_input("flag", trt.bool, (1,))
    network.add_assertion(flag, "flag must hold")
    network.mark_output(network.add_identity(x).get_output(0))
    builder = trt.Builder(log)
    engine = builder.build_engine(network, builder.create_builder_config())
    context, out = engine.create_execution_context(), np.empty_like(X)
    assert context.execute_v2([X, np.array([True]), out])
    assert not context.execute_v2([X, np.array([False]), out])
    assert "flag must hold" in log.of("ERROR")[-1]
    network.add_assertion(constant(network, np.array([False])), "never")
    assert builder.build_engine(network, builder.create_builder_config()) is None
    assert "never" in log.of("ERROR")[-1]


@pytest.mark.parametrize("most", [0, 100, 1 << 30])
def test_an_engine_goes_into_a_stream_piece_by_piece(most, network, log, x) -> None:
    class Writer(trt.IStreamWriter):
        data = b""

        def write(self, data: memoryview) -> int:
            self.data += data[:most]
            return min(most, len(data))

    network.mark_output(network.add_identity(x).get_output(0))
    builder, writer = trt.Builder(log), Writer()
    written = builder.build_serialized_network_to_stream(network, builder.create_builder_config(), writer)
    assert written == (most > 0)
    if written:
        assert trt.Runtime(log).deserialize_cuda_engine(writer.data).num_io_tensors == 2
    else:
        assert "took 0 of" in log.of("ERROR")[-1]


def test_the_compiler_of_cuda_is_there_and_compiles_nothing() -> None:
    from intact.trt.host import nvrtc

    error, _ = nvrtc.nvrtcCreateProgram(b"code", b"name", 0, [], [])
    assert error != 0 and b"no GPU" in nvrtc.nvrtcGetErrorString(error)[1]


def test_boxes_come_batch_by_batch_the_best_first(network, log) -> None:
    rng = np.random.default_rng(4)
    corners = np.arange(6, dtype=np.float32) * 10  # apart from each other: all remain
    boxes = np.broadcast_to(np.stack([corners, corners, corners + 1, corners + 1], -1), (2, 6, 4)).copy()
    scores = rng.permutation(np.linspace(0.1, 0.9, 36, dtype=np.float32)).reshape(2, 6, 3)
    layer = network.add_nms(
        network.add_input("boxes", trt.float32, boxes.shape),
        network.add_input("scores", trt.float32, scores.shape), constant(network, np.int32(6)),
    )  # fmt: skip
    for i in (0, 1):
        network.mark_output(layer.get_output(i))
    boxes_kept, count = outputs_of(network, log, boxes=boxes, scores=scores)
    scores_kept = [scores[batch, box, kind] for batch, kind, box in boxes_kept]
    assert count == 36 and boxes_kept[:, 0].tolist() == [0] * 18 + [1] * 18
    assert (np.diff(scores_kept[:18]) < 0).all() and (np.diff(scores_kept[18:]) < 0).all()
    empty = outputs_of(network, log, boxes=boxes, scores=scores - 2)
    assert empty[0].shape == (0, 3) and empty[1] == 0, "a score must exceed 0"
