"""Types of outputs that a script sets, and sizes that are known before a run."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.trt.networks import constant, ints, outputs_of

import intact.trt as trt

X = np.linspace(-300, 290, 60, dtype=np.float32).reshape(3, 4, 5)


def engine_of(network: trt.INetworkDefinition, log: trt.ILogger, *profiles) -> trt.ICudaEngine:
    builder = trt.Builder(log)
    config = builder.create_builder_config()
    for profile in profiles:
        config.add_optimization_profile(profile)
    engine = builder.build_engine(network, config)
    assert engine is not None, log.messages
    return engine


def test_bfloat16_goes_in_and_out(network, log) -> None:
    x = network.add_input("x", trt.bfloat16, (3, 4, 5))
    y = network.add_elementwise(x, x, trt.ElementWiseOperation.SUM).get_output(0)
    z = network.add_cast(x, trt.bfloat16).get_output(0)
    w = network.add_identity(x).get_output(0)
    w.dtype = trt.bfloat16
    for tensor, name in ((y, "y"), (z, "z"), (w, "w")):
        tensor.name = name
        network.mark_output(tensor)
    engine = engine_of(network, log)
    kinds = [engine.get_tensor_dtype(name) for name in "xyzw"]
    assert kinds == [trt.bfloat16] * 4
    again = trt.Runtime(log).deserialize_cuda_engine(engine.serialize())
    assert again.get_tensor_dtype("z") is trt.bfloat16
    data = X.astype(ml_dtypes.bfloat16)
    out = {name: np.empty(X.shape, ml_dtypes.bfloat16) for name in "yzw"}
    context = again.create_execution_context()
    for name, array in (("x", data), *out.items()):
        assert context.set_tensor_address(name, array.ctypes.data)
    assert context.execute_async_v3(0), log.messages
    assert (out["y"] == 2 * data).all()
    assert (out["z"] == data).all() and (out["w"] == data).all()


def test_an_output_of_int8_has_codes_of_its_range(network, log) -> None:
    x = network.add_input("x", trt.float32, X.shape)
    layers = network.add_cast(x, trt.int8), network.add_identity(x)
    for layer in layers:
        layer.get_output(0).dynamic_range = (-300, 250)
        layer.get_output(0).dtype = trt.int8
        network.mark_output(layer.get_output(0))
    want = np.rint(X * (np.float32(1) / np.float32(300 / 127))).astype(np.int8)
    for output in outputs_of(network, log, x=X):
        assert output.dtype == np.int8 and (output == want).all()


def test_an_output_of_int8_without_a_range_is_refused(network, log) -> None:
    layer = network.add_unary(network.add_input("x", trt.float32, X.shape), trt.UnaryOperation.ABS)
    network.mark_output(layer.get_output(0))
    layer.get_output(0).dtype = trt.int8
    builder = trt.Builder(log)
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert "needs a range: call set_dynamic_range" in log.of("ERROR")[0]


def test_bytes_are_cast_as_cuda_casts_them(network, log) -> None:
    x = network.add_input("x", trt.float32, X.shape)
    network.mark_output(network.add_cast(x, trt.uint8).get_output(0))
    want = np.maximum(X, 0).astype(np.int64) % 256
    assert (outputs_of(network, log, x=X)[0] == want).all()


def test_topk_knows_all_sizes_but_its_own(network) -> None:
    x, k = network.add_input("x", trt.float32, X.shape), network.add_input("k", trt.int32, ())
    layer = network.add_topk(x, trt.TopKOperation.MAX, 1, 1 << 1)
    layer.set_input(1, k)
    assert layer.get_output(0).shape == layer.get_output(1).shape == (3, -1, 5)


def test_what_all_profiles_agree_on_is_known(network, log) -> None:
    x = network.add_input("x", trt.float32, X.shape)
    layer = network.add_shuffle(x)
    layer.set_input(1, network.add_input("sizes", trt.int32, (3,)))
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    profiles = [trt.Builder(log).create_optimization_profile() for _ in range(2)]
    profiles[0].set_shape_input("sizes", (5, 1, 1), (5, 4, 3), (5, 9, 9))
    profiles[1].set_shape_input("sizes", (5, 1, 1), (5, 3, 4), (5, 8, 9))
    assert engine_of(network, log, *profiles).get_tensor_shape("y") == (5, -1, -1)
    assert layer.get_output(0).shape == (-1, -1, -1), "only the build knew"


def test_sizes_are_followed_through_their_layers(network) -> None:
    x = network.add_input("x", trt.float32, (-1, 4, 5))
    sizes = network.add_shape(x).get_output(0)
    last = network.add_slice(sizes, (1,), (2,), (1,)).get_output(0)
    joined = network.add_concatenation([ints(network, 7), network.add_cast(last, trt.int32).get_output(0)])
    joined.axis = 0
    fill = network.add_fill((), trt.FillOperation.RANDOM_UNIFORM, trt.float32)
    fill.set_input(0, network.add_identity(joined.get_output(0)).get_output(0))
    assert fill.get_output(0).shape == (7, 4, 5)
    row = network.add_slice(network.add_input("row", trt.float32, (9, 9)), (0, 0), (1, 1), (1, 1))
    row.set_input(2, network.add_slice(sizes, (0,), (2,), (1,)).get_output(0))
    assert row.get_output(0).shape == (-1, 4)


def test_values_that_a_loop_keeps_know_their_other_sizes(network, log) -> None:
    loop, x = network.add_loop(), network.add_input("x", trt.float32, (-1, -1, 5))
    count = network.add_slice(network.add_shape(x).get_output(0), (1,), (1,), (1,))
    trips = network.add_shuffle(count.get_output(0))
    trips.reshape_dims = ()
    loop.add_trip_limit(network.add_cast(trips.get_output(0), trt.int32).get_output(0), trt.TripLimit.COUNT)
    state = loop.add_recurrence(constant(network, np.zeros((1, 5), np.float32)))
    turn = loop.add_iterator(x, 1).get_output(0)
    total = network.add_elementwise(state.get_output(0), turn, trt.ElementWiseOperation.SUM).get_output(0)
    state.set_input(1, total)
    every = loop.add_loop_output(total, trt.LoopOutput.CONCATENATE, 1)
    every.set_input(1, trips.get_output(0))
    every.get_output(0).name = "y"
    network.mark_output(every.get_output(0))
    assert every.get_output(0).shape == (-1, -1, 5)
    assert engine_of(network, log).get_tensor_shape("y") == (-1, -1, 5)
    data = np.random.default_rng(6).standard_normal((1, 4, 5)).astype(np.float32)
    np.testing.assert_allclose(outputs_of(network, log, x=data)[0], data.cumsum(1), rtol=1e-5)


def test_shapes_that_an_assertion_forbids_raise(network, log) -> None:
    x, y = (network.add_input(name, trt.float32, (-1, 5)) for name in "xy")
    rows = [network.add_slice(network.add_shape(t).get_output(0), (0,), (1,), (1,)) for t in (x, y)]
    same = network.add_elementwise(
        rows[0].get_output(0), rows[1].get_output(0), trt.ElementWiseOperation.EQUAL
    )
    network.add_assertion(same.get_output(0), "as many rows")
    network.mark_output(network.add_cast(same.get_output(0), trt.int32).get_output(0))
    profile = trt.Builder(log).create_optimization_profile()
    for name in "xy":
        profile.set_shape(name, (1, 5), (2, 5), (9, 5))
    context = engine_of(network, log, profile).create_execution_context()
    assert context.infer_shapes() == ["x", "y"]
    context.set_input_shape("x", (2, 5))
    context.set_input_shape("y", (3, 5))
    with pytest.raises(RuntimeError, match="as many rows"):
        context.infer_shapes()
    assert "inferShapes: assertion failed: as many rows" in log.of("ERROR")[0]
    context.set_input_shape("y", (2, 5))
    assert context.infer_shapes() == []


@pytest.mark.parametrize("transposed", [False, True])
def test_a_convolution_of_several_batch_axes(network, log, transposed) -> None:
    data = np.random.default_rng(2).standard_normal((2, 3, 4, 6, 7)).astype(np.float32)
    kernel = np.random.default_rng(3).standard_normal((4, 4, 3, 3)).astype(np.float32)
    x = network.add_input("x", trt.float32, data.shape)
    rows = network.add_input("rows", trt.float32, (6, 4, 6, 7))
    add = network.add_deconvolution_nd if transposed else network.add_convolution_nd
    for tensor in (x, rows):
        layer = add(tensor, 4, (3, 3), kernel)
        layer.stride_nd = (2, 1)
        network.mark_output(layer.get_output(0))
    output, want = outputs_of(network, log, x=data, rows=data.reshape(6, 4, 6, 7))
    assert network.get_output(0).shape == output.shape == (2, 3, *want.shape[1:])
    np.testing.assert_allclose(output.reshape(want.shape), want, rtol=1e-6, atol=1e-5)


def test_two_sizes_of_batches_that_only_a_run_fixes_are_refused(network, log) -> None:
    x = network.add_input("x", trt.float32, (-1, -1, 4, 6, 7))
    layer = network.add_convolution_nd(x, 2, (3, 3), np.ones((2, 4, 3, 3), np.float32))
    network.mark_output(layer.get_output(0))
    builder = trt.Builder(log)
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert "needs sizes that are known at the build" in log.of("ERROR")[0]


def test_a_constant_fills_a_line_as_long_as_a_vector_says(network, log) -> None:
    fill = network.add_fill((), trt.FillOperation.LINSPACE, trt.float32)
    fill.set_input(0, ints(network, 2, 3))
    fill.set_input(1, constant(network, np.float32(10)))
    fill.set_input(2, constant(network, np.float32([100, 1])))
    network.mark_output(fill.get_output(0))
    assert fill.get_output(0).shape == (2, 3)
    x = network.add_input("x", trt.float32, (1,))
    network.mark_output(network.add_identity(x).get_output(0))
    want = [[10, 11, 12], [110, 111, 112]]
    assert (outputs_of(network, log, x=np.zeros(1, np.float32))[0] == want).all()


def test_a_top_k_has_k_along_its_axis_where_a_run_fixes_the_others() -> None:
    network = trt.Builder(trt.Logger()).create_network()
    x = network.add_input("x", trt.float32, (-1, -1, 3))
    for axis, wanted in enumerate([(2, -1, 3), (-1, 2, 3), (-1, -1, 2)]):
        layer = network.add_topk(x, trt.TopKOperation.MAX, 2, 1 << axis)
        assert [tuple(layer.get_output(i).shape) for i in (0, 1)] == [wanted, wanted]
