"""Products with NVFP4, MXFP8, INT4 and fp8 weights: every code, on every instruction set of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.graph.test_tensorrt_block_scales import (
    E8M0,
    FP4,
    FP8,
    GLOBAL,
    MXFP8,
    NVFP4,
    raw,
)
from tests.kernel_paths import environment, kernel_paths
from tests.onnx_models import onnx_model

import intact
from intact.numerics import BlockWeights, dequantize_blocks

INT4 = np.resize(np.arange(-8, 8, dtype=np.int8), (12, 128))
INT4_SCALES = np.linspace(0.004, 0.9, 12, dtype=np.float32)[:, None]
FINITE = np.delete(np.arange(256, dtype=np.uint8), [127, 255])
FP8_ROWS = np.resize(FINITE, (4, 256))
FP8_SCALE = np.float32(0.0173)


def constant(name: str, value: float) -> onnx.TensorProto:
    return helper.make_tensor(name, 1, [], [np.float32(value)])


def pair(axis: int, block: int) -> onnx.NodeProto:
    return helper.make_node("DequantizeLinear", ["q", "t"], ["w"], axis=axis, block_size=block)


def packed_int4() -> onnx.TensorProto:
    nibbles = INT4.reshape(-1).view(np.uint8) & 15
    data = nibbles[0::2] | nibbles[1::2] << 4
    return helper.make_tensor("q", TensorProto.INT4, INT4.shape, data.tobytes(), raw=True)


def nvfp4() -> tuple[list[Any], list[Any], np.ndarray]:
    codes, scales = NVFP4
    inits = [
        raw("q", codes.view(FP4), TensorProto.FLOAT4E2M1), raw("s", scales, TensorProto.FLOAT8E4M3FN),
        constant("g", GLOBAL),
    ]  # fmt: skip
    fine = helper.make_node("DequantizeLinear", ["s", "g"], ["t"])
    floats = dequantize_blocks(BlockWeights(codes, "fp4e2m1", scales, 16, super_scales=np.array(GLOBAL)))
    return [fine, pair(1, 16)], inits, floats


def mxfp8() -> tuple[list[Any], list[Any], np.ndarray]:
    codes, scales = MXFP8
    ordinary = np.abs(np.log2(scales[:, 0].astype(np.float64))) < 12  # sums stay finite
    codes, scales = codes[ordinary], scales[ordinary]
    inits = [raw("q", codes, TensorProto.UINT8), raw("t", scales.view(np.uint8), TensorProto.UINT8)]
    node = helper.make_node("TRT_MXFP8DequantizeLinear", ["q", "t"], ["w"], domain="trt", axis=1)
    return [node], inits, dequantize_blocks(BlockWeights(codes, "fp8e4m3", scales.view(E8M0), 32))


def int4() -> tuple[list[Any], list[Any], np.ndarray]:
    inits = [packed_int4(), helper.make_tensor("t", 1, INT4_SCALES.shape, INT4_SCALES.ravel())]
    return [pair(1, 128)], inits, INT4 * INT4_SCALES


def fp8() -> tuple[list[Any], list[Any], np.ndarray]:
    inits = [raw("q", FP8_ROWS, TensorProto.FLOAT8E4M3FN), constant("t", FP8_SCALE)]
    node = helper.make_node("DequantizeLinear", ["q", "t"], ["w"])
    return [node], inits, FP8_ROWS.view(FP8).astype(np.float32) * FP8_SCALE


FORMATS = {"nvfp4": nvfp4, "mxfp8": mxfp8, "int4": int4, "fp8": fp8}


@pytest.mark.parametrize("path", kernel_paths(), ids=lambda path: ",".join(path.values())[:40] or "default")
@pytest.mark.parametrize("name", FORMATS)
def test_products_are_those_of_numerics_on_every_code(
    name: str, path: dict[str, str], tmp_path: Path
) -> None:
    nodes, inits, floats = FORMATS[name]()
    value = helper.make_tensor_value_info
    outputs, size = floats.shape
    model = onnx_model(
        [*nodes, helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)], [value("x", 1, ["n", size])],
        [value("y", 1, ["n", outputs])], inits, opset=23, domains={"trt": 1}, ir_version=10,
    )  # fmt: skip
    onnx.save(model, tmp_path / "m.onnx")
    unit = np.eye(size, dtype=np.float32)
    x = np.concatenate([np.random.default_rng(7).standard_normal((3, size)).astype(np.float32), unit])
    with environment(**path):
        y = np.asarray(intact.compile(tmp_path / "m.onnx")(x))
    np.testing.assert_array_equal(y[3:], floats.T)  # a unit vector reads one code of each row
    exact = x[:3].astype(np.float64) @ floats.T.astype(np.float64)
    bound = np.abs(x[:3]).astype(np.float64) @ np.abs(floats.T).astype(np.float64) * size * 2.0**-24
    assert (np.abs(y[:3] - exact) <= bound).all()


def test_codes_are_those_of_the_types() -> None:
    assert set(NVFP4[0].ravel()) == set(range(16)) and set(INT4.ravel()) == set(range(-8, 8))
    assert set(FP8_ROWS.ravel()) == set(FINITE) == set(range(256)) - {127, 255}
    assert np.isfinite(FP8_ROWS.view(ml_dtypes.float8_e4m3fn).astype(np.float32)).all()
