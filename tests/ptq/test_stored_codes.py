"""Files of other tools that hold codes do not grow: what stays in float keeps the codes that it came in."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from tests.onnx_models import onnx_model

import intact
from intact.graph import Session
from intact.ptq import BECAME_LARGER, QuantizedModel, quantize

INPUTS, HIDDEN = 32, 48


def recurrent_model() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "w": (rng.standard_normal((1, 4 * HIDDEN, INPUTS)) / 6).astype(np.float32),
        "r": (rng.standard_normal((1, 4 * HIDDEN, HIDDEN)) / 7).astype(np.float32),
        "b": (rng.standard_normal((1, 8 * HIDDEN)) / 10).astype(np.float32),
        "axes": np.array([1]),
        "v": (rng.standard_normal((HIDDEN, 64)) / 7).astype(np.float32),
    }
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r", "b"], ["states"], name="lstm", hidden_size=HIDDEN),
        helper.make_node("Squeeze", ["states", "axes"], ["rows"], name="squeeze"),
        helper.make_node("MatMul", ["rows", "v"], ["y"], name="product"),
    ]
    return onnx_model(nodes, {"x": ["t", 1, INPUTS]}, {"y": ["t", 1, 64]}, arrays)


@pytest.fixture
def dynamic_file(tmp_path: Path) -> Path:
    """The model as `quantize_dynamic` writes it."""
    onnx.save(recurrent_model(), tmp_path / "float.onnx")
    out = tmp_path / "dynamic.onnx"
    quantize_dynamic(tmp_path / "float.onnx", out, weight_type=QuantType.QInt8, per_channel=True)
    return out


def sequences(count: int = 8) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [{"x": rng.standard_normal((10, 1, INPUTS)).astype(np.float32)} for _ in range(count)]


def large_floats(result: QuantizedModel) -> list[str]:
    return [
        tensor.name for tensor in result.proto.graph.initializer
        if numpy_helper.to_array(tensor).dtype == np.float32 and np.prod(tensor.dims) > 1000
    ]  # fmt: skip


def test_recurrent_layers_with_dynamic_states_stay(dynamic_file: Path) -> None:
    """With states in float they would take two to three times as long; the product beside them gets pairs."""
    result = quantize(dynamic_file, sequences(), progress=False)
    counts = Counter(node.op_type for node in result.proto.graph.node)
    assert counts["DynamicQuantizeLSTM"] == 1 and counts["LSTM"] == 0
    assert counts["QuantizeLinear"] + counts["MatMulNBits"] >= 1 and counts["MatMulInteger"] == 0
    assert large_floats(result) == []
    assert result.proto.ByteSize() < 1.1 * dynamic_file.stat().st_size
    for feeds in sequences(2):
        exact, engine = (
            intact.compile(result.proto, backend=backend).run(feeds)["y"] for backend in ("reference", "cpu")
        )
        np.testing.assert_array_equal(engine, exact)
        np.testing.assert_allclose(engine, Session(result.model).run(feeds)["y"], atol=0.02)


def test_for_engines_that_read_pairs_the_weights_of_states_keep_their_codes(dynamic_file: Path) -> None:
    result = quantize(dynamic_file, sequences(), profile="onnxruntime", progress=False)
    assert Counter(node.op_type for node in result.proto.graph.node)["LSTM"] == 1
    assert large_floats(result) == []
    assert result.proto.ByteSize() < 1.1 * dynamic_file.stat().st_size
    assert any("keep the codes that they came in" in note for note in result.notes)


def test_codes_mean_the_floats_that_they_were_made_into(
    dynamic_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine computes what it would with the floats."""
    with_codes = quantize(dynamic_file, sequences(), profile="onnxruntime", progress=False)
    monkeypatch.setattr("intact.ptq.stages.stored_codes.LEAST_BYTES", 2**40)
    with_floats = quantize(dynamic_file, sequences(), profile="onnxruntime", progress=False)
    assert len(large_floats(with_floats)) > 0
    (feeds,) = sequences(1)
    first, second = (
        intact.compile(result.proto, threads=1).run(feeds)["y"] for result in (with_codes, with_floats)
    )
    np.testing.assert_array_equal(first, second)


def test_layers_that_are_excluded_keep_their_codes(dynamic_file: Path) -> None:
    result = quantize(dynamic_file, sequences(), dynamic_ranges=False, progress=False, exclude=["MatMul"])
    assert large_floats(result) == []
    nodes = {node.output[0]: node for node in result.proto.graph.node}
    (product,) = (node for node in result.proto.graph.node if node.op_type == "MatMul")
    assert nodes[product.input[1]].op_type == "DequantizeLinear"
    assert nodes.get(product.input[0]) is None or nodes[product.input[0]].op_type != "DequantizeLinear"


def test_a_float_file_gets_no_codes_where_it_had_none() -> None:
    result = quantize(recurrent_model(), sequences(), progress=False, exclude=["MatMul"])
    assert "v" in large_floats(result)
    assert Counter(node.op_type for node in result.proto.graph.node)["MatMul"] == 1


def two_layers() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    arrays = {
        "k": (rng.standard_normal((32, 8, 1)) / 3).astype(np.float32),
        "w": (rng.standard_normal((32, 256)) / 6).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], name="conv"),
        helper.make_node("Transpose", ["c"], ["t"], name="turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["t", "w"], ["y"], name="product"),
    ]
    return onnx_model(nodes, {"x": ["n", 8, 12]}, {"y": ["n", 12, 256]}, arrays)


def test_blocks_of_codes_stay_and_floats_beside_them_are_quantized() -> None:
    """A MatMulNBits of 4 bits would grow to 8: it is kept, and the Conv gets pairs."""
    options = {"weights": "int4", "block": 32, "operator": "MatMulNBits"}
    blocks = intact.quantize(two_layers(), progress=False, **options).proto
    x = np.random.default_rng(1).standard_normal((32, 8, 12)).astype(np.float32)
    result = intact.quantize(blocks, [{"x": row[None]} for row in x], progress=False)
    counts = Counter(node.op_type for node in result.proto.graph.node)
    (before,), (after,) = (
        [node for node in proto.graph.node if node.op_type == "MatMulNBits"]
        for proto in (blocks, result.proto)
    )
    assert counts["QuantizeLinear"] >= 1 and before.attribute == after.attribute
    codes = [
        next(numpy_helper.to_array(t) for t in proto.graph.initializer if t.name == node.input[1])
        for proto, node in ((blocks, before), (result.proto, after))
    ]
    np.testing.assert_array_equal(*codes)
    assert not any(BECAME_LARGER in line for line in result.warnings)
    (want,) = Session(blocks.SerializeToString()).run({"x": x}).values()
    got = intact.compile(result, threads=1)(x)
    assert 10 * np.log10(np.square(want).sum() / np.square(got - want).sum()) > 25


@pytest.mark.parametrize("bits", ["int4", "uint4"])
def test_weights_of_four_bits_stay_behind_their_dequantizer(bits: str) -> None:
    """As codes of 8 bits they would be twice as large: the Conv beside them gets pairs alone."""
    blocks = intact.quantize(two_layers(), weights=bits, block=32, progress=False).proto
    x = np.random.default_rng(1).standard_normal((32, 8, 12)).astype(np.float32)
    result = quantize(blocks, [{"x": row[None]} for row in x], progress=False)
    assert not any(BECAME_LARGER in line for line in result.warnings)
    kinds = Counter(tensor.data_type for tensor in result.proto.graph.initializer)
    four_bits = onnx.TensorProto.INT4 if bits == "int4" else onnx.TensorProto.UINT4
    assert kinds[four_bits] >= 1 and kinds[onnx.TensorProto.INT8] >= 1
    assert "keeps them" in next(row["reason"] for row in result.explain() if row["layer"] == "product")
    (want,) = Session(blocks.SerializeToString()).run({"x": x}).values()
    for feeds in ({"x": x[:2]}, {"x": x[2:4]}):
        exact, engine = (
            intact.compile(result.proto, backend=backend).run(feeds)["y"] for backend in ("reference", "cpu")
        )
        np.testing.assert_array_equal(engine, exact)
    got = intact.compile(result, threads=1)(x)
    assert 10 * np.log10(np.square(want).sum() / np.square(got - want).sum()) > 25
