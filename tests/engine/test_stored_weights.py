"""Plan files hold weights of weight-only models as the model does, and engines compute the same bits."""

from __future__ import annotations

import json
import weakref
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16, int4, uint4
from onnx import TensorProto, helper
from tests.onnx_models import onnx_model

import intact
from intact.engine.compact_constants import Stored
from intact.engine.files import container
from intact.errors import FileFormatError

RNG = np.random.default_rng(7)
K, N, BLOCK = 128, 96, 32


def codes(dtype, shape=(K, N)):
    low, high = {int4: (-8, 7), uint4: (0, 15)}.get(dtype) or (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return RNG.integers(low, high + 1, shape).astype(dtype)


def reals(*shape):
    return (RNG.standard_normal(shape) * 0.05).astype(np.float32)


def model(nodes, constants, x=(2, K), rank=2):
    """A model of opset 21 that reads x, in float32."""
    value = helper.make_tensor_value_info
    ports = [value("x", TensorProto.FLOAT, list(x))], [value("y", TensorProto.FLOAT, [None] * rank)]
    return onnx_model(nodes, *ports, constants, opset=21)


def linear(stored, scale, zero=None, *, turned=False, **attributes):
    """x times dequantized codes."""
    constants = {"w": stored, "s": scale} | ({} if zero is None else {"z": zero})
    nodes = [helper.make_node("DequantizeLinear", list(constants), ["d"], **attributes)]
    nodes += [helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0])] * turned
    return model([*nodes, helper.make_node("MatMul", ["x", "t" if turned else "d"], ["y"])], constants)


def conv(order):
    """x under a kernel whose codes have their axes in another order."""
    constants = {"w": codes(np.int8, tuple(np.array([16, 8, 3, 3])[order])), "s": np.float32(0.01)}
    back = [int(axis) for axis in np.argsort(order)]
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"]),
        helper.make_node("Transpose", ["d"], ["t"], perm=back),
        helper.make_node("Conv", ["x", "t"], ["y"], pads=[1] * 4),
    ]
    return model(nodes, constants, (1, 8, 6, 6), 4)


def half(dtype):
    """x times a weight that is 16 bits wide in the file."""
    constants = {"w": reals(K, N).astype(dtype)}
    nodes = [helper.make_node("Cast", ["w"], ["f"], to=1), helper.make_node("MatMul", ["x", "f"], ["y"])]
    return model(nodes, constants)


def table():
    """Rows of an int8 table."""
    value = helper.make_tensor_value_info
    proto = model([helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0),
                  helper.make_node("Gather", ["d", "x"], ["y"])],
                 {"w": codes(np.int8), "s": np.abs(reals(K))}, (5,))  # fmt: skip
    proto.graph.input[0].CopyFrom(value("x", TensorProto.INT64, [5]))
    return proto


BLOCKS = np.abs(reals(K // BLOCK, N))
MODELS = {
    "int8": lambda: linear(codes(np.int8), np.float32(0.01)),
    "uint8, zero point": lambda: linear(codes(np.uint8), np.float32(0.01), np.uint8(131)),
    "int8 by column": lambda: linear(codes(np.int8), reals(N), axis=1),
    "int8 by row, turned": lambda: linear(codes(np.int8, (N, K)), reals(N), turned=True, axis=0),
    "int8 by row": lambda: linear(codes(np.int8), reals(K), axis=0),
    "uint8 by row, zero points": lambda: linear(codes(np.uint8), reals(K), codes(np.uint8, (K,)), axis=0),
    "int8 in blocks": lambda: linear(codes(np.int8), BLOCKS, axis=0, block_size=BLOCK),
    "int4 in blocks": lambda: linear(codes(int4), BLOCKS, axis=0, block_size=BLOCK),
    "uint4 in blocks, zero points": lambda: linear(
        codes(uint4), BLOCKS, codes(uint4, BLOCKS.shape), axis=0, block_size=BLOCK
    ),
    "int4 in blocks, turned": lambda: linear(
        codes(int4, (N, K)), BLOCKS.T.copy(), turned=True, axis=1, block_size=BLOCK
    ),
    "int4, odd": lambda: linear(codes(int4, (K, 97)), reals(97), axis=1),
    "a kernel": lambda: conv([0, 1, 2, 3]),
    "a kernel of TensorFlow": lambda: conv([2, 3, 1, 0]),
    "float16": lambda: half(np.float16),
    "bfloat16": lambda: half(bfloat16),
    "a table": table,
}


def save_and_load(proto, tmp_path: Path):
    engine, path = intact.compile(proto, threads=1), tmp_path / "weights.plan"
    assert "onnx" not in [step.kind for step in engine.plan.steps]
    engine.save(path)
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    is_index = proto.graph.input[0].type.tensor_type.elem_type == TensorProto.INT64
    x = RNG.integers(0, K, shape) if is_index else RNG.standard_normal(shape).astype(np.float32)
    return engine, path, {"x": x}


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_is_about_as_large_as_its_file_and_has_the_same_bits(name, tmp_path):
    proto = MODELS[name]()
    engine, path, feeds = save_and_load(proto, tmp_path)
    assert path.stat().st_size < proto.ByteSize() + 4000
    loaded = intact.load(path, threads=1)
    np.testing.assert_array_equal(loaded.run(feeds)["y"], engine.run(feeds)["y"])
    np.testing.assert_array_equal(
        intact.load(path, backend="reference").run(feeds)["y"], engine.run(feeds)["y"]
    )
    for constant, array in engine.plan.constants.items():
        np.testing.assert_array_equal(loaded.plan.constants[constant], array, strict=True)
    loaded.save(tmp_path / "again.plan")
    assert (tmp_path / "again.plan").read_bytes() == path.read_bytes()


def test_weights_that_are_no_codes_stay_floats(tmp_path):
    proto = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": reals(K, N)})
    engine, path, feeds = save_and_load(proto, tmp_path)
    assert not engine.plan.stored and path.stat().st_size > 4 * K * N
    np.testing.assert_array_equal(intact.load(path).run(feeds)["y"], engine.run(feeds)["y"])


@pytest.fixture
def float_copies(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref]:
    """References to the arrays that constants in fewer bits were widened to."""
    references, widen = [], Stored.widen

    def record(constant, shape):
        array = widen(constant, shape)
        references.append(weakref.ref(array))
        return array

    monkeypatch.setattr(Stored, "widen", record)
    return references


@pytest.mark.parametrize("name", ["float16", "int8 by row", "a kernel"])
def test_what_kernels_packed_is_not_kept_in_floats_too(name, tmp_path, float_copies):
    _, path, feeds = save_and_load(MODELS[name](), tmp_path)
    float_copies.clear()
    engine = intact.load(path, threads=1)
    engine.run(feeds)
    assert float_copies and not any(copy() is not None for copy in float_copies)


def test_damaged_codes_are_refused_by_the_checksum_of_the_floats(tmp_path):
    _, path, feeds = save_and_load(MODELS["int8 by row"](), tmp_path)
    data = bytearray(path.read_bytes())
    _, views = container.read(path, copy=True)
    place = bytes(data).index(views["constant/d.matrix"].tobytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=r"'d.matrix'.*do not match their checksum"):
        intact.load(path).run(feeds)


FORMS = {
    "another dtype": {"dtype": "int2"},
    "other sizes": {"shape": [K, N + 1]},
    "an axis twice": {"order": [0, 0]},
    "too many scales": {"scale": [K, N]},
    "another rank of scales": {"scale": [N]},
    "no such axis": {"axis": 2},
    "a block below 0": {"block": -1},
    "zero points that are not there": {"zero": True},
    "reals with scales": {"dtype": "float16"},
}


@pytest.mark.parametrize("change", FORMS.values(), ids=FORMS.keys())
def test_forms_of_no_constant_are_refused(change, tmp_path):
    from tests.loaders.seeds import plan_file, plan_parts

    _, path, _ = save_and_load(MODELS["int8 by row"](), tmp_path)
    content, arrays = plan_parts(path.read_bytes())
    content["stored"][0]["form"].update(change)
    path.write_bytes(plan_file(content, arrays))
    with pytest.raises(FileFormatError):
        intact.load(path)
    content["stored"] = [{"constant": "nobody", "form": json.loads("{}")}]
    path.write_bytes(plan_file(content, arrays))
    with pytest.raises(FileFormatError):
        intact.load(path)
