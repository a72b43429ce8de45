"""The listings of TensorRT's Quantize pages, run as they stand; then with each rule looked at by itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import intact.trt as trt
from intact.trt.base import dialects

Fill = Callable[[trt.INetworkDefinition, trt.ITensor], trt.IDequantizeLayer]


class Said(trt.ILogger):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[tuple[str, str]] = []

    def log(self, severity: trt.ILogger.Severity, msg: str) -> None:
        self.messages.append((severity.name, msg))


@pytest.fixture
def speaking() -> Iterator[Callable[[dialects.Dialect], None]]:
    yield trt.set_dialect
    dialects._chosen.clear()


def cookbook(fill: Fill, logger: trt.ILogger) -> np.ndarray | None:
    """The frame of the cookbook's listings; `fill` is the part between its two rules."""
    nIn, cIn, hIn, wIn = 1, 3, 4, 5
    data = np.arange(nIn * cIn * hIn * wIn, dtype=np.float32).reshape(nIn, cIn, hIn, wIn)

    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    config = builder.create_builder_config()
    config.flags = 1 << int(trt.BuilderFlag.INT8)
    config.max_workspace_size = 1 << 30
    inputT0 = network.add_input("inputT0", trt.DataType.FLOAT, (nIn, cIn, hIn, wIn))
    dequantizeLayer = fill(network, inputT0)
    network.mark_output(dequantizeLayer.get_output(0))
    engineString = builder.build_serialized_network(network, config)
    if engineString is None:
        return None
    engine = trt.Runtime(logger).deserialize_cuda_engine(engineString)
    context = engine.create_execution_context()

    inputH0 = np.ascontiguousarray(data.reshape(-1))
    outputH0 = np.empty(context.get_binding_shape(1), dtype=trt.nptype(engine.get_binding_dtype(1)))
    assert context.execute_async_v2([inputH0.ctypes.data, outputH0.ctypes.data], 0)
    return outputH0


def first(network: trt.INetworkDefinition, inputT0: trt.ITensor) -> trt.IDequantizeLayer:
    constantLayer0 = network.add_constant([], np.array([60 / 127], dtype=np.float32))
    constantLayer1 = network.add_constant([], np.array([1], dtype=np.float32))

    quantizeLayer = network.add_quantize(inputT0, constantLayer0.get_output(0))
    quantizeLayer.axis = 0
    dequantizeLayer = network.add_dequantize(quantizeLayer.get_output(0), constantLayer1.get_output(0))
    dequantizeLayer.axis = 0
    return dequantizeLayer


def without_axis(network: trt.INetworkDefinition, inputT0: trt.ITensor) -> trt.IDequantizeLayer:
    constantLayer0 = network.add_constant([], np.array([60 / 127], dtype=np.float32))
    constantLayer1 = network.add_constant([], np.array([1], dtype=np.float32))
    quantizeLayer = network.add_quantize(inputT0, constantLayer0.get_output(0))
    return network.add_dequantize(quantizeLayer.get_output(0), constantLayer1.get_output(0))


def per_axis(network: trt.INetworkDefinition, inputT0: trt.ITensor) -> trt.IDequantizeLayer:
    constantLayer0 = network.add_constant([3], np.array([60 / 127, 120 / 127, 240 / 127], dtype=np.float32))
    constantLayer1 = network.add_constant([], np.array([1], dtype=np.float32))

    quantizeLayer = network.add_quantize(inputT0, constantLayer0.get_output(0))
    quantizeLayer.axis = 1
    dequantizeLayer = network.add_dequantize(quantizeLayer.get_output(0), constantLayer1.get_output(0))
    dequantizeLayer.axis = 0
    return dequantizeLayer


def zero_points(network: trt.INetworkDefinition, inputT0: trt.ITensor) -> trt.IDequantizeLayer:
    constantLayer0 = network.add_constant([3], np.array([20 / 127, 40 / 127, 60 / 127], dtype=np.float32))
    constantLayer1 = network.add_constant([], np.array([1], dtype=np.float32))
    constantLayer2 = network.add_constant([3], np.array([-60, -96, -106], dtype=np.int32))
    zeroPointLayer = network.add_identity(constantLayer2.get_output(0))
    zeroPointLayer.get_output(0).dtype = trt.DataType.INT8

    quantizeLayer = network.add_quantize(inputT0, constantLayer0.get_output(0))
    quantizeLayer.axis = 1
    quantizeLayer.set_input(0, inputT0)
    quantizeLayer.set_input(1, constantLayer0.get_output(0))
    quantizeLayer.set_input(2, zeroPointLayer.get_output(0))
    dequantizeLayer = network.add_dequantize(quantizeLayer.get_output(0), constantLayer1.get_output(0))
    dequantizeLayer.axis = 0
    return dequantizeLayer


@pytest.mark.parametrize(
    ("fill", "page"), [(first, "per_tensor"), (per_axis, "per_axis"), (zero_points, "zero_points")],
    ids=["first", "axis", "zero-points"],
)  # fmt: skip
def test_cookbook(speaking, listing_values, fill: Fill, page: str) -> None:
    speaking("8.x")
    result = cookbook(fill, trt.Logger(trt.Logger.ERROR))
    assert result is not None and (result == listing_values(page)).all()


def test_cookbook_names_the_layers_that_lack_an_axis(speaking) -> None:
    speaking("8.x")
    output = Said()
    assert cookbook(without_axis, output) is None
    errors = [m.split(" (TensorRT 8.x; trt.set_dialect('10.x')") for s, m in output.messages if s == "ERROR"]
    assert [message for message, _ in errors] == [
        "(Unnamed Layer* 2) [Quantize]: unexpected negative axis",
        "(Unnamed Layer* 3) [Dequantize]: unexpected negative axis",
    ]


def test_zero_points_have_no_effect_in_8_and_it_says_so(speaking) -> None:
    speaking("8.x")
    output = Said()
    cookbook(zero_points, output)
    assert any(s == "WARNING" and "the zero point has no effect" in m for s, m in output.messages)


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (per_axis, "Activations cannot be quantized per-channel"),
        (zero_points, "TensorRT only supports symmetric quantization. The zero point must be all zeros."),
    ],
    ids=["axis", "zero-points"],
)
def test_10_refuses_what_8_let_pass(speaking, fill: Fill, message: str) -> None:
    speaking("10.x")
    output = Said()
    assert cookbook(fill, output) is None
    assert any(s == "ERROR" and message in m for s, m in output.messages)


def run(network: trt.INetworkDefinition, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Do what the operator page's listings leave to the reader: build, run, with tensors by name."""
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    engine = trt.Runtime(logger).deserialize_cuda_engine(
        builder.build_serialized_network(network, builder.create_builder_config())
    )
    context = engine.create_execution_context()
    arrays = {}
    for i in range(engine.num_io_tensors):
        name = engine.get_tensor_name(i)
        shape, dtype = engine.get_tensor_shape(name), trt.nptype(engine.get_tensor_dtype(name))
        is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
        arrays[name] = inputs[name].astype(dtype).reshape(shape) if is_input else np.empty(shape, dtype)
        assert context.set_tensor_address(name, arrays[name].ctypes.data)
    assert context.execute_async_v3(0)
    return {name: arrays[name] for name in arrays if name not in inputs}


def test_operator_page_quantize() -> None:
    network = trt.Builder(trt.Logger(trt.Logger.ERROR)).create_network()
    in1 = network.add_input("input1", dtype=trt.float32, shape=(1, 1, 3, 3))
    scale = network.add_constant(shape=(1,), weights=np.array([1 / 127], dtype=np.float32))
    quantize = network.add_quantize(in1, scale.get_output(0))
    quantize.axis = 3
    dequantize = network.add_dequantize(quantize.get_output(0), scale.get_output(0))
    dequantize.axis = 3
    network.mark_output(dequantize.get_output(0))
    inputs = {in1.name: np.array([[[0.56, 0.89, 1.4], [-0.56, 0.39, 6.0], [0.67, 0.11, -3.6]]])}
    expected = np.array([[[0.56, 0.89, 1], [-0.56, 0.39, 1.0], [0.67, 0.11, -1.0]]])
    result = run(network, inputs)[dequantize.get_output(0).name]
    assert result.shape == dequantize.get_output(0).shape
    assert np.abs(result.reshape(expected.shape) - expected).max() < 0.01  # printed with two digits


def test_operator_page_block_quantization() -> None:
    network = trt.Builder(trt.Logger(trt.Logger.ERROR)).create_network()
    in1 = network.add_input("input1", dtype=trt.float32, shape=(1, 8))
    weights = network.add_constant(shape=(4, 8), weights=np.array([
        [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0],
        [1.1, 1.2, 2.1, 2.2, 3.1, 3.2, 4.1, 4.2],
        [4.0, 4.0, 5.0, 5.0, 6.0, 6.0, 7.0, 7.0],
        [4.1, 4.2, 5.1, 5.2, 6.1, 6.2, 7.1, 7.2],
    ], dtype=np.float32))  # fmt: skip
    scale = network.add_constant(shape=(2, 8), weights=np.array([
        [1, 1, 2, 2, 3, 3, 4, 4],
        [4, 4, 5, 5, 6, 6, 7, 7],
    ], dtype=np.float32))  # fmt: skip
    quantize = network.add_quantize(weights.get_output(0), scale.get_output(0), trt.int4)
    dequantize = network.add_dequantize(quantize.get_output(0), scale.get_output(0), trt.float32)
    network.mark_output(dequantize.get_output(0))
    result = run(network, {in1.name: np.array([[2, 2, 2, 2, 2, 2, 2, 2]])})[dequantize.get_output(0).name]
    first, second = [1, 1, 2, 2, 3, 3, 4, 4], [4, 4, 5, 5, 6, 6, 7, 7]
    assert result.tolist() == [first, first, second, second]


BEFORE = """
import numpy as np
from cuda import cudart
import tensorrt as trt

nIn, cIn, hIn, wIn = 1, 3, 4, 5
data = np.arange(nIn * cIn * hIn * wIn, dtype=np.float32).reshape(nIn, cIn, hIn, wIn)

np.set_printoptions(precision=8, linewidth=200, suppress=True)
cudart.cudaDeviceSynchronize()

logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
config = builder.create_builder_config()
config.flags = 1 << int(trt.BuilderFlag.INT8)
config.max_workspace_size = 1 << 30
inputT0 = network.add_input('inputT0', trt.DataType.FLOAT, (nIn, cIn, hIn, wIn))
"""
BETWEEN = {
    "per_tensor": """
constantLayer0 = network.add_constant([], np.array([60 / 127], dtype=np.float32))
constantLayer1 = network.add_constant([], np.array([1], dtype=np.float32))

quantizeLayer = network.add_quantize(inputT0, constantLayer0.get_output(0))
quantizeLayer.axis = 0
dequantizeLayer = network.add_dequantize(quantizeLayer.get_output(0), constantLayer1.get_output(0))
dequantizeLayer.axis = 0
""",
    "per_axis": """
constantLayer0 = network.add_constant([3], np.array([60 / 127, 120 / 127, 240 / 127], dtype=np.float32))
constantLayer1 = network.add_constant([], np.array([1], dtype=np.float32))

quantizeLayer = network.add_quantize(inputT0, constantLayer0.get_output(0))
quantizeLayer.axis = 1
dequantizeLayer = network.add_dequantize(quantizeLayer.get_output(0), constantLayer1.get_output(0))
dequantizeLayer.axis = 0
""",
    "zero_points": """
constantLayer0 = network.add_constant([3],np.array([20/127,40/127,60/127],dtype=np.float32))
constantLayer1 = network.add_constant([],np.array([1],dtype=np.float32))
constantLayer2 = network.add_constant([3],np.array([-60,-96,-106],dtype=np.int32))
zeroPointLayer = network.add_identity(constantLayer2.get_output(0))
zeroPointLayer.get_output(0).dtype = trt.DataType.INT8

quantizeLayer = network.add_quantize(inputT0,constantLayer0.get_output(0))
quantizeLayer.axis = 1
quantizeLayer.set_input(0,inputT0)
quantizeLayer.set_input(1,constantLayer0.get_output(0))
quantizeLayer.set_input(2,zeroPointLayer.get_output(0))
dequantizeLayer = network.add_dequantize(quantizeLayer.get_output(0),constantLayer1.get_output(0))
dequantizeLayer.axis = 0
""",
}
BEHIND = """
network.mark_output(dequantizeLayer.get_output(0))
engineString = builder.build_serialized_network(network, config)
engine = trt.Runtime(logger).deserialize_cuda_engine(engineString)
context = engine.create_execution_context()
_, stream = cudart.cudaStreamCreate()

inputH0 = np.ascontiguousarray(data.reshape(-1))
outputH0 = np.empty(context.get_binding_shape(1), dtype=trt.nptype(engine.get_binding_dtype(1)))
_, inputD0 = cudart.cudaMallocAsync(inputH0.nbytes, stream)
_, outputD0 = cudart.cudaMallocAsync(outputH0.nbytes, stream)

cudart.cudaMemcpyAsync(inputD0, inputH0.ctypes.data, inputH0.nbytes, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, stream)
context.execute_async_v2([int(inputD0), int(outputD0)], stream)
cudart.cudaMemcpyAsync(outputH0.ctypes.data, outputD0, outputH0.nbytes, cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, stream)
cudart.cudaStreamSynchronize(stream)

print("inputH0 :", data.shape)
print(data)
print("outputH0:", outputH0.shape)
print(outputH0)

cudart.cudaStreamDestroy(stream)
cudart.cudaFree(inputD0)
cudart.cudaFree(outputD0)
"""  # noqa: E501


@pytest.mark.parametrize("page", BETWEEN)
def test_cookbook_as_it_stands(page: str, listing_values, tmp_path: Path) -> None:
    """A process of its own, in which nobody chooses a dialect."""
    script = tmp_path / "listing.py"
    script.write_text(BEFORE + BETWEEN[page] + BEHIND, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "INTACT_TRT_DIALECT"}
    done = subprocess.run(
        [sys.executable, "-m", "intact.trt", str(script)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    values = done.stdout.partition("outputH0: (1, 3, 4, 5)")[2]
    assert re.findall(r"-?\d+\.\d*", values) == [f"{value}." for value in listing_values(page).reshape(-1)]
