"""Codes of 4 bits become bytes within their ends: the same codes, and floats."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from tests.onnx_models import onnx_model

import intact
from intact import numerics
from intact.graph import Session, load, normalize, strip_qdq, to_bytes, to_proto
from intact.graph.qdq.int4_codes import FOUR_BITS
from intact.spec import Format, QuantSpec


def pair(
    dtype: str, scale: float, zero: int, *, read_twice: bool = False, zero_input: bool = True
) -> ModelProto:
    """A pair, whose zero point the Q may leave out where it is 0."""
    stored = TensorProto.INT4 if dtype == "int4" else TensorProto.UINT4
    constants = [
        helper.make_tensor("scale", TensorProto.FLOAT, [], [scale]),
        helper.make_tensor("zero", stored, [], [zero]),
    ]
    operands = ["x", "scale", "zero"] if zero_input else ["x", "scale"]
    attributes = {} if zero_input else {"output_dtype": stored}
    nodes = [
        helper.make_node("QuantizeLinear", operands, ["q"], name="q", **attributes),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], name="y"),
    ]
    if read_twice:
        nodes += [
            helper.make_node("QuantizeLinear", operands, ["q2"], name="q2"),
            helper.make_node("DequantizeLinear", ["q2", "scale"], ["y2"], name="y2"),
        ]
    x, *ys = (helper.make_tensor_value_info(name, 1, [4, 500]) for name in ("x", "y", "y2")[: 2 + read_twice])
    return onnx_model(nodes, [x], ys, constants, opset=21)


@pytest.mark.rule("N56")
@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize(
    ("scale", "zero", "zero_input"), [(0.1, 0, True), (0.1, 0, False), (0.37, 3, True), (1e-30, 7, True)]
)
def test_the_floats_are_the_same(dtype: str, scale: float, zero: int, zero_input: bool) -> None:
    model = load(pair(dtype, scale, zero, zero_input=zero_input).SerializeToString())
    (note,) = FOUR_BITS(model)
    assert (note.node, note.what) == ("q", f"codes of {dtype} became bytes within its ends")
    assert [node.op_type for node in model.graph] == ["Clip", "QuantizeLinear", "DequantizeLinear"]
    x = (np.random.default_rng(0).uniform(-20, 20, (4, 500)) * np.float64(scale)).astype(np.float32)
    x[0, :2] = -np.inf, np.inf
    got = Session(to_proto(model).SerializeToString()).run({"x": x})["y"]
    spec = QuantSpec(Format.parse(dtype), symmetric=zero == 0)
    np.testing.assert_array_equal(got, numerics.fake_quantize(x, np.float32(scale), zero, spec))


def test_quantizers_that_are_alike_stay_one() -> None:
    model = load(pair("uint4", 0.1, 0, read_twice=True).SerializeToString())
    assert len(FOUR_BITS(model)) == 2
    assert sorted(node.op_type for node in model.graph) == [
        "Clip", "DequantizeLinear", "DequantizeLinear", "QuantizeLinear",
    ]  # fmt: skip


def test_codes_that_leave_the_model_stay() -> None:
    proto = pair("int4", 0.1, 0)
    proto.graph.output.append(helper.make_tensor_value_info("q", TensorProto.INT4, [4, 500]))
    model = load(proto.SerializeToString())
    normalize(model)
    assert FOUR_BITS(model) == []


def test_ends_beyond_the_largest_float_stay() -> None:
    assert FOUR_BITS(load(pair("int4", 3e37, -8).SerializeToString())) == []


def test_several_scales_stay() -> None:
    proto = pair("int4", 0.1, 0)
    for name, tensor in zip(("scale", "zero"), list(proto.graph.initializer), strict=True):
        several = [0.1] * 500 if name == "scale" else [0] * 500
        tensor.CopyFrom(helper.make_tensor(name, tensor.data_type, [500], several))
    assert FOUR_BITS(load(proto.SerializeToString())) == []


@pytest.mark.parametrize("block", [None, 4])
def test_scales_below_0_are_floats_as_in_onnx_runtime(block):
    rng = np.random.default_rng(0)
    scale = rng.uniform(-0.1, 0.1, (6,) if block is None else (2, 6)).astype(np.float32)
    codes = helper.make_tensor("q", TensorProto.INT4, [8, 6], rng.integers(-8, 8, 48))
    attributes = {"axis": 1} if block is None else {"axis": 0, "block_size": block}
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"], **attributes),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    proto = onnx_model(
        nodes, {"x": [3, 8]}, {"y": [3, 6]}, [codes, numpy_helper.from_array(scale, "s")], opset=21
    )
    x = rng.standard_normal((3, 8)).astype(np.float32)
    want = Session(proto.SerializeToString()).run({"x": x})["y"]
    np.testing.assert_allclose(intact.compile(proto).run({"x": x})["y"], want, rtol=1e-5, atol=1e-5)
    loaded = load(proto)
    strip_qdq(loaded)
    assert [node.op_type for node in loaded.graph] == ["MatMul"]
    np.testing.assert_allclose(Session(to_bytes(loaded)).run({"x": x})["y"], want, rtol=1e-5, atol=1e-5)
