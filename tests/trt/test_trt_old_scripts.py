"""Regressions of public scripts of TensorRT 7 and 8, where no page documents the behaviour."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model
from tests.trt.networks import constant, ints, outputs_of

import intact.trt as trt

X = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)


class Batches(trt.IInt8EntropyCalibrator2):
    """Hands out arrays, and keeps the cache."""

    def __init__(self, arrays: list[np.ndarray], size: int = 1) -> None:
        super().__init__()
        self.arrays, self.size, self.cache = iter(arrays), size, b""
        self.batches: list[np.ndarray] = []

    def get_batch_size(self) -> int:
        return self.size

    def get_batch(self, names: list[str]) -> list | None:
        array = next(self.arrays, None)
        if array is None:
            return None
        self.batches.append(np.ascontiguousarray(array))
        return [self.as_batch(self.batches[-1])]

    def as_batch(self, array: np.ndarray) -> object:
        return array

    def write_calibration_cache(self, cache: memoryview) -> None:
        self.cache = cache.tobytes()


def int8(log: trt.ILogger, calibrator: trt.IInt8Calibrator) -> trt.IBuilderConfig:
    config = trt.Builder(log).create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = calibrator
    return config


def test_a_logger_opens_a_block() -> None:
    with trt.Logger(trt.Logger.ERROR) as logger, trt.Builder(logger) as builder:
        assert builder.logger is logger and logger.min_severity == trt.Logger.ERROR


def test_old_names_of_verbosities_and_networks(network) -> None:
    assert trt.ProfilingVerbosity.VERBOSE == trt.ProfilingVerbosity.DETAILED
    assert trt.ProfilingVerbosity.DEFAULT == trt.ProfilingVerbosity.LAYER_NAMES_ONLY
    assert trt.PluginFieldCollection_ is trt.PluginFieldCollection
    assert not network.has_explicit_precision
    flag = 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_PRECISION)
    assert trt.Builder(network.logger).create_network(flag).has_explicit_precision


def test_dims_are_set_one_by_one_and_a_layer_keeps_what_it_was_given(network, log) -> None:
    x = network.add_input("x", trt.float32, X.shape)
    start, shape = trt.Dims([0, 0, 0, 0]), trt.Dims([1, 2, 1, 4])
    layers = []
    for row in (0, 2):
        start[2] = row
        layers.append(network.add_slice(x, start, shape, trt.Dims4(1, 1, 1, 1)))
        network.mark_output(layers[-1].get_output(0))
    assert layers[0].start == (0, 0, 0, 0) and layers[1].start == (0, 0, 2, 0)
    first, last = outputs_of(network, log, x=X)
    assert (first == X[:, :, :1]).all() and (last == X[:, :, 2:]).all()


def test_dims_compare_and_print_as_tuples() -> None:
    dims = trt.Dims([1, 2])
    assert dims == (1, 2) and dims != (1, 3) and dims == trt.Dims(1, 2) and str(dims) == "(1, 2)"


class Traced(int):
    """An integer as converters have it, which records what is computed with it."""

    def __mul__(self, other: object) -> int:
        raise AssertionError("a network computes with integers of its own")

    __add__ = __sub__ = __rmul__ = __radd__ = __mul__


def test_sizes_may_be_integers_of_any_kind(network, log) -> None:
    sizes = [Traced(n) for n in X.shape]
    x = network.add_input("x", trt.float32, sizes)
    shape = [Traced(1), Traced(2), Traced(1), Traced(4)]
    layer = network.add_slice(x, [np.int64(0)] * 4, shape, (Traced(1),) * 4)
    network.mark_output(layer.get_output(0))
    assert all(type(n) is int for n in (*x.shape, *layer.shape, *layer.start))
    assert (outputs_of(network, log, x=X)[0] == X[:, :, :1]).all()


def test_a_stride_of_zero_repeats(network, log) -> None:
    x = network.add_input("x", trt.float32, (3, 1, 2))
    data = np.arange(6, dtype=np.float32).reshape(3, 1, 2)
    whole = network.add_slice(x, (0, 0, 1), (3, 4, 5), (1, 0, 0))
    some = network.add_slice(x, (2,), (4,), (0,))
    some.axes = (0,)
    wired = network.add_slice(x, (0, 0, 0), (1, 1, 1), (1, 1, 1))
    wired.set_input(2, ints(network, 3, 2, 2))
    wired.set_input(3, ints(network, 1, 0, 1))
    for layer in (whole, some, wired):
        network.mark_output(layer.get_output(0))
    assert whole.get_output(0).shape == (3, 4, 5)
    got = outputs_of(network, log, x=data)
    assert (got[0] == np.broadcast_to(data[:, :, 1:], (3, 4, 5))).all()
    assert (got[1] == np.broadcast_to(data[2:], (4, 1, 2))).all()
    assert (got[2] == np.broadcast_to(data, (3, 2, 2))).all()


def test_a_stride_that_a_run_tells_may_be_zero(network, log) -> None:
    x = network.add_input("x", trt.float32, (3, 1))
    like = network.add_input("like", trt.float32, (3, 1))
    single = network.add_shape(like).get_output(0)
    less = network.add_elementwise(
        single, constant(network, np.array([2, 1])), trt.ElementWiseOperation.SUB
    ).get_output(0)
    layer = network.add_slice(x, (0, 0), (3, 4), (1, 1))
    layer.set_input(3, less)  # (3, 1) - (2, 1)
    network.mark_output(layer.get_output(0))
    data = np.arange(3, dtype=np.float32).reshape(3, 1)
    assert (outputs_of(network, log, x=data, like=data)[0] == np.broadcast_to(data, (3, 4))).all()


@pytest.mark.parametrize(
    ("algorithm", "named"),
    [
        (trt.CalibrationAlgoType.ENTROPY_CALIBRATION_2, trt.IInt8EntropyCalibrator2),
        (trt.CalibrationAlgoType.ENTROPY_CALIBRATION, trt.IInt8EntropyCalibrator),
        (trt.CalibrationAlgoType.MINMAX_CALIBRATION, trt.IInt8MinMaxCalibrator),
        (trt.CalibrationAlgoType.LEGACY_CALIBRATION, trt.IInt8LegacyCalibrator),
    ],
)
def test_a_calibrator_says_itself_which_it_is(small, log, algorithm, named) -> None:
    assert _table(small, log, trt.IInt8Calibrator, algorithm) == _table(small, log, named, None)


def test_a_calibrator_that_does_not_say_ends_the_build(small, log) -> None:
    with pytest.raises(AssertionError):
        _table(small, log, trt.IInt8Calibrator, None)
    assert "must define get_algorithm" in "".join(log.of("ERROR"))


def _table(small, log, base: type, algorithm: object) -> bytes:
    noise = np.random.default_rng(0).standard_normal((2, 4, 16, 8, 8)).astype(np.float32)

    class One(base):
        cache = b""

        def __init__(self) -> None:
            super().__init__()
            self.left = list(noise)

        def get_batch_size(self) -> int:
            return 4

        def get_batch(self, names: list[str]) -> list | None:
            return [self.left.pop()] if self.left else None

        def write_calibration_cache(self, cache: memoryview) -> None:
            self.cache = cache.tobytes()

    if algorithm is not None:
        One.get_algorithm = lambda self: algorithm
    calibrator = One()
    assert trt.Builder(log).build_serialized_network(small, int8(log, calibrator)) is not None
    return calibrator.cache


class Address:
    """As pycuda's memory: an object that is an address when it is asked."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __int__(self) -> int:
        return self.array.ctypes.data


def test_a_batch_may_be_an_object_that_stands_for_an_address(small, log) -> None:
    noise = np.random.default_rng(0).standard_normal((2, 4, 16, 8, 8)).astype(np.float32)

    class Objects(Batches):
        def as_batch(self, array: np.ndarray) -> object:
            return Address(array)

    plain, objects = Batches(list(noise), 4), Objects(list(noise), 4)
    for calibrator in (plain, objects):
        assert trt.Builder(log).build_serialized_network(small, int8(log, calibrator)) is not None
    assert plain.cache == objects.cache


def test_free_sizes_behind_addresses_are_the_calibration_profiles(small, log) -> None:
    noise = np.random.default_rng(0).standard_normal((2, 4, 16, 8, 8)).astype(np.float32)

    class Silent(Batches):
        def as_batch(self, array: np.ndarray) -> object:
            return array.ctypes.data

    sized, silent = Silent(list(noise), 4), Silent(list(noise), -1)
    for calibrator in (sized, silent):
        config = int8(log, calibrator)
        profile = trt.Builder(log).create_optimization_profile()
        profile.set_shape("x", (1, 16, 8, 8), (4, 16, 8, 8), (8, 16, 8, 8))
        config.add_optimization_profile(profile)
        assert trt.Builder(log).build_serialized_network(small, config) is not None
    assert sized.cache == silent.cache
    config = int8(log, Silent(list(noise), -1))
    assert trt.Builder(log).build_serialized_network(small, config) is None
    assert "get_batch_size" in log.of("ERROR")[-1]


def flatten_model() -> bytes:
    """x [1, 2, 3, 4], flattened to [1, 2, 12] by its own sizes, as PyTorch's older exporter wrote it."""
    numbers = {"zero": [0], "two": [2], "rest": [-1]}
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Shape", ["r"], ["s"]),
        *(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value)))
          for name, value in numbers.items()),
        helper.make_node("Slice", ["s", "zero", "two", "zero"], ["outer"]),
        helper.make_node("Concat", ["outer", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["r", "to"], ["y"]),
    ]  # fmt: skip
    model = onnx_model(
        nodes,
        {"x": (TensorProto.FLOAT, X.shape)},
        {"y": (TensorProto.FLOAT, (1, 2, 12))},
        opset=13,
        ir_version=8,
    )
    onnx.checker.check_model(model)
    return model.SerializeToString()


def test_sizes_that_a_file_computes_are_known_behind_the_parser(network, log) -> None:
    assert trt.OnnxParser(network, log).parse(flatten_model())
    last = network.get_output(0)
    assert last.shape == (1, 2, 12)
    network.unmark_output(last)
    layer = network.add_slice(last, (0, 0, 0), (1, 2, 5), (1, 1, 1))
    network.mark_output(layer.get_output(0))
    assert (outputs_of(network, log, x=X)[0] == X.reshape(1, 2, 12)[:, :, :5]).all()


def test_the_alias_has_a_file() -> None:
    from pathlib import Path

    from intact.trt.alias import alias

    alias()
    import tensorrt

    assert Path(tensorrt.__file__).exists()


def test_arrays_of_pycuda_are_host_memory(network, log) -> None:
    from intact.trt.alias import alias

    alias()
    import pycuda.gpuarray as gpuarray

    x = network.add_input("x", trt.float32, X.shape)
    network.mark_output(network.add_activation(x, trt.ActivationType.RELU).get_output(0))
    engine = trt.Builder(log).build_engine(network, trt.Builder(log).create_builder_config())
    array_in, array_out = gpuarray.to_gpu(X - 5), gpuarray.empty(X.shape, np.float32)
    assert engine.create_execution_context().execute_v2([array_in.ptr, int(array_out)])
    assert (array_out.get() == np.maximum(X - 5, 0)).all()
    array_in.set_async(-X, None)
    assert (array_in.reshape(-1).get_async(None, np.empty(24, np.float32)) == -X.reshape(-1)).all()
    assert (
        gpuarray.zeros_like(array_in).fill(2).get().sum() == 48
        and array_in.nbytes == X.nbytes
        and len(array_in) == 1
    )
    with pytest.raises(ValueError, match="reshape"):
        array_in.set(X[..., :2])


@pytest.fixture
def implicit(log) -> trt.INetworkDefinition:
    """TensorRT 8's network without a batch axis: convolution, scales of channels, pool, product."""
    trt.set_dialect("8.x")
    network = trt.Builder(log).create_network()
    rng = np.random.default_rng(0)
    x = network.add_input("x", trt.float32, (16, 8, 8))
    kernel = rng.standard_normal((16, 16, 3, 3)).astype(np.float32)
    conv = network.add_convolution(x, 16, (3, 3), kernel, trt.Weights())
    conv.padding = (1, 1)
    scale = network.add_scale(
        conv.get_output(0), trt.ScaleMode.CHANNEL, np.arange(16, dtype=np.float32), np.ones(16, np.float32)
    )
    pool = network.add_pooling(scale.get_output(0), trt.PoolingType.MAX, trt.DimsHW(2, 2))
    pool.stride = (2, 2)
    weights = rng.standard_normal((5, 256)).astype(np.float32)
    dense = network.add_fully_connected(pool.get_output(0), 5, weights, np.zeros(5, np.float32))
    dense.get_output(0).name = "y"
    network.mark_output(dense.get_output(0))
    return network


def test_a_network_without_a_batch_axis_runs_once_for_each_sample(network, implicit, log) -> None:
    assert implicit.has_implicit_batch_dimension and not network.has_implicit_batch_dimension
    builder = trt.Builder(log)
    builder.max_batch_size = 3
    engine = builder.build_engine(implicit, builder.create_builder_config())
    assert engine.has_implicit_batch_dimension and engine.max_batch_size == 3
    assert tuple(engine.get_binding_shape("y")) == (5, 1, 1)
    data = np.random.default_rng(1).standard_normal((3, 16, 8, 8)).astype(np.float32)
    context = engine.create_execution_context()
    got, alone = np.zeros((3, 5), np.float32), np.zeros(5, np.float32)
    assert context.execute(3, [data.ctypes.data, got.ctypes.data])
    for sample, wanted in zip(data, got, strict=True):
        assert context.execute_async(bindings=[np.ascontiguousarray(sample), alone.reshape(5, 1, 1)])
        assert (alone == wanted).all() and alone.any()
    assert not context.execute(4, [data.ctypes.data, got.ctypes.data])


def test_a_network_without_a_batch_axis_is_calibrated_by_samples(network, implicit, log) -> None:
    data = np.random.default_rng(1).standard_normal((6, 16, 8, 8)).astype(np.float32)
    single, three = Batches(list(data[:, None])), Batches([data[:3], data[3:]], 3)
    for calibrator in (single, three):
        array_out = trt.Builder(log).build_serialized_network(implicit, int8(log, calibrator))
        assert array_out is not None, log.messages
    assert single.cache and single.cache == three.cache
