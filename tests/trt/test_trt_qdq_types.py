"""Quantize and Dequantize layers of every float type, and what TensorRT refuses about them, in its log."""

from __future__ import annotations

import re
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from tests.trt.networks import constant, outputs_of

import intact.trt as trt

FLOATS = (trt.float32, trt.float16, trt.bfloat16)
STRONGLY = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
X = (np.random.default_rng(0).standard_normal((2, 8)) * 4).astype(np.float32)
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def by_name(values: object) -> str:
    return getattr(values, "name", None) or getattr(values, "__name__", str(values))


def round_to(values: np.ndarray, dtype: trt.DataType) -> np.ndarray:
    return values.astype(dtype.numpy).astype(np.float32)


def on_grid(values: np.ndarray, dtype: trt.DataType) -> np.ndarray:
    """Codes of numbers, as numbers."""
    if dtype is trt.int8:
        return np.clip(np.rint(values), -128, 127)
    if dtype is trt.int4:
        return np.clip(np.rint(values), -8, 7)
    limit = 448 if dtype is trt.fp8 else 6
    return np.clip(values, -limit, limit).astype(dtype.numpy).astype(np.float32)


CASES = [
    (kind, code, scale_type, source)
    for kind in FLOATS for code in (trt.int8, trt.fp8, trt.int4, trt.fp4)
    for scale_type in (np.float32, np.float16, ml_dtypes.bfloat16) for source in ("input", "cast", "constant")
    if code is trt.int8 or (source == "cast" and scale_type is np.float32) or kind is trt.float16
]  # fmt: skip


@pytest.mark.rule("N14")
@pytest.mark.parametrize(("kind", "code", "scale_type", "source"), CASES, ids=by_name)
def test_floats_of_any_type_are_quantized(kind, code, scale_type, source, log) -> None:
    trt.set_dialect("10.x")  # a scale of 16 bits and another type than the data is for weakly typed networks
    is_strongly_typed = source == "cast" and scale_type in (np.float32, kind.numpy.type)
    network = trt.Builder(log).create_network(STRONGLY if is_strongly_typed else 0)
    fed = network.add_input("x", kind if source == "input" else trt.float32, X.shape)
    if source == "constant":
        x = constant(network, X.astype(kind.numpy))
    else:
        x = fed if source == "input" else network.add_cast(fed, kind).get_output(0)
    scale = constant(network, np.array(0.125, scale_type))
    codes = network.add_quantize(x, scale, code).get_output(0)
    assert codes.dtype is code
    y = network.add_dequantize(codes, scale, kind).get_output(0)
    assert y.dtype is kind
    network.mark_output(y)
    stored = np.float16 if source == "input" and kind is trt.float16 else np.float32
    engine = trt.Builder(log).build_engine(network, trt.Builder(log).create_builder_config())
    assert engine.get_tensor_dtype(y.name) is kind
    result = engine.engine.run({"x": round_to(X, kind).astype(stored) if source == "input" else X})[y.name]
    assert (round_to(result, kind) == round_to(on_grid(round_to(X, kind) * 8, code) / 8, kind)).all()


@pytest.mark.parametrize("shape", [(), (8,), (2, 1), (2, 2)], ids=str)
def test_codes_of_fp4_have_scales_of_tensors_channels_and_blocks(shape, log) -> None:
    network = trt.Builder(log).create_network()
    fed = network.add_input("x", trt.float32, X.shape)
    scales = (np.arange(np.prod(shape, dtype=int)).reshape(shape) + 1).astype(np.float32) / 4
    scale, weights = constant(network, scales), constant(network, X)
    q = network.add_quantize(weights, scale, trt.fp4)
    d = network.add_dequantize(q.get_output(0), scale, trt.float32)
    q.axis = d.axis = 1
    total = network.add_elementwise(fed, d.get_output(0), trt.ElementWiseOperation.SUM).get_output(0)
    network.mark_output(total)
    full = np.repeat(scales, 8 // shape[1], 1) if len(shape) == 2 else scales
    (result,) = outputs_of(network, log, x=np.zeros_like(X))
    assert (result == on_grid(X / full, trt.fp4) * full).all()


def test_codes_of_fp4_are_an_output_of_half_a_byte_each(log) -> None:
    network = trt.Builder(log).create_network()
    x = network.add_input("x", trt.float32, (8,))
    codes = network.add_quantize(x, constant(network, np.float32(0.5)), trt.fp4).get_output(0)
    network.mark_output(codes)
    builder = trt.Builder(log)
    data = builder.build_serialized_network(network, builder.create_builder_config())
    engine = trt.Runtime(log).deserialize_cuda_engine(data)
    assert engine.get_tensor_dtype(codes.name) is trt.fp4
    context, memory = engine.create_execution_context(), np.full(5, 0xEE, np.uint8)
    values = FP4 * np.float32(0.5)
    assert context.execute_v2([values.ctypes.data, memory.ctypes.data])
    assert memory.tolist() == [0x10, 0x32, 0x54, 0x76, 0xEE]


Build = Callable[[trt.INetworkDefinition, trt.ITensor], trt.ITensor]


def quantize(scale: object, axis: int = -1, points: object = None, code=trt.int8) -> Build:
    def build(network: trt.INetworkDefinition, x: trt.ITensor) -> trt.ITensor:
        factor = constant(network, scale)
        q = network.add_quantize(x, factor, code)
        q.axis = axis
        if points is not None:
            q.set_input(2, constant(network, points))
        d = network.add_dequantize(q.get_output(0), factor)
        d.axis = axis
        return d.get_output(0)

    return build


def ones(count: int) -> np.ndarray:
    return np.full(count, 0.1, np.float32)


def of_type(build: Build, dtype: trt.DataType) -> Build:
    return lambda network, x: build(network, network.add_cast(x, dtype).get_output(0))


REFUSED = {
    "axis beyond the rank": (quantize(ones(4), 9), "axis 9 is out of range for a tensor of 4 dimensions"),
    "too few scales": (quantize(ones(3), 1), "number of scales.*3 scales, and axis 1 has 4 channels"),
    "too many scales": (quantize(ones(8), 0), "number of scales.*8 scales, and axis 0 has 1 channels"),
    "no axis": (quantize(ones(4)), "unexpected negative axis"),
    "an axis from behind": (quantize(ones(8), -2), "unexpected negative axis"),
    "no scale": (quantize(ones(0), 1), "Cannot have scale with no coefficients"),
    "scale of zero": (quantize(np.float32(0)), "Scale coefficients must all be positive"),
    "scale of int32": (quantize(np.int32(1)), "the scale has the type int32"),
    "rank of scales": (quantize(np.ones((2, 2), np.float32)), "Invalid rank for the scale tensor"),
    "odd rows of 4 bits": (quantize(np.float32(1), code=trt.fp4), "odd last dimension"),
    "codes of int32": (quantize(np.float32(1), code=trt.int32), "only allows FP8, INT8"),
    "integers": (of_type(quantize(np.float32(1)), trt.int32), "the input has the type INT32"),
    "codes": (of_type(quantize(np.float32(1)), trt.int8), "the input has the type INT8"),
    "zero points": (quantize(np.float32(1), points=np.int8(3)), "zero point must be all zeros"),
    "volume": (quantize(np.float32(1), points=np.zeros(2, np.int8)), "must have the same volume"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("read", [False, True], ids=["", "shape read"])
def test_what_tensorrt_refuses_is_a_line_of_the_log_and_none(name, read, log) -> None:
    build, message = REFUSED[name]
    network = trt.Builder(log).create_network()
    y = build(network, network.add_input("x", trt.float32, (1, 4, 8, 7 if "odd" in name else 8)))
    if read:
        _ = y.shape, y.dtype
        log.messages.clear()
    network.mark_output(network.add_unary(y, trt.UnaryOperation.ABS).get_output(0))
    builder = trt.Builder(log)
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    errors = log.of("ERROR")  # of the Quantize layer, and of the Dequantize layer where it has shapes
    assert 1 <= len(errors) <= 2 and all(error.startswith("(Unnamed Layer* ") for error in errors)
    assert re.search(message, errors[0])


def test_layers_that_contradict_each_other_have_no_shape_and_a_line_in_the_log(log) -> None:
    network = trt.Builder(log).create_network()
    x = network.add_input("x", trt.float32, (2, 3))
    y = network.add_concatenation([x, constant(network, np.zeros((4, 5), np.float32))])
    y.axis = 0
    assert y.get_output(0).shape == () and y.get_output(0).dtype is trt.float32
    assert "has no type and shape" in log.of("ERROR")[0]
    network.mark_output(y.get_output(0))
    builder = trt.Builder(log)
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None


class Legacy(trt.IInt8LegacyCalibrator):
    """As TensorRT documents it; each answer may raise."""

    def __init__(self, fails: str = "", cache: object = None) -> None:
        trt.IInt8LegacyCalibrator.__init__(self)
        self.batches = [np.random.default_rng(i).standard_normal((1, 3, 8, 8), np.float32) for i in range(3)]
        self.fails, self.cache, self.written = fails, cache, 0

    def answer(self, name: str, value: object) -> object:
        if name == self.fails:
            raise RuntimeError(name)
        return value

    def get_batch_size(self) -> int:
        return 1

    def get_batch(self, names: list[str]) -> list[int] | None:
        if not self.batches:
            return None
        self.batch = self.batches.pop()
        return [self.batch.ctypes.data]

    def get_quantile(self) -> float:
        return self.answer("get_quantile", 0.9999)

    def get_regression_cutoff(self) -> float:
        return self.answer("get_regression_cutoff", 1.0)

    def read_histogram_cache(self, length: int) -> object:
        return self.answer("read_histogram_cache", self.cache)

    def write_histogram_cache(self, ptr: int, length: int) -> None:
        self.written = self.answer("write_histogram_cache", length)


def build_with(calibrator: trt.IInt8Calibrator, log) -> trt.IHostMemory | None:
    builder = trt.Builder(log)
    network, config = builder.create_network(), builder.create_builder_config()
    x = network.add_input("x", trt.float32, (1, 3, 8, 8))
    kernel = np.random.default_rng(9).standard_normal((4, 3, 3, 3), np.float32)
    network.mark_output(
        network.add_convolution_nd(x, 4, (3, 3), kernel, np.zeros(4, np.float32)).get_output(0)
    )
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = calibrator
    return builder.build_serialized_network(network, config)


def test_a_legacy_calibrator_of_tensorrts_signature_is_built(log) -> None:
    calibrator = Legacy()
    assert build_with(calibrator, log) is not None and calibrator.written > 0
    for cache in (b"not a cache", np.zeros(3, np.uint8), 4096):
        assert build_with(Legacy(cache=cache), log) is not None
    assert sum("calibrating anew" in message for message in log.of("WARNING")) == 3


@pytest.mark.parametrize(
    "name", ["get_quantile", "get_regression_cutoff", "read_histogram_cache", "write_histogram_cache"]
)
def test_what_a_legacy_calibrator_raises_is_in_the_log(name, log) -> None:
    assert build_with(Legacy(fails=name), log) is None
    assert any(f"RuntimeError: {name}" in message for message in log.of("ERROR"))


def test_a_fill_whose_alpha_is_a_list_begins_at_0_with_a_warning(log) -> None:
    network = trt.Builder(log).create_network()
    layer = network.add_fill((4,), trt.FillOperation.LINSPACE, trt.float32)
    layer.alpha, layer.beta = [1000], 2
    network.mark_output(layer.get_output(0))
    assert outputs_of(network, log)[0].tolist() == [0, 2, 4, 6]
    (warning,) = [message for message in log.of("WARNING") if "alpha" in message]
    assert "[1000] is ignored" in warning
