"""Plan files write equal weights of their ONNX models once, and refuse pieces that lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.loaders.seeds import plan_file, plan_parts
from tests.onnx_models import onnx_model

import intact
from intact.engine.model_pieces import LEAST, MOST, join_models
from intact.errors import FileFormatError

FLOAT = onnx.TensorProto.FLOAT
RNG = np.random.default_rng(3)
K, N, BLOCK = 128, 96, 32


def model(
    nodes: list[onnx.NodeProto], x: list[Any], y: list[Any], **constants: np.ndarray
) -> onnx.ModelProto:
    return onnx_model(
        nodes, {"x": (FLOAT, x)}, {"y": (FLOAT, y)}, constants, opset=21, domains={"com.microsoft": 1}
    )


def few_bits(k: int = K) -> onnx.ModelProto:
    """ONNX Runtime's weights of 4 bits, for any number of rows, in a form that no kernel reads."""
    blocks = -(-k // BLOCK)
    constants = {
        "B": RNG.integers(0, 256, (N, blocks, BLOCK // 2)).astype(np.uint8),
        "s": RNG.random(N * blocks).astype(np.float32) * 0.1,
        "z": RNG.integers(0, 256, N * -(-blocks // 2)).astype(np.uint8),
        "order": (np.arange(k) // BLOCK).astype(np.int32),
    }
    node = helper.make_node(
        "MatMulNBits", ["x", *constants], ["y"], domain="com.microsoft", K=k, N=N, bits=4, block_size=BLOCK
    )
    return model([node], ["n", k], ["n", N], **constants)


def two_parts(shared: bool) -> onnx.ModelProto:
    """Two such products with a step of a kernel between them, of one weight or of two."""
    shape, scales = (K, K // BLOCK, BLOCK // 2), np.full(K * K // BLOCK, 0.01, np.float32)
    constants = {name: RNG.integers(0, 256, shape).astype(np.uint8) for name in ("B", "C")}
    at = {"domain": "com.microsoft", "K": K, "N": K, "bits": 4, "block_size": BLOCK}
    nodes = [
        helper.make_node("MatMulNBits", ["x", "B", "s", "z", "order"], ["p"], **at),
        helper.make_node("Relu", ["p"], ["r"]),
        helper.make_node("MatMulNBits", ["r", "B" if shared else "C", "s", "z", "order"], ["y"], **at),
    ]
    zeros, order = np.full(K * K // BLOCK // 2, 0x88, np.uint8), (np.arange(K) // BLOCK).astype(np.int32)
    return model(nodes, ["n", K], ["n", K], s=scales, z=zeros, order=order, **constants)


MODELS = {
    "4 bits": (lambda: few_bits(), (3, K)),
    "4 bits, part of a block": (lambda: few_bits(K - 5), (3, K - 5)),
    "two parts": (lambda: two_parts(shared=False), (2, K)),
    "two parts with one weight": (lambda: two_parts(shared=True), (4, K)),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_with_models_is_about_as_large_as_its_file(name: str, tmp_path: Path) -> None:
    make, shape = MODELS[name]
    output, path = make(), tmp_path / "a.plan"
    engine = intact.compile(output, threads=1)
    engine.save(path)
    assert "onnx" in [step.kind for step in engine.plan.steps] and engine.plan.model
    native = sum(a.nbytes for a in engine.plan.constants.values() if a.dtype != np.uint8)
    packed = sum(array.nbytes for array in engine.packed_weights.values())
    assert path.stat().st_size < output.ByteSize() + native + packed + 12_000
    x = RNG.standard_normal(shape).astype(np.float32)
    loaded = intact.load(path, threads=1)
    assert np.array_equal(loaded.run({"x": x})["y"], engine.run({"x": x})["y"])
    for constant, array in engine.plan.constants.items():
        np.testing.assert_array_equal(loaded.plan.constants[constant], array, strict=True)
    loaded.save(tmp_path / "again.plan")
    assert (tmp_path / "again.plan").read_bytes() == path.read_bytes()


def test_models_that_share_little_of_the_file_are_written_whole() -> None:
    weight = numpy_helper.from_array(np.zeros(LEAST, np.float32), "w")
    alike = [onnx.TensorProto.FromString(weight.SerializeToString()) for _ in range(3 * MOST)]
    data = np.frombuffer(onnx_model([], (), (), alike).SerializeToString(), np.uint8)
    assert join_models({"a": data}, {}) == {}  # in pieces it would be more than a file may say
    few = np.frombuffer(onnx_model([], (), (), alike[:3]).SerializeToString(), "u1")
    assert join_models({"a": few}, {})["a"].own.nbytes < few.nbytes / 2


def save_plan(tmp_path: Path) -> Path:
    intact.compile(few_bits()).save(tmp_path / "a.plan")
    return tmp_path / "a.plan"


def _other(content: dict[str, Any], **changed: Any) -> None:
    content["joined"][0]["pieces"][0].update(changed)


def _long(content: dict[str, Any]) -> None:
    """A model of 2^40 bytes, each piece of which the file has."""
    (joined,) = content["joined"]
    joined["pieces"] = [joined["pieces"][1]] * 40_000
    size = sum(piece["end"] - piece["begin"] for piece in joined["pieces"])
    next(entry for entry in content["constants"] if entry["name"] == joined["constant"])["shape"] = [size]


LIES = {
    "no such array": lambda content: _other(content, array="constant/nobody"),
    "beyond its array": lambda content: _other(content, end=2**40),
    "before its array": lambda content: _other(content, begin=-1),
    "nothing": lambda content: _other(content, begin=5, end=5),
    "another size": lambda content: content["joined"][0]["pieces"].pop(),
    "no pieces": lambda content: content["joined"][0].update(pieces=[]),
    "no such constant": lambda content: content["joined"][0].update(constant="nobody"),
    "more than the file has": _long,
}


@pytest.mark.parametrize("lie", LIES)
def test_pieces_of_no_model_are_refused_before_they_are_read(lie: str, tmp_path: Path) -> None:
    path = save_plan(tmp_path)
    content, arrays = plan_parts(path.read_bytes())
    LIES[lie](content)
    path.write_bytes(plan_file(content, arrays))
    with pytest.raises(FileFormatError, match=r"a\.plan"):
        intact.load(path)


def test_damaged_pieces_are_refused_by_the_checksum_of_the_model(tmp_path: Path) -> None:
    path = save_plan(tmp_path)
    data, (_, arrays) = bytearray(path.read_bytes()), plan_parts(path.read_bytes())
    data[bytes(data).index(arrays["constant/model.onnx"][:-64]) + 40] ^= 1
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=r"array 'model\.onnx'.*do not match their checksum"):
        intact.load(path).run({"x": np.zeros((1, K), np.float32)})


def test_a_model_with_other_ports_than_its_plan_is_refused(tmp_path: Path) -> None:
    path = save_plan(tmp_path)
    content, arrays = plan_parts(path.read_bytes())
    content["outputs"] = []
    path.write_bytes(plan_file(content, arrays))
    with pytest.raises(FileFormatError, match="the outputs of the model that the plan holds"):
        intact.load(path).run({"x": np.zeros((1, K), np.float32)})
