"""Q/DQ files as other tools write them: what runs in int8 there, and what keeps it from more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from intact.graph import Mark, emit_qdq, load, mark
from intact.placement import Placement, place, read_placement
from intact.spec import QuantSpec


class Writer:
    """A net with pairs in it."""

    def __init__(self, net: Any) -> None:
        self.net = net

    def pair(self, x: str, name: str, scale: float = 0.1, dtype: str = "int8") -> str:
        n = self.net
        s, z = (
            n.weight(f"{name}.s", np.float32(scale)),
            n.weight(f"{name}.z", np.array(0, getattr(ml_dtypes, dtype, dtype))),
        )
        y: str = n.node(
            "DequantizeLinear", n.node("QuantizeLinear", x, s, z, name=f"{name}.q"), s, z, name=name
        )
        n._channels[y] = n._channels.get(x, 0)
        return y

    def conv(self, x: str, name: str) -> str:
        n = self.net
        w = self.pair(n.random(f"{name}.w", 16, 16, 1, 1), f"{name}.wq")
        y: str = n.node("Conv", x, w, name=name)
        n._channels[y] = 16
        return y

    def input(self, name: str = "x") -> str:
        return str(self.net.input(name, [1, 16, 8, 8]))


@pytest.fixture
def w(net: Callable[..., Any]) -> Writer:
    return Writer(net(21))


def read(w: Writer, *outputs: str) -> Placement:
    return read_placement(load(w.net.proto(*outputs)))


def layer(p: Placement, name: str) -> tuple[str, str]:
    result = next(x for x in p.layers if name in x.nodes)
    return result.precision, result.fused


def reason(p: Placement, name: str) -> str:
    return next(x.reason for x in p.layers if name in x.nodes)


def test_a_layer_with_one_input_in_float_runs_in_float(w: Writer) -> None:
    p = read(w, w.conv(w.input(), "conv"))
    assert layer(p, "conv") == ("float", "Conv")
    assert reason(p, "conv") == (
        "weights alone are quantized (int8), so that it computes in float: "
        "its input 0 ('x') does not come through DequantizeLinear"
    )
    p = read(w, w.net.conv(w.pair("x", "p"), 16, 1, name="other"))
    assert reason(p, "other") == "its input 1 ('other.w') does not come through DequantizeLinear"


def test_16_bits_are_floats_on_a_grid(w: Writer) -> None:
    """In front, on a weight, through a move, and behind."""
    n = w.net
    x = n.node("Transpose", w.pair(n.input("x", [1, 4, 16]), "p", dtype="int16"), name="turn", perm=[0, 2, 1])
    weights = [
        w.pair(n.random(f"w{i}", 4, 4), f"w{i}.p", dtype=d) for i, d in enumerate(("int8", "uint16", "int8"))
    ]
    y = n.node("MatMul", x, weights[0], name="first")
    y = n.node("MatMul", w.pair(y, "q"), weights[1], name="second")
    y = n.node("MatMul", w.pair(y, "r"), weights[2], name="third")
    p = read(w, n.node("Relu", w.pair(y, "s", dtype="uint16"), name="last"))
    reasons = {result.name: (result.precision, result.reason) for result in p.layers}
    assert reasons["first"][0] == "float" and reasons["turn"][0] == "float"
    assert reasons["second"] == (
        "float", "its input 1 ('w1') comes in uint16, and integer kernels take 8 bits"
    )  # fmt: skip
    assert reasons["third"][0] == "int8" and "it writes float" in reasons["third"][1]
    assert reasons["last"][0] == "float" and "comes in uint16" in reasons["last"][1]


@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_codes_of_16_bits_times_weights_of_8_are_integers(w: Writer, dtype: str) -> None:
    n = w.net
    weights = [w.pair(n.random(f"w{i}", 4, 4), f"w{i}.p", dtype=d) for i, d in enumerate(("int8", "int16"))]
    x = w.pair(n.input("x", [4, 4]), "p", dtype=dtype)
    y = n.node(
        "MatMul", w.pair(n.node("MatMul", x, weights[0], name="a"), "q", dtype=dtype), weights[1], name="b"
    )
    p = read(w, n.node("MatMul", w.pair(y, "r"), w.pair(n.node("Relu", x), "s", dtype=dtype), name="c"))
    result = {item.name: (item.precision, item.reason) for item in p.layers}
    assert result["a"] == (
        "int8",
        "it multiplies codes of 16 bits by int8 weights, in integers; it writes float",
    )
    assert result["b"][0] == result["c"][0] == "float"


def test_an_output_may_stay_in_float(w: Writer) -> None:
    p = read(w, w.conv(w.pair(w.input(), "p"), "conv"))
    assert reason(p, "conv") == "all its inputs come in int8; it writes float"


def test_an_output_behind_a_pair_is_written_in_int8(w: Writer) -> None:
    p = read(w, w.pair(w.net.node("Relu", w.conv(w.pair(w.input(), "p"), "conv"), name="relu"), "out"))
    assert layer(p, "conv") == ("int8", "Conv+Relu")
    assert reason(p, "conv") == "all its inputs come in int8; it writes int8"


def test_a_sum_needs_a_pair_behind_it_too(w: Writer) -> None:
    y = w.net.node("Add", w.pair(w.input(), "p"), w.pair(w.input("z"), "q"), name="add")
    assert reason(read(w, y), "add") == (
        "its output ('add') goes on in float: a QuantizeLinear is missing behind it"
    )


def test_pairs_on_both_branches_leave_the_add_alone_and_say_so(w: Writer) -> None:
    x = w.pair(w.input(), "p")
    y = w.pair(w.net.node("Add", w.pair(w.conv(x, "conv"), "q"), x, name="add"), "out")
    p = read(w, y)
    assert layer(p, "add") == ("int8", "Add") and layer(p, "conv") == ("int8", "Conv")
    assert reason(p, "add").endswith("; Q/DQ on both inputs of Add 'add' keep Conv 'conv' from taking it in")


def test_a_pair_in_front_of_relu_splits_the_layer_and_says_so(w: Writer) -> None:
    y = w.pair(w.conv(w.pair(w.input(), "p"), "conv"), "q")
    p = read(w, w.pair(w.net.node("Relu", y, name="relu"), "out"))
    assert layer(p, "conv") == ("int8", "Conv") and layer(p, "relu") == ("int8", "Relu")
    assert "a pair stands between Conv 'conv' and its Relu" in reason(p, "conv")


def test_sites_of_one_scale_are_one_group(w: Writer) -> None:
    x = w.pair(w.input(), "p", 0.3)
    a, b, c = (w.pair(w.conv(x, name), f"{name}.p", s) for name, s in (("a", 0.1), ("b", 0.1), ("c", 0.2)))
    p = read(w, w.net.node("Concat", a, b, c, name="cat", axis=1))
    groups = {s.value: s.group for s in p.sites if s.role == "activation"}
    assert groups["a"] == groups["b"] and len({groups["x"], groups["a"], groups["c"]}) == 3
    assert "have different scales" in reason(p, "cat")


def test_readers_with_scales_of_their_own_are_sites_of_their_own(w: Writer) -> None:
    x = w.input()
    p = read(w, w.conv(w.pair(x, "p", 0.1), "a"), w.conv(w.pair(x, "q", 0.2), "b"))
    assert [s.readers for s in p.sites if s.value == "x"] == [(("a", 0),), (("b", 0),)]


def test_codes_may_be_pooled_as_they_are(w: Writer) -> None:
    n = w.net
    s, z = n.weight("s", np.float32(0.1)), n.weight("z", np.int8(0))
    q = n.node("QuantizeLinear", w.input(), s, z, name="q")
    pool = n.node("MaxPool", q, name="pool", kernel_shape=[2, 2])
    x = n.node("DequantizeLinear", pool, s, z, name="dq")
    n._channels[x] = 16
    p = read(w, w.conv(x, "conv"))
    assert layer(p, "pool") == ("int8", "MaxPool") and layer(p, "conv") == ("int8", "Conv")


def test_q_behind_a_reshape_is_taken_up_through_it(w: Writer) -> None:
    n = w.net
    y = n.node("AveragePool", w.pair(w.input(), "p"), name="pool", kernel_shape=[2, 2])
    y = n.node("Reshape", y, n.shape("s", 1, 16, 49, 1), name="reshape")
    p = read(w, w.conv(w.pair(y, "q"), "conv"))
    assert layer(p, "pool")[0] == "int8" and layer(p, "reshape")[0] == "int8"


def test_a_bias_stored_as_codes_is_a_bias(w: Writer) -> None:
    n = w.net
    s = n.weight("b.s", np.float32(0.01))
    b = n.node("DequantizeLinear", n.weight("b.c", np.ones(16, np.int32)), s, name="b.dq")
    weight = w.pair(n.random("c.w", 16, 16, 1, 1), "c.wq")
    p = read(w, n.node("Conv", w.pair(w.input(), "p"), weight, b, name="conv"))
    assert layer(p, "conv") == ("int8", "Conv")


def test_weights_behind_a_transpose_are_weights(w: Writer) -> None:
    n = w.net
    weight = n.node("Transpose", w.pair(n.random("w", 32, 16), "w.p"), name="turn", perm=[1, 0])
    p = read(w, n.node("MatMul", w.pair(n.input("x", [4, 16]), "p"), weight, name="mm"))
    assert layer(p, "mm") == ("int8", "MatMul") and [x.name for x in p.layers] == ["mm"]


def half(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same network in float16."""
    del proto.graph.value_info[:]
    for tensor in proto.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for info in (*proto.graph.input, *proto.graph.output):
        info.CopyFrom(helper.make_tensor_value_info(info.name, TensorProto.FLOAT16, None))
    return proto


def test_casts_around_the_pairs_of_a_half_network_are_part_of_the_pairs(net: Callable[..., Any]) -> None:
    n = net(17)
    x = n.conv(n.input("x", [1, 16, 8, 8]), 16, name="a", act="Relu")
    y = n.act(n.node("Add", n.conv(x, 16, name="b"), x, name="add"), "Relu", "relu")
    proto = half(n.proto(n.conv(y, 16, name="c")))
    placed, model = place(load(proto)), load(proto)
    mark(model, [Mark(s.value, s.readers, QuantSpec(), np.float32(1)) for s in placed.sites])
    emit_qdq(model, 17)
    assert sum(node.op_type == "Cast" for node in model.graph) > 0
    assert [(x.nodes, x.precision, x.fused) for x in read_placement(model).layers] == [
        (x.nodes, x.precision, x.fused) for x in placed.layers
    ]


@pytest.mark.parametrize(("profile", "precision"), [("intact", "float"), ("tensorrt", "int8")])
def test_codes_that_are_floats_are_floats_where_no_kernel_multiplies_them(
    w: Writer, profile: str, precision: str
) -> None:
    n = w.net
    weight = w.pair(n.random("w", 32, 32), "w.p", dtype="float8_e4m3fn")
    y = n.node("MatMul", w.pair(n.input("x", [4, 32]), "p", dtype="float8_e4m3fn"), weight, name="a")
    (layers,) = read_placement(load(w.net.proto(y)), profile).layers
    assert layers.precision == precision
    assert ("comes in float8e4m3fn, and integer kernels take int8" in layers.reason) == (precision == "float")


def test_a_weight_in_blocks_is_multiplied_in_floats(w: Writer) -> None:
    n = w.net
    codes, scales = n.weight("w", np.ones((32, 4), np.int8)), n.weight("s", np.ones((2, 4), np.float32))
    weight = n.node("DequantizeLinear", codes, scales, axis=0, block_size=16)
    (layers,) = read(w, n.node("MatMul", w.pair(n.input("x", [4, 32]), "p"), weight, name="a")).layers
    assert layers.precision == "float" and "has a scale for each block" in layers.reason
