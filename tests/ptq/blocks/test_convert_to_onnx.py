"""Codes of weight files in float ONNX models: by name, without a change of any float, and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper
from tests.formats.model_cases import CONFIGS, int4, write_folder, write_gguf_file
from tests.numerics.block_cases import plain
from tests.onnx_models import onnx_graph, onnx_model

import intact
from intact import graph
from intact.errors import QuantValueError, UnsupportedError
from intact.formats import (
    GGML_TYPES,
    GgufField,
    GgufTensor,
    compare_weights,
    convert,
    open_weights,
    take_rows,
    write_gguf,
)
from intact.graph import Session
from intact.numerics import BlockWeights, dequantize_blocks
from intact.ptq.blocks import convert_to_onnx


def model_of(
    up: NDArray, down: NDArray, scale: NDArray, names: tuple[str, str] = ("up", "down")
) -> onnx.ModelProto:
    """y = Gemm(relu((x * scale) @ up.T), down), the first of a name that says nothing."""
    nodes = [
        helper.make_node("Mul", ["x", "norm.weight"], ["n"]),
        helper.make_node("MatMul", ["n", "onnx::MatMul_17"], ["a"], "/model/layers.0/up/MatMul"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Gemm", ["b", "layers.0.down.weight"], ["y"], "last", transB=1),
    ]
    constants = {
        "norm.weight": scale,
        "onnx::MatMul_17": np.ascontiguousarray(up.T),
        "layers.0.down.weight": down,
    }
    return onnx_model(nodes, {"x": [3, up.shape[1]]}, {"y": [3, len(down)]}, constants)


def branches_of(up: NDArray, down: NDArray) -> onnx.ModelProto:
    """Return a model whose two branches multiply by the same matrices."""
    constants = {"onnx::MatMul_17": np.ascontiguousarray(up.T), "layers.0.down.weight": down}
    branches = {}
    for side, function in (("then_branch", "Relu"), ("else_branch", "Tanh")):
        nodes = [
            helper.make_node("MatMul", ["x", "onnx::MatMul_17"], ["a"], "/model/layers.0/up/MatMul"),
            helper.make_node(function, ["a"], ["b"]),
            helper.make_node("Gemm", ["b", "layers.0.down.weight"], ["c"], "last", transB=1),
        ]
        branches[side] = onnx_graph(nodes, (), {"c": [3, len(down)]})
    inputs = {"x": [3, up.shape[1]], "cached": (onnx.TensorProto.BOOL, [1])}
    choice = helper.make_node("If", ["cached"], ["y"], "choice", **branches)
    return onnx_model([choice], inputs, {"y": [3, len(down)]}, constants)


def floats(weights: BlockWeights) -> NDArray[np.float32]:
    return dequantize_blocks(weights).astype(np.float32)


def near(weights: BlockWeights, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return floats whose codes the weights may be."""
    values = floats(weights)
    return values + rng.normal(size=values.shape).astype(np.float32) * 0.1 * values.std()


@pytest.mark.parametrize("operator", [None, "MatMulNBits"])
@pytest.mark.parametrize("form", sorted(set(CONFIGS) - {"naive-quantized"}))
def test_the_model_computes_with_the_floats_of_the_file(
    tmp_path: Path, rng: np.random.Generator, form: str, operator: str | None
) -> None:
    up, down, scale = int4(rng), int4(rng, n=32, k=64), rng.random(128).astype(np.float32)
    layers = {"model.layers.0.up": up, "model.layers.0.down": down}
    path = write_folder(tmp_path / "in", form, layers, {"norm.weight": scale, "extra": scale})
    source = model_of(near(up, rng), near(down, rng), np.ones(128, np.float32))
    result = convert_to_onnx(path, source, operator=operator)
    assert result.layers == {
        "/model/layers.0/up/MatMul": "model.layers.0.up.weight",
        "last": "model.layers.0.down.weight",
    }
    assert result.numbers == ["norm.weight"] and list(result.unused) == ["extra"] and not result.in_float
    x = {"x": rng.normal(size=(3, 128)).astype(np.float32)}
    want = Session(graph.load(model_of(floats(up), floats(down), scale))).run(x)["y"]
    result.save(tmp_path / "out.onnx")
    got = intact.compile(tmp_path / "out.onnx").run(x)["y"]
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"))


def test_and_back_without_a_change(tmp_path: Path, rng: np.random.Generator) -> None:
    up, down = int4(rng), int4(rng, n=32, k=64)
    layers = {"layers.0.up": up, "layers.0.down": down}
    path = write_folder(tmp_path / "in", "gptq", layers, {})
    names = {"layers.0.up.weight": "onnx::MatMul_17"}
    result = convert_to_onnx(path, model_of(floats(up), floats(down), np.ones(128, np.float32)), names=names)
    result.save(tmp_path / "out.onnx")
    convert(tmp_path / "out.onnx", tmp_path / "back", "awq")
    assert open_weights(tmp_path / "back").names[:2] == ("onnx::MatMul_17.weight", "layers.0.down.weight")
    (difference,) = (d for d in compare_weights(path, tmp_path / "back") if d.name == "layers.0.down.weight")
    assert not difference.differing and not difference.missing


def test_dynamic_activations_and_gguf(tmp_path: Path, rng: np.random.Generator) -> None:
    up, down = int4(rng), int4(rng, n=32, k=64)
    path = write_gguf_file(tmp_path / "in.gguf", {"layers.0.up": up, "layers.0.down": down}, {})
    result = convert_to_onnx(
        path, model_of(floats(up), floats(down), np.ones(128, np.float32)), activations="dynamic-int8"
    )
    levels = [
        node.attributes["accuracy_level"].as_int()
        for node in result.model.graph
        if node.op_type == "MatMulNBits"
    ]
    assert levels == [4, 4]


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_rows_of_queries_and_keys_get_the_order_of_the_model(
    tmp_path: Path, rng: np.random.Generator, family: str
) -> None:
    """llama.cpp's converter puts the pairs of a rotation side by side; keys may have fewer heads."""
    queries, keys = int4(rng), int4(rng, n=32, k=64)

    def gguf_rows(weights: BlockWeights, heads: int) -> BlockWeights:
        rows = np.arange(weights.shape[0]).reshape(heads, 2, -1).swapaxes(1, 2).reshape(-1)
        return take_rows(weights, rows) if family == "llama" else weights

    layers = {"blk.0.attn_q.weight": gguf_rows(queries, 4), "blk.0.attn_k.weight": gguf_rows(keys, 2)}
    metadata = {
        "general.architecture": GgufField.of("string", family),
        f"{family}.attention.head_count": GgufField.of("uint32", 4),
        f"{family}.attention.head_count_kv": GgufField.of("uint32", 2),
    }
    kinds = {name: GgufTensor(GGML_TYPES["Q4_0"], weights.shape) for name, weights in layers.items()}
    write_gguf(tmp_path / "in.gguf", metadata, kinds, layers.__getitem__)
    model = model_of(floats(queries), floats(keys), np.ones(128, np.float32))
    names = {"blk.0.attn_q.weight": "layers.0.up", "blk.0.attn_k.weight": "layers.0.down"}
    result = convert_to_onnx(tmp_path / "in.gguf", model, names=names, operator="MatMulNBits")
    x = rng.normal(size=(3, 128)).astype(np.float32)
    before, after = (Session(each).run({"x": x})["y"] for each in (
        model.SerializeToString(), graph.to_bytes(result.model)
    ))  # fmt: skip
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)


def test_what_it_refuses(tmp_path: Path, rng: np.random.Generator) -> None:
    up, down, ones = int4(rng), int4(rng, n=32, k=64), np.ones(128, np.float32)
    source = model_of(floats(up), floats(down), ones)

    def fails(error: type, match: str, layers: dict[str, BlockWeights]) -> None:
        folder = write_folder(tmp_path / f"{len(list(tmp_path.iterdir()))}", "gptq", layers, {})
        with pytest.raises(error, match=match):
            convert_to_onnx(folder, source)

    fails(QuantValueError, "no MatMul or Gemm that is called like", {"layers.7.gate": up})
    fails(QuantValueError, "shape", {"layers.0.up": int4(rng, n=32)})
    fails(QuantValueError, "the model that was quantized", {"layers.0.up": int4(rng)})
    fails(QuantValueError, "a node for each tensor", {"model.layers.0.up": up, "layers.0.up": up})
    three = plain(rng, "uint3", k=64, n=32, block=16, zero="codes")
    by_three = model_of(floats(up), floats(three), ones)
    folder = write_folder(tmp_path / "three", "compressed-tensors", {"layers.0.down": three}, {})
    assert convert_to_onnx(folder, by_three).layers == {"last": "layers.0.down.weight"}
    grouped = BlockWeights(
        up.codes, "int4", up.scales, 32, groups=rng.permutation(np.repeat(np.arange(4), 32)).astype(np.int32)
    )
    grouped_source = model_of(floats(grouped), floats(down), ones)
    folder = write_folder(tmp_path / "groups", "gptq", {"layers.0.up": grouped}, {})
    with pytest.raises(UnsupportedError, match=r"tensor 'layers.0.up.weight'.*groups.*gptq"):
        convert_to_onnx(folder, grouped_source)
    with pytest.raises(QuantValueError, match="no tensor with codes"):
        convert_to_onnx(write_gguf_file(tmp_path / "floats.gguf", {}, {"a": ones}), source)


@pytest.mark.parametrize("operator", [None, "MatMulNBits"])
def test_branches_share_the_codes_of_the_file(
    tmp_path: Path, rng: np.random.Generator, operator: str | None
) -> None:
    up, down = int4(rng), int4(rng, n=32, k=64)
    layers = {"model.layers.0.up": up, "model.layers.0.down": down}
    path = write_folder(tmp_path / "in", "compressed-tensors", layers, {})
    result = convert_to_onnx(path, branches_of(near(up, rng), near(down, rng)), operator=operator)
    assert sorted(result.layers.values()) == ["model.layers.0.down.weight", "model.layers.0.up.weight"]
    assert not result.in_float and not result.unused
    result.save(tmp_path / "out.onnx")
    engine = intact.compile(tmp_path / "out.onnx")
    for cached in (True, False):
        x = {"x": rng.normal(size=(3, 128)).astype(np.float32), "cached": np.array([cached])}
        want = Session(branches_of(floats(up), floats(down)).SerializeToString()).run(x)["y"]
        np.testing.assert_allclose(engine.run(x)["y"], want, rtol=0, atol=1e-4 * np.abs(want).max())
