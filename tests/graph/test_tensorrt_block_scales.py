"""Blocks of NVFP4 and MXFP8 that TensorRT's files and networks hold agree with numerics on every code."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact
import intact.trt as trt
from intact.numerics import BlockWeights, dequantize_blocks

FP4, FP8, E8M0 = ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
RNG = np.random.default_rng(4)
GLOBAL = np.float32(0.0037)


def raw(name: str, array: np.ndarray, dtype: int) -> onnx.TensorProto:
    """An initializer; elements of FP4 lie two in a byte."""
    data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    if dtype == TensorProto.FLOAT4E2M1:
        data = data[0::2] & 15 | (data[1::2] & 15) << 4
    return helper.make_tensor(name, dtype, array.shape, data.tobytes(), raw=True)


def every_pair(codes: int, scales: np.ndarray, block: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes [scales, n * block], in which each scale meets every code."""
    row = np.resize(np.arange(codes, dtype=np.uint8), -(-codes // block) * block)
    return np.tile(row, (len(scales), 1)), np.repeat(scales[:, None], len(row) // block, 1)


POSITIVE = np.arange(1, 127, dtype=np.uint8).view(FP8)
EXPONENTS = np.arange(20, 235, dtype=np.uint8).view(E8M0)
NVFP4 = every_pair(16, POSITIVE, 16)
CODES = np.delete(np.arange(256, dtype=np.uint8), [127, 255])
MXFP8 = CODES[every_pair(254, EXPONENTS, 32)[0] % 254], every_pair(254, EXPONENTS, 32)[1]


def nvfp4_file() -> tuple[list[Any], list[Any], int]:
    codes, scales = NVFP4
    inits = [
        raw("q", codes.view(FP4), TensorProto.FLOAT4E2M1), raw("s", scales, TensorProto.FLOAT8E4M3FN),
        helper.make_tensor("g", 1, [], [GLOBAL]),
    ]  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["s", "g"], ["t"]),
        helper.make_node("DequantizeLinear", ["q", "t"], ["w"], axis=-1, block_size=16),
    ]
    return nodes, inits, 23


def mxfp8_file(as_bytes: bool) -> tuple[list[Any], list[Any], int]:
    codes, scales = MXFP8
    inits = [
        raw("q", codes, TensorProto.UINT8 if as_bytes else TensorProto.FLOAT8E4M3FN),
        raw("s", scales, TensorProto.UINT8),
    ]
    attributes = {} if as_bytes else {"axis": -1, "block_size": 32, "output_dtype": 1}
    return (
        [helper.make_node("TRT_MXFP8DequantizeLinear", ["q", "s"], ["w"], domain="trt", **attributes)],
        inits,
        21,
    )


def model_of(nodes: list[Any], inits: list[Any], opset: int, x: list[Any], y: list[Any]) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    ports = [value("x", 1, x)], [value("y", 1, y)]
    return onnx_model(nodes, *ports, inits, opset=opset, domains={"trt": 1}, ir_version=10)


def run_parsed(model: onnx.ModelProto, x: np.ndarray, log: trt.ILogger) -> np.ndarray:
    builder = trt.Builder(log)
    network = builder.create_network()
    assert trt.OnnxParser(network, log).parse(model.SerializeToString()), log
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    return engine.engine.run({"x": x})["y"]


class Silent(trt.ILogger):
    """Says nothing."""

    def log(self, severity: Any, msg: str) -> None: ...


WANTED = {
    "nvfp4": BlockWeights(NVFP4[0], "fp4e2m1", NVFP4[1], 16, super_scales=np.array(GLOBAL)),
    "mxfp8": BlockWeights(MXFP8[0], "fp8e4m3", MXFP8[1], 32),
}


@pytest.mark.parametrize("kind", ["nvfp4", "mxfp8", "mxfp8-bytes"])
def test_weights_of_files_are_those_of_numerics_on_every_code(kind, tmp_path) -> None:
    nodes, inits, opset = nvfp4_file() if kind == "nvfp4" else mxfp8_file(as_bytes="bytes" in kind)
    want = dequantize_blocks(WANTED[kind.partition("-")[0]])
    model = model_of(
        [*nodes, helper.make_node("Add", ["x", "w"], ["y"])], inits, opset, [1, 1], list(want.shape)
    )
    zero = np.zeros((1, 1), np.float32)
    onnx.save(model, tmp_path / "m.onnx")
    np.testing.assert_array_equal(intact.compile(tmp_path / "m.onnx")(zero), want)
    np.testing.assert_array_equal(run_parsed(model, zero, Silent()), want)


def run_layer(
    codes: np.ndarray, dtype: trt.DataType, scales: Any, block: tuple[int, int] | None
) -> np.ndarray:
    """Dequantize constant codes in a network; `scales` makes the tensor of the scales."""
    builder = trt.Builder(Silent())
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    layer = network.add_dequantize(
        network.add_constant(codes.shape, codes).get_output(0), scales(network), trt.float32
    )
    if block:
        layer.block_shape = block
    x = network.add_input("x", trt.float32, (1, 1))
    total = network.add_elementwise(x, layer.get_output(0), trt.ElementWiseOperation.SUM).get_output(0)
    total.name = "y"
    network.mark_output(total)
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    return engine.engine.run({"x": np.zeros((1, 1), np.float32)})["y"]


def constant_of(network: trt.INetworkDefinition, array: np.ndarray) -> trt.ITensor:
    return network.add_constant(array.shape, array).get_output(0)


@pytest.mark.parametrize("block", [None, (1, 16)])
def test_layers_of_nvfp4_are_those_of_numerics_on_every_code(block) -> None:
    codes, scales = NVFP4

    def scales_of_scales(network: trt.INetworkDefinition) -> trt.ITensor:
        fine, coarse = constant_of(network, scales), constant_of(network, np.array([GLOBAL]))
        return network.add_dequantize(fine, coarse, trt.float32).get_output(0)

    output = run_layer(codes.view(FP4), trt.fp4, scales_of_scales, block)
    np.testing.assert_array_equal(output, dequantize_blocks(WANTED["nvfp4"]))


@pytest.mark.parametrize(
    ("codes", "scales", "want"),
    [
        (MXFP8[0].view(FP8), MXFP8[1], WANTED["mxfp8"]),
        (MXFP8[0].view(FP8), MXFP8[1].astype(np.float32), WANTED["mxfp8"]),
        (
            np.tile(np.arange(-8, 8, dtype=np.int8), (3, 2)).astype(ml_dtypes.int4),
            np.float32([[0.1, 0.7], [3, 1e-3], [2.5, 9]]),
            BlockWeights(
                np.tile(np.arange(-8, 8, dtype=np.int8), (3, 2)), "int4",
                np.float32([[0.1, 0.7], [3, 1e-3], [2.5, 9]]), 16,
            ),
        ),
    ],
    ids=["mxfp8", "fp8-blocks", "int4"],
)  # fmt: skip
def test_layers_of_blocks_are_those_of_numerics_on_every_code(codes, scales, want) -> None:
    block = (1, want.block_size)
    output = run_layer(codes, trt.DataType.FP8, lambda network: constant_of(network, scales), block)
    np.testing.assert_array_equal(output, dequantize_blocks(want))


@pytest.mark.parametrize("block", [(16, 1), (1, 16), (16, 16), (-1, 2), (-1, -1)])
@pytest.mark.parametrize("dtype", [trt.int4, trt.fp8, trt.fp4])
def test_quantized_blocks_along_one_and_two_axes(block, dtype) -> None:
    weights = RNG.standard_normal((64, 32)).astype(np.float32)
    sizes = [n if b < 0 else b for n, b in zip(weights.shape, block, strict=True)]
    cut = weights.reshape(64 // sizes[0], sizes[0], 32 // sizes[1], sizes[1])
    scales = np.abs(cut).max((1, 3)) / np.float32(5)
    builder = trt.Builder(Silent())
    network = builder.create_network()
    s = constant_of(network, scales)
    quantize = network.add_quantize(constant_of(network, weights), s, dtype)
    dequantize = network.add_dequantize(quantize.get_output(0), s, trt.float32)
    quantize.block_shape, dequantize.block_shape = trt.Dims(block), trt.Dims(block)
    x = network.add_input("x", trt.float32, (1, 1))
    total = network.add_elementwise(x, dequantize.get_output(0), trt.ElementWiseOperation.SUM).get_output(0)
    total.name = "y"
    network.mark_output(total)
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    output = engine.engine.run({"x": np.zeros((1, 1), np.float32)})["y"]
    steps = cut / scales[:, None, :, None]
    if dtype is trt.int4:
        codes = np.clip(np.round(steps), -8, 7)
    else:
        codes = steps.astype(dtype.numpy).astype(np.float32)
    want = (codes * scales[:, None, :, None]).reshape(weights.shape)
    np.testing.assert_array_equal(output, want)


@pytest.mark.parametrize("block", [(3, 1), (1, 1, 1), (0, 16), (1, 8), (8,)])
def test_block_shapes_that_do_not_fit_are_refused(block, log) -> None:
    builder = trt.Builder(log)
    network = builder.create_network()
    s = constant_of(network, np.ones((64, 2), np.float32))
    layer = network.add_quantize(constant_of(network, np.ones((64, 32), np.float32)), s, trt.int4)
    layer.block_shape = trt.Dims(block)
    network.mark_output(network.add_dequantize(layer.get_output(0), s, trt.float32).get_output(0))
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert any("block" in message for message in log.of("ERROR"))


@pytest.fixture
def log() -> Any:
    from tests.trt.conftest import KeptLog

    return KeptLog()


def dynamic_file(kind: str, columns: int, rows: int | str = "rows") -> onnx.ModelProto:
    node, inits = helper.make_node, []
    if kind == "nvfp4":
        inits = [helper.make_tensor("d", 1, [], [GLOBAL])]
        nodes = [
            node(
                "TRT_FP4DynamicQuantize",
                ["x", "d"],
                ["q", "s"],
                domain="trt",
                axis=-1,
                block_size=16,
                scale_type=17,
            ),
            node("DequantizeLinear", ["s", "d"], ["t"]),
            node("DequantizeLinear", ["q", "t"], ["y"], axis=-1, block_size=16),
        ]
    else:
        nodes = [
            node(
                "TRT_MXFP8DynamicQuantize",
                ["x"],
                ["q", "s"],
                domain="trt",
                axis=-1,
                block_size=32,
                output_dtype=17,
            ),
            node(
                "TRT_MXFP8DequantizeLinear",
                ["q", "s"],
                ["y"],
                domain="trt",
                axis=-1,
                block_size=32,
                output_dtype=1,
            ),
        ]
    return model_of(nodes, inits, 23 if kind == "nvfp4" else 21, [rows, columns], [rows, columns])


def in_numpy(kind: str, x: np.ndarray) -> np.ndarray:
    """Dynamic quantization, block by block."""
    size, dtype, largest = (16, FP4, 6) if kind == "nvfp4" else (32, FP8, 448)
    cut = x.reshape(len(x), -1, size)
    amax = np.abs(cut).max(2, keepdims=True) / np.float32(largest)
    if kind == "nvfp4":
        scale = np.minimum(amax / GLOBAL, np.float32(448)).astype(FP8).astype(np.float32) * GLOBAL
    else:
        scale = np.exp2(np.ceil(np.log2(np.maximum(amax.astype(float), 2.0**-127)))).astype(np.float32)
    safe = np.where(scale == 0, np.float32(1), scale)
    return ((cut / safe).astype(dtype).astype(np.float32) * scale).reshape(x.shape)


@pytest.mark.parametrize("kind", ["nvfp4", "mxfp8"])
def test_dynamic_blocks_round_as_numerics_does(kind, tmp_path) -> None:
    values = np.concatenate([
        np.arange(256, dtype=np.uint8).view(FP8).astype(np.float32), np.arange(-8, 8, 0.125, np.float32),
        RNG.standard_normal(1920).astype(np.float32) * 30, np.zeros(64, np.float32),
    ])  # fmt: skip
    x = np.nan_to_num(values[: values.size // 64 * 64], nan=0.0).reshape(-1, 64)
    model = dynamic_file(kind, 64)
    onnx.save(model, tmp_path / "m.onnx")
    np.testing.assert_array_equal(intact.compile(tmp_path / "m.onnx")(x), in_numpy(kind, x))
    np.testing.assert_array_equal(run_parsed(model, x, Silent()), in_numpy(kind, x))


def test_codes_that_other_nodes_read_are_refused_by_name(tmp_path) -> None:
    model = dynamic_file("nvfp4", 64)
    model.graph.node.append(helper.make_node("Identity", ["q"], ["other"]))
    model.graph.output.append(helper.make_tensor_value_info("other", TensorProto.FLOAT4E2M1, ["rows", 64]))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(TypeError, match="TRT_FP4DynamicQuantize"):
        intact.compile(tmp_path / "m.onnx")
