"""Nodes with sizes and attributes that no node has: refused by name, never by Python's own errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact
from intact.errors import FileAccessError, FileFormatError, IntactError
from intact.graph import load
from intact.graph.ops import MICROSOFT

BIG = 2**62
SEQUENCE = ["b", "t", 16]


def contrib(
    op_type: str, inputs: dict[str, Any], constants: dict[str, Any], **attributes: Any
) -> onnx.ModelProto:
    names = list(attributes.pop("names", [*inputs, *constants]))
    node = helper.make_node(op_type, names, ["y"], "mix", domain=MICROSOFT, **attributes)
    return onnx_model([node], inputs, {"y": SEQUENCE}, constants, opset=21, domains={MICROSOFT: 1})


def deep_functions(depth: int) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    calls = [helper.make_node("Relu", ["a"], ["r"])]
    calls += [helper.make_node(f"F{i}", ["a"], ["r"], domain="f") for i in range(depth)]
    functions = [
        helper.make_function("f", f"F{i}", ["a"], ["r"], [call], opsets) for i, call in enumerate(calls)
    ]
    node = helper.make_node(f"F{depth}", ["x"], ["y"], domain="f")
    return onnx_model([node], {"x": [2]}, {"y": [2]}, opset=21, domains={"f": 1}, functions=functions)


def constant_beside_raw_data(number: int) -> onnx.ModelProto:
    tensor = TensorProto(name="c", data_type=TensorProto.INT8, dims=[4], raw_data=b"")
    tensor.int32_data.extend([number] * 4)
    nodes = [helper.make_node("Cast", ["c"], ["d"], to=1), helper.make_node("Add", ["x", "d"], ["y"])]
    return onnx_model(nodes, {"x": [4]}, {"y": [4]}, [tensor], opset=21)


def weight_behind_transpose(axis: int) -> onnx.ModelProto:
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=axis),
        helper.make_node("Transpose", ["w"], ["v"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "v"], ["y"]),
    ]
    arrays = {"q": np.zeros((4, 16), np.int8), "s": np.ones(4, np.float32)}
    return onnx_model(nodes, {"x": ["n", 16]}, {"y": ["n", 4]}, arrays, opset=21)


QKV = dict.fromkeys("qkv", SEQUENCE)
TABLE = {"p": (TensorProto.INT64, ["b", "t"])}
CODES = {
    "w": np.zeros((16, 48), np.int8), "b": np.zeros(48, np.float32), "s": np.float32(0.1),
    "u": np.float32(0.1),
}  # fmt: skip
REFUSED = {
    "2^62 heads": contrib("MultiHeadAttention", QKV, {}, num_heads=BIG),
    "no heads": contrib("MultiHeadAttention", QKV, {}, num_heads=0),
    "heads that do not divide": contrib("MultiHeadAttention", QKV, {}, num_heads=7),
    "2^62 heads of codes": contrib("QAttention", {"x": (TensorProto.UINT8, SEQUENCE)}, CODES, num_heads=BIG),
    "empty tables": contrib(
        "RotaryEmbedding", {"x": SEQUENCE} | TABLE, {"c": np.zeros((8, 0), np.float32)},
        names=["x", "p", "c", "c"],
    ),
    "heads narrower than their tables": contrib(
        "RotaryEmbedding", {"x": ["b", "t", 0]} | TABLE, {"c": np.zeros((8, 4), np.float32)},
        names=["x", "p", "c", "c"], num_heads=4,
    ),
    "a scale without elements": contrib(
        "QLinearSigmoid", {"x": (TensorProto.UINT8, SEQUENCE)},
        {"s": np.zeros(0, np.float32), "z": np.uint8(0), "t": np.float32(1)}, names=["x", "s", "z", "t", "z"],
    ),
    "blocks of -1": contrib(
        "MatMulNBits", {"x": SEQUENCE}, {"w": np.zeros((16, 1, 8), np.uint8), "s": np.ones(16, np.float32)},
        K=16, N=-1, bits=4, block_size=16,
    ),
    "a text that is no text": contrib("Gelu", {"x": SEQUENCE}, {}, mode=b"\xff"),
    "functions 101 calls deep": deep_functions(101),
    "a number that its type has not": constant_beside_raw_data(300),
    "an axis of 99": weight_behind_transpose(99),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_by_name(name: str) -> None:
    if name == "functions 101 calls deep" and onnx.__version__.startswith("1.21."):
        pytest.skip("onnx 1.21 has no limit on calls, and infers the model")
    with pytest.raises(IntactError):
        engine = intact.compile(REFUSED[name].SerializeToString(), threads=1)
        shapes = {p.name: [n if isinstance(n, int) else 2 for n in p.shape] for p in engine.inputs}
        engine.run({p.name: np.ones(shapes[p.name], p.dtype) for p in engine.inputs})


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
def test_numbers_beside_empty_raw_data_are_read() -> None:
    engine = intact.compile(constant_beside_raw_data(3).SerializeToString())
    assert engine(np.zeros(4, np.float32)).tolist() == [3, 3, 3, 3]


@pytest.mark.filterwarnings("ignore::intact.errors.NotQuantizedWarning")
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_more_memory_than_the_limit_is_refused_by_every_backend(backend: str) -> None:
    pads = np.array([2**40, 0, 2**40, 0])
    node = helper.make_node("Pad", ["x", "p"], ["y"])
    model = onnx_model([node], {"x": ["n", 16]}, {"y": ["m", 16]}, {"p": pads}, opset=21)
    engine = intact.compile(model.SerializeToString(), backend=backend)
    with pytest.raises(IntactError, match="bytes"):
        engine(np.zeros((2, 16), np.float32))


@pytest.mark.parametrize("where", ["model", "data", "folder of data"])
def test_links_that_point_to_themselves_are_refused_by_name(tmp_path: Path, where: str) -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    model = onnx_model([node], {"x": [64]}, {"y": [64]}, {"w": np.ones(64, np.float32)})
    path = tmp_path / "model.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    if where == "folder of data":
        model = onnx.load(path, load_external_data=False)
        model.graph.initializer[0].external_data[0].value = "link/w.bin"
        onnx.save(model, path)
    link = {"model": path, "data": tmp_path / "w.bin", "folder of data": tmp_path / "link"}[where]
    link.unlink(missing_ok=True)
    link.symlink_to(link.name)
    with pytest.raises(FileAccessError if where == "model" else FileFormatError):
        load(path)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "long/" * 1000])
def test_names_that_no_file_has_are_refused(name: str) -> None:
    for read in (intact.compile, intact.load, lambda path: intact.quantize(path, path)):
        with pytest.raises(FileAccessError):
            read(name)
