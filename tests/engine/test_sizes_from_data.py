"""Sizes that data decide, scalars, and constants of every integer type: they run, and plans hold them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.onnx_models import onnx_graph, onnx_model

import intact
from intact.engine.lower import lower
from intact.errors import UnsupportedError
from intact.graph import Session

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], **constants: Any) -> onnx.ModelProto:
    info = helper.make_tensor_value_info
    return onnx_model(
        nodes, [info(*port) for port in inputs], [info(*port) for port in outputs], constants, opset=18
    )


def same(proto: onnx.ModelProto, feeds: dict[str, Any]) -> None:
    """Both backends agree with ONNX Runtime, of a first run and of another length."""
    want = Session(proto.SerializeToString()).run(feeds)
    for backend in ("cpu", "reference"):
        got = intact.compile(proto, backend=backend).run(feeds)
        for name, array in want.items():
            np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-5)


TAILS = {
    "one index of an axis": [helper.make_node("Gather", ["g", "zero"], ["y"], axis=1)],
    "an index from the end": [helper.make_node("Gather", ["g", "minus"], ["y"], axis=1)],
    "a slice and a squeeze": [
        helper.make_node("Slice", ["g", "start", "stop", "start"], ["s"]),
        helper.make_node("Squeeze", ["s", "start"], ["y"]),
    ],
    "the largest of an axis": [helper.make_node("ArgMax", ["g"], ["y"], axis=1, keepdims=0)],
    "a sum of an axis": [helper.make_node("ReduceSum", ["g", "start"], ["y"], keepdims=0)],
    "a new axis": [helper.make_node("Unsqueeze", ["g", "start"], ["y"])],
}


@pytest.mark.parametrize("tail", TAILS)
def test_what_follows_a_length_that_data_decide(tail):
    n = helper.make_node
    nodes = [
        n("Relu", ["x"], ["d"]), n("Ceil", ["d"], ["c"]), n("ReduceSum", ["c", "axes"], ["n"], keepdims=0),
        n("Cast", ["n"], ["ni"], to=INT64), n("Range", ["zero", "ni", "one"], ["idx"]),
        n("Gather", ["table", "idx"], ["rows"]), n("Transpose", ["rows"], ["t"], perm=[1, 0]),
        n("Unsqueeze", ["t", "axis"], ["u"]), n("Conv", ["u", "w"], ["f"]), n("Shape", ["f"], ["s0"]),
        n("Gather", ["s0", "axis"], ["b1"]), n("Gather", ["s0", "last"], ["l1"]),
        n("Concat", ["b1", "nine", "l1"], ["shape"], axis=0), n("Reshape", ["f", "shape"], ["g"]),
        *TAILS[tail],
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    kind = INT64 if "largest" in tail else FLOAT
    rank = {"a new axis": 4}.get(tail, 2)
    proto = model(
        nodes, [("x", FLOAT, [1, "L"])], [("y", kind, [f"d{axis}" for axis in range(rank)])],
        axes=np.array([0, 1]), zero=np.array(0), one=np.array(1), minus=np.array(-2), axis=np.array([0]),
        last=np.array([2]), nine=np.array([9]), start=np.array([1]), stop=np.array([2]),
        table=rng.standard_normal((400, 8)).astype(np.float32),
        w=rng.standard_normal((9, 8, 1)).astype(np.float32),
    )  # fmt: skip
    for length in (12, 5):
        same(proto, {"x": np.abs(rng.standard_normal((1, length))).astype(np.float32) * 3})


def test_a_loop_whose_number_of_turns_is_an_input():
    n = helper.make_node
    body = onnx_graph(
        [n("Add", ["s", "s"], ["t"]), n("Identity", ["t"], ["u"]), n("Identity", ["c"], ["d"])],
        {"i": (INT64, []), "c": (9, []), "s": None},
        {"d": (9, []), "t": None, "u": None},
        name="body",
    )
    proto = model(
        [n("Loop", ["n", "", "x"], ["y", "z"], body=body)], [("n", INT64, []), ("x", FLOAT, ["a", "b"])],
        [("y", FLOAT, ["a", "b"]), ("z", FLOAT, ["k", "a", "b"])],
    )  # fmt: skip
    for turns in (3, 1):
        same(proto, {"n": np.array(turns), "x": np.ones((2, 3), np.float32)})


def test_a_reduction_whose_axes_are_an_input():
    proto = model(
        [helper.make_node("ReduceMin", ["x", "a"], ["y"], keepdims=0)],
        [("x", FLOAT, [2, 3, 4]), ("a", INT64, [2])], [("y", FLOAT, ["k"])],
    )  # fmt: skip
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    for axes in ([0, 2], [0, 1]):
        same(proto, {"x": x, "a": np.array(axes)})


@pytest.mark.parametrize("op_type", ["Tile", "Expand"])
def test_scalars_are_repeated_no_times_and_once(op_type):
    proto = model(
        [helper.make_node(op_type, ["x", "r"], ["y"])], [("x", FLOAT, [])], [("y", FLOAT, [])],
        r=np.zeros(0, np.int64),
    )  # fmt: skip
    same(proto, {"x": np.array(np.float32(1.5))})


@pytest.mark.parametrize(("weight", "bias"), [(7, 1), (1, 7), (1, 1)])
def test_one_number_for_all_elements_of_a_normalized_row(weight, bias):
    proto = model(
        [helper.make_node("LayerNormalization", ["x", "w", "b"], ["y"])], [("x", FLOAT, ["n", "m"])],
        [("y", FLOAT, ["n", "m"])], w=np.full(weight, 2, np.float32), b=np.full(bias, 3, np.float32),
    )  # fmt: skip
    same(proto, {"x": np.random.default_rng(0).standard_normal((2, 7)).astype(np.float32)})


def test_a_smooth_resize_of_integers():
    proto = model(
        [helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode="linear", antialias=1)],
        [("x", onnx.TensorProto.UINT8, ["a", "b", "h", "w"])], [("y", onnx.TensorProto.UINT8, None)],
        s=np.array([1, 1, 4, 4]),
    )  # fmt: skip
    same(proto, {"x": np.random.default_rng(0).integers(0, 256, (1, 1, 8, 8)).astype(np.uint8)})


@pytest.mark.parametrize("dtype", ["uint16", "int16", "uint32", "uint64"])
def test_constants_of_all_integers_are_saved(dtype, tmp_path):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    proto = model(
        [helper.make_node("Concat", ["x", "c"], ["y"], axis=0)], [("x", kind, [2, 2])],
        [("y", kind, [4, 2])], c=np.array([[1, 2], [3, np.iinfo(dtype).max]], dtype),
    )  # fmt: skip
    engine = intact.compile(proto)
    engine.save(tmp_path / "one.plan")
    x = np.ones((2, 2), dtype)
    again = intact.load(tmp_path / "one.plan").run({"x": x})["y"]
    np.testing.assert_array_equal(again, engine.run({"x": x})["y"], strict=True)
    assert again.max() == np.iinfo(dtype).max


def test_an_operator_that_nobody_knows_stops_the_build():
    proto = model(
        [helper.make_node("MyNorm", ["x"], ["y"], domain="acme", name="mine")], [("x", FLOAT, [2])],
        [("y", FLOAT, [2])],
    )  # fmt: skip
    proto.opset_import.append(helper.make_opsetid("acme", 1))
    with pytest.raises(
        UnsupportedError, match=r"node 'mine' \(MyNorm\): got acme::MyNorm, .*custom.register"
    ):
        lower(proto)


def test_weights_in_codes_of_onnx_runtime_are_no_float_model():
    rng = np.random.default_rng(0)
    node = helper.make_node(
        "MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft", K=64, N=24, bits=4, block_size=32
    )
    proto = model(
        [node], [("x", FLOAT, ["n", 64])], [("y", FLOAT, ["n", 24])],
        b=rng.integers(0, 256, (24, 2, 16)).astype(np.uint8), s=rng.random(48).astype(np.float32),
    )  # fmt: skip
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    plan = lower(proto)
    assert not plan.is_unquantized and not plan.dynamic
