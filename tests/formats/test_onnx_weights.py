"""Weights of ONNX files: the floats that ONNX Runtime computes with, read and written."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from tests.formats.model_cases import int4
from tests.numerics.block_cases import plain
from tests.onnx_models import onnx_model

from intact.errors import FileFormatError, UnsupportedError
from intact.formats import compare_weights, convert, open_weights
from intact.formats.onnx_inputs import dequantize_inputs, nbits_inputs
from intact.numerics import BlockWeights, dequantize_blocks


def model_of(nodes: list, constants: dict[str, np.ndarray], inputs: dict, output: str) -> onnx.ModelProto:
    return onnx_model(
        nodes, {name: list(shape) for name, shape in inputs.items()}, {output: None}, constants, opset=21,
        domains={"com.microsoft": 1},
    )  # fmt: skip


def nbits_model(weights: BlockWeights) -> onnx.ModelProto:
    """y = x @ weights.T + bias, by MatMulNBits."""
    constants, attributes = nbits_inputs(weights)
    names = ["B", "scales", *(["zero_points"] if "zero_points" in constants else [])]
    node = helper.make_node(
        "MatMulNBits", ["x", *names], ["m"], domain="com.microsoft", name="nbits", **attributes
    )
    add = helper.make_node("Add", ["m", "bias"], ["y"])
    constants["bias"] = np.zeros(attributes["N"], np.float32)
    constants["scales"] = constants["scales"].astype(np.float32)
    return model_of([node, add], constants, {"x": (None, attributes["K"])}, "y")


def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


def save(model: onnx.ModelProto, path: Path) -> Path:
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("zero", [None, "codes"])
@pytest.mark.parametrize(
    ("name", "k", "block"),
    [
        ("uint2", 96, 32),
        ("uint3", 80, 16),
        ("uint5", 64, 32),
        ("uint4", 80, 16),
        ("uint4", 96, 32),
        ("uint8", 64, 32),
    ],
)
def test_matmul_nbits_is_written_and_read(tmp_path, rng, name, k, block, zero):
    w = plain(rng, name, k=k, n=8, block=block, zero=zero)
    model = nbits_model(w)
    np.testing.assert_array_equal(run(model, {"x": np.eye(k, dtype=np.float32)}).T, dequantize_blocks(w))
    weights = open_weights(save(model, tmp_path / "m.onnx"))
    assert weights.format == "onnx" and weights.names == ("B", "bias")
    np.testing.assert_array_equal(dequantize_blocks(weights.read("B")), dequantize_blocks(w))
    assert weights.read("bias").shape == (8,)


@pytest.mark.parametrize("zero", [None, "codes"])
@pytest.mark.parametrize("name", ["int4", "uint4", "int8", "uint8"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_blocked_dequantize_linear_is_read_with_the_blocks_last(tmp_path, rng, name, zero, axis):
    w = plain(rng, name, k=64, n=6, block=16, zero=zero)
    constants, attributes = dequantize_inputs(w)
    if axis == 0:
        constants = {key: array.T for key, array in constants.items()}
    node = helper.make_node(
        "DequantizeLinear", list(constants), ["y"], axis=axis, block_size=attributes["block_size"]
    )
    model = model_of([node], constants, {}, "y")
    floats = run(model, {})
    weights = open_weights(save(model, tmp_path / "m.onnx"))
    read = weights.read("x")
    assert (read.format, read.block_size, read.shape) == (name, 16, (6, 64))
    np.testing.assert_array_equal(dequantize_blocks(read), floats.T if axis == 0 else floats)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_channels_are_one_block_each(tmp_path, rng, axis):
    codes = rng.integers(-128, 128, (3, 4, 5)).astype(np.int8)
    scales = rng.uniform(0.1, 1, () if axis is None else codes.shape[axis]).astype(np.float32)
    node = helper.make_node("DequantizeLinear", ["w", "s"], ["y"], **({} if axis is None else {"axis": axis}))
    model = model_of([node], {"w": codes, "s": scales}, {}, "y")
    read = open_weights(save(model, tmp_path / "m.onnx")).read("w")
    floats = run(model, {})
    rows = (
        floats.reshape(1, -1) if axis is None else np.moveaxis(floats, axis, 0).reshape(codes.shape[axis], -1)
    )
    np.testing.assert_array_equal(dequantize_blocks(read), rows)


def test_negative_scales_are_read(tmp_path, rng):
    w = int4(rng)
    assert (w.scales < 0).any()
    weights = open_weights(save(nbits_model(w), tmp_path / "m.onnx"))
    np.testing.assert_array_equal(dequantize_blocks(weights.read("B")), dequantize_blocks(w))


def test_an_onnx_file_becomes_gguf_and_awq(tmp_path, rng):
    path = save(nbits_model(int4(rng)), tmp_path / "m.onnx")
    convert(path, tmp_path / "m.gguf", "gguf")
    assert open_weights(tmp_path / "m.gguf").file.tensors["B"].kind.name == "Q4_0"
    assert not any(d.differing or d.missing for d in compare_weights(path, tmp_path / "m.gguf"))
    convert(path, tmp_path / "awq", "awq")
    assert open_weights(tmp_path / "awq").format == "awq"


def test_parts_that_do_not_fit_are_refused(tmp_path, rng):
    model = nbits_model(int4(rng))
    del model.graph.initializer[1].dims[:]
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.ones(3, np.float32), "scales"))
    weights = open_weights(save(model, tmp_path / "m.onnx"))
    with pytest.raises(FileFormatError, match="nbits"):
        weights.read("B")


@pytest.mark.parametrize("change", [{"block": 24}, {"name": "nf4"}, {"minima": "float16"}])
def test_grids_that_matmul_nbits_lacks_are_refused(rng, change):
    with pytest.raises(UnsupportedError, match="MatMulNBits"):
        nbits_inputs(plain(rng, **change))


@pytest.mark.parametrize("name", ["int2", "int3", "uint4", "int5", "uint6"])
def test_dequantize_linear_takes_smaller_codes_in_wider_ones(rng, name):
    w = plain(rng, name)
    constants, attributes = dequantize_inputs(w)
    wide = ml_dtypes.uint4 if name == "uint4" else ml_dtypes.int4 if w.bits < 4 else np.int8
    assert constants["x"].dtype == wide
    floats = constants["x"].astype(np.float32) * np.repeat(
        constants["x_scale"], attributes["block_size"], axis=1
    )
    np.testing.assert_array_equal(floats, dequantize_blocks(w))
