"""Each rule on the smallest graph that shows it: which edges get pairs, and the reason where none do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from intact.placement import PROFILES


def image(n: Any, channels: int = 16, name: str = "x") -> str:
    return str(n.input(name, [1, channels, 8, 8]))


# weighted layers


@pytest.mark.parametrize("group", [1, 4])
def test_conv_transpose_keeps_a_scale_per_output_channel_where_groups_do_not_repeat_them(
    group: int, net: Callable[..., Any]
) -> None:
    n = net()
    w = n.random("w", 16, 4, 2, 2)
    p = n.place(n.node("ConvTranspose", image(n), w, name="up", group=group))
    assert p.edges() == {("up", 0)} and p.axis("w") == (1 if group == 1 else None)


@pytest.mark.parametrize(("trans", "shape", "want"), [(0, (16, 32), 1), (1, (32, 16), 0)])
def test_gemms_axis_follows_transb(
    trans: int, shape: tuple[int, int], want: int, net: Callable[..., Any]
) -> None:
    n = net()
    p = n.place(n.node("Gemm", n.input("x", [4, 16]), n.random("w", *shape), name="fc", transB=trans))
    assert p.axis("w") == want


def test_a_batch_of_matrices_keeps_one_scale(net: Callable[..., Any]) -> None:
    n = net()
    p = n.place(n.node("MatMul", n.input("x", [2, 4, 16]), n.random("w", 2, 16, 32), name="mm"))
    assert p.axis("w") is None and p.edges() == {("mm", 0)}


def test_a_bias_and_a_scale_per_channel_are_taken_in(net: Callable[..., Any]) -> None:
    n = net()
    y = n.conv(image(n), 32, name="conv")
    y = n.node("Mul", y, n.random("gain", 32, 1, 1), name="gain.mul")
    y = n.node("Add", n.random("shift", 1, 32, 1, 1), y, name="shift.add")
    assert n.place(n.act(y, "Relu", "relu")).layer("conv") == ("int8", "Conv+Mul+Add+Relu")


def test_a_constant_along_another_axis_is_not_a_bias(net: Callable[..., Any]) -> None:
    n = net()
    y = n.node("Add", n.conv(image(n), 32, name="conv"), n.random("position", 8, 8), name="add")
    assert n.place(y).layer("add") == ("float", "Add")


def test_nothing_stands_between_conv_batchnorm_and_activation(net: Callable[..., Any]) -> None:
    n = net()
    y = n.conv(n.conv(image(n), 16, name="a", bn=True, act="Relu6"), 16, name="b")
    p = n.place(y)
    assert p.edges() == {("a", 0), ("b", 0)} and p.layer("a") == ("int8", "Conv+BatchNormalization+Clip")


def product(n: Any, *weight: int) -> str:
    return str(n.node("MatMul", n.input("y", [4, weight[0]]), n.random("w", *weight), name="op"))


def integers(n: Any) -> str:
    w = n.weight("w", np.ones((16, 16), np.int32))
    y = n.node("MatMul", n.input("y", [4, 16], TensorProto.INT32), w, name="op")
    return str(n.node("Cast", y, name="cast", to=TensorProto.FLOAT))


def spectrum(n: Any, last: str = "Log") -> str:
    """A spectrogram by sums of products, in bands; `last` of its energies."""
    pair = n.conv(image(n, 1), 64, name="op")
    bands = n.node(
        "MatMul", n.node("Mul", pair, pair, name="squared"), n.weight("bands", np.ones((8, 16), np.float32))
    )
    return str(n.node(last, n.node("Add", bands, n.weight("least", np.array(1e-6, np.float32)))))


KEPT: dict[str, tuple[Callable[[Any], str], str]] = {
    "a computed weight": (
        lambda n: n.node("Conv", image(n), n.input("w", [16, 16, 1, 1]), name="op"),
        "its weight is not a constant: codes and scales cannot be stored",
    ),
    "a small K": (lambda n: product(n, 8, 32), "K = 8, below 16: too small to pay in int8"),
    "one column": (lambda n: product(n, 32, 1), "N = 1: a matrix-vector product, bound by memory"),
    "a vector": (lambda n: product(n, 32), "N = 1: a matrix-vector product, bound by memory"),
    "a spectrogram": (
        spectrum,
        "the logarithm of its results is taken: even steps have no codes for the small ones",
    ),
    "integers": (integers, "input 0 holds int32, not floats"),
}


@pytest.mark.parametrize("case", list(KEPT))
def test_a_layer_that_cannot_or_need_not_run_in_int8_says_why(case: str, net: Callable[..., Any]) -> None:
    n = net()
    write, why = KEPT[case]
    p = n.place(write(n))
    assert p.edges() == set() and p.reason("op") == why


def test_only_a_logarithm_keeps_what_stands_before_it_in_float(net: Callable[..., Any]) -> None:
    n = net()
    assert ("op", 0) in n.place(spectrum(n, "Sqrt")).edges()


@pytest.mark.parametrize("inner", ["Relu", "Sigmoid", "Exp"])
def test_a_logarithm_behind_an_activation_keeps_nothing_in_float(inner: str, net: Callable[..., Any]) -> None:
    n = net()
    y = n.node(inner, n.conv(image(n), 16, name="op"), name="act")
    assert ("op", 0) in n.place(n.node("Log", y, name="log")).edges()


def test_profiles_differ_in_what_is_too_small(net: Callable[..., Any]) -> None:
    n = net()
    y = n.conv(n.conv(image(n, 3), 8, name="first", act="Relu"), 16, name="second")
    assert n.place(y).layer("second")[0] == "int8"
    p = n.place(y, profile="tensorrt")
    assert p.layer("second")[0] == "float" and "8 channels, below 16" in p.reason("second")
    assert p.layer("first")[0] == "int8"  # it reads the network's input: large in area


# products of two activations


def test_both_operands_of_a_product_are_quantized(net: Callable[..., Any]) -> None:
    n = net()
    a, b = n.input("a", ["N", 32, 64]), n.input("b", ["N", 64, 32])
    p = n.place(n.node("MatMul", a, b, name="mm"))
    assert p.edges() == {("mm", 0), ("mm", 1)} and p.axis("a") is None


def test_long_sequences_stay_in_float_for_tensorrt(net: Callable[..., Any]) -> None:
    n = net()
    y = n.node("MatMul", n.input("a", [1, 1024, 64]), n.input("b", [1, 64, 1024]), name="mm")
    assert n.place(y, profile="tensorrt").reason("mm") == "a sequence of 1024, above 512: faster in float16"
    assert n.place(y).layer("mm")[0] == "int8"


# residual Adds


def block(n: Any, swapped: bool = False) -> str:
    x = n.conv(image(n), 16, name="stem", act="Relu")
    y = n.conv(n.conv(x, 16, name="a", act="Relu"), 16, name="b")
    y = n.node("Add", *((x, y) if swapped else (y, x)), name="add")
    return str(n.act(y, "Relu", "relu"))


@pytest.mark.parametrize("swapped", [False, True], ids=["conv first", "identity first"])
@pytest.mark.parametrize("profile", list(PROFILES))
def test_the_identity_branch_alone_is_quantized(swapped: bool, profile: str, net: Callable[..., Any]) -> None:
    n = net()
    p = n.place(n.conv(block(n, swapped), 16, name="next"), profile=profile)
    assert {e for e in p.edges() if e[0] == "add"} == {("add", 0 if swapped else 1)}
    assert p.layer("add") == ("int8", "Conv+Add+Relu") and p.layer("add") == p.layer("b")


@pytest.mark.parametrize("swapped", [False, True], ids=["long way first", "short way first"])
def test_of_two_convolutions_the_one_with_the_longer_way_takes_the_add_in(
    swapped: bool, net: Callable[..., Any]
) -> None:
    n = net()
    x = n.conv(image(n), 16, name="stem", act="Relu")
    long = n.conv(n.conv(x, 16, name="a", act="Relu"), 16, name="b")
    short = n.conv(x, 16, 1, name="down")
    y = n.node("Add", *((short, long) if swapped else (long, short)), name="add")
    p = n.place(n.conv(n.act(y, "Relu", "relu"), 16, name="next"))
    assert p.layer("b") == ("int8", "Conv+Add+Relu") and p.layer("down") == ("int8", "Conv")
    assert {e for e in p.edges() if e[0] == "add"} == {("add", 0 if swapped else 1)}


def test_branches_from_two_inputs_still_choose_the_longer_one(net: Callable[..., Any]) -> None:
    n = net()
    short = n.conv(image(n), 16, name="short")
    long = n.conv(n.conv(image(n, name="z"), 16, name="a"), 16, name="b")
    p = n.place(n.conv(n.node("Add", short, long, name="add"), 16, name="next"))
    assert p.layer("add") == ("int8", "Conv+Add") and p.layer("add") == p.layer("b")


def test_an_add_whose_output_stays_float_gets_no_pair(net: Callable[..., Any]) -> None:
    n = net()
    p = n.place(block(n))
    assert {e for e in p.edges() if e[0] == "add"} == set()
    assert p.layer("add") == ("float", "Add+Relu") and p.layer("b") == ("int8", "Conv")
    assert (
        p.reason("add") == "its output is read in float, by a graph output: int8 inside would only add error"
    )


def test_a_convolution_that_others_read_does_not_take_the_add_in(net: Callable[..., Any]) -> None:
    n = net()
    x = image(n)
    y = n.conv(x, 16, name="a")
    s = n.node("Add", y, x, name="add")
    out = n.node("Concat", n.conv(s, 16, name="b"), n.conv(y, 16, name="c"), name="cat", axis=1)
    p = n.place(out)
    assert p.layer("add") == ("int8", "Add") and {("add", 0), ("add", 1)} <= p.edges()


def test_an_add_that_broadcasts_is_no_residual(net: Callable[..., Any]) -> None:
    n = net()
    x = image(n)
    y = n.node("Add", n.conv(x, 16, name="a"), n.input("g", [1, 16, 1, 1]), name="add")
    p = n.place(n.conv(y, 16, name="b"))
    assert {("add", 0), ("add", 1)} <= p.edges() and p.layer("add") == ("int8", "Add")


def test_doubling_a_tensor_is_no_residual(net: Callable[..., Any]) -> None:
    n = net()
    y = n.conv(image(n), 16, name="a")
    p = n.place(n.conv(n.node("Add", y, y, name="add"), 16, name="b"))
    assert p.layer("add") == ("int8", "Add") and {("add", 0), ("add", 1)} <= p.edges()


# elementwise


def test_mul_runs_in_int8_where_the_engine_has_it(net: Callable[..., Any]) -> None:
    n = net()
    x = n.conv(image(n), 16, name="a", act="Relu")
    y = n.conv(n.node("Mul", x, n.conv(x, 16, name="g", act="Sigmoid"), name="mul"), 16, name="b")
    assert n.place(y).layer("mul") == ("int8", "Mul")
    p = n.place(y, profile="tensorrt")
    assert p.reason("mul") == "tensorrt has no int8 Mul" and p.layer("mul") == ("float", "Mul")


def test_a_sum_of_float_tensors_stays_float(net: Callable[..., Any]) -> None:
    n = net()
    a, b = n.node("Exp", image(n), name="e1"), n.node("Exp", image(n, name="z"), name="e2")
    p = n.place(n.conv(n.node("Add", a, b, name="add"), 16, name="b"))
    assert p.reason("add") == "both operands come in float, from Exp 'e1' and Exp 'e2'"


def test_scaling_by_one_number_passes_codes_through_a_table(net: Callable[..., Any]) -> None:
    n = net()
    x = n.node("MaxPool", n.conv(image(n), 16, name="a", act="Relu"), name="pool", kernel_shape=[2, 2])
    y = n.node("Mul", x, n.weight("half", np.float32(0.5)), name="mul")
    p = n.place(n.conv(y, 16, name="b"))
    assert p.layer("mul") == ("int8", "Mul") and p.edges() == {("a", 0), ("pool", 0), ("b", 0)}


# pools


@pytest.mark.parametrize("op", ["GlobalAveragePool", "AveragePool"])
def test_average_pools_are_quantized_on_both_sides(op: str, net: Callable[..., Any]) -> None:
    n = net()
    attributes = {"kernel_shape": [2, 2]} if op == "AveragePool" else {}
    x = n.conv(image(n), 16, name="a", act="Relu")
    p = n.place(n.conv(n.node(op, x, name="pool", **attributes), 16, name="b"))
    assert p.edges() == {("a", 0), ("pool", 0), ("b", 0)} and p.layer("pool") == ("int8", op)


def test_a_pool_that_ends_the_network_stays_float(net: Callable[..., Any]) -> None:
    n = net()
    p = n.place(n.node("GlobalAveragePool", n.conv(image(n), 16, name="a"), name="pool"))
    assert p.layer("pool")[0] == "float" and "by a graph output" in p.reason("pool")


@pytest.mark.parametrize(("axes", "int8"), [([2, 3], True), ([-1, -2], True), ([1], False), ([3], False)])
def test_a_mean_over_height_and_width_is_a_pool(axes: list[int], int8: bool, net: Callable[..., Any]) -> None:
    n = net(13)
    x = n.conv(image(n), 16, name="a")
    p = n.place(n.conv(n.node("ReduceMean", x, name="mean", axes=axes), 16, name="b"))
    assert p.layer("mean") == ("int8" if int8 else "float", "ReduceMean")


def test_a_mean_with_its_axes_as_an_input_is_a_pool_too(net: Callable[..., Any]) -> None:
    n = net(18)
    x = n.conv(image(n), 16, name="a")
    p = n.place(n.conv(n.node("ReduceMean", x, n.shape("axes", 2, 3), name="mean"), 16, name="b"))
    assert p.layer("mean")[0] == "int8"


# what only moves data


MOVES: dict[str, Callable[[Any, str], str]] = {
    "MaxPool": lambda n, x: n.node("MaxPool", x, name="op", kernel_shape=[2, 2]),
    "Transpose": lambda n, x: n.node("Transpose", x, name="op", perm=[0, 1, 3, 2]),
    "Reshape": lambda n, x: n.node("Reshape", x, n.shape("s", 1, 16, 4, 16), name="op"),
    "Slice": lambda n, x: n.node("Slice", x, n.shape("f", 0), n.shape("t", 4), n.shape("ax", 2), name="op"),
    "Pad": lambda n, x: n.node("Pad", x, n.shape("p", 0, 0, 1, 1, 0, 0, 1, 1), name="op"),
    "Pad edge": lambda n, x: n.node("Pad", x, n.shape("p", 0, 0, 1, 1, 0, 0, 1, 1), name="op", mode="edge"),
    "Resize": lambda n, x: n.node("Resize", x, "", n.weight("s", np.float32([1, 1, 2, 2])), name="op"),
    "Identity": lambda n, x: n.node("Identity", x, name="op"),
    "Dropout": lambda n, x: n.node("Dropout", x, name="op"),
    "SpaceToDepth": lambda n, x: n.node("SpaceToDepth", x, name="op", blocksize=1),
    "GlobalMaxPool": lambda n, x: n.node("GlobalMaxPool", x, name="op"),
}


@pytest.mark.parametrize("op", list(MOVES))
def test_q_moves_up_through_what_only_moves_data(op: str, net: Callable[..., Any]) -> None:
    n = net()
    x = n.conv(image(n), 16, name="a", act="Relu")
    p = n.place(n.conv(MOVES[op](n, x), 16, name="b"))
    assert p.edges() == {("a", 0), ("op", 0)} and p.layer("op")[0] == "int8" and p.layer("b")[0] == "int8"


def test_onnx_runtime_keeps_a_pair_on_both_sides_with_one_scale(net: Callable[..., Any]) -> None:
    n = net()
    x = n.conv(image(n), 16, name="a", act="Relu")
    p = n.place(n.conv(MOVES["MaxPool"](n, x), 16, name="b"), profile="onnxruntime")
    groups = {s.value: s.group for s in p.sites}
    assert p.edges() == {("a", 0), ("op", 0), ("b", 0)} and groups["a.act"] == groups["op"] != groups["x"]


STAYS: dict[str, tuple[Callable[[Any, str], str], str]] = {
    "Resize linear": (
        lambda n, x: n.node("Resize", x, "", n.weight("s", np.float32([1, 1, 2, 2])), name="op",
                            mode="linear"),
        "it interpolates (linear): new values between the codes",
    ),
    "Pad with 1": (
        lambda n, x: n.node("Pad", x, n.shape("p", *[0] * 8), n.weight("v", np.float32(1)), name="op"),
        "it pads with 1, which is no code of every grid; 0 is",
    ),
    "Pad with an input": (
        lambda n, x: n.node("Pad", x, n.shape("p", *[0] * 8), n.input("v", []), name="op"),
        "it pads with a value that is computed",
    ),
    "a read of floats": (
        lambda n, x: n.node("Softmax", n.node("Identity", x, name="op"), name="soft"),
        "its output is read in float, by Softmax 'soft'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", list(STAYS))
def test_what_makes_new_values_or_is_read_in_float_stays(case: str, net: Callable[..., Any]) -> None:
    n = net()
    write, why = STAYS[case]
    x = n.conv(image(n), 16, name="a", act="Relu")
    y = write(n, x)
    n._channels[y] = 16
    p = n.place(n.conv(y, 16, name="b"))
    assert p.reason("op") == why and ("op", 0) not in p.edges() and ("b", 0) in p.edges()


def test_a_max_pool_whose_indices_are_used_stays(net: Callable[..., Any]) -> None:
    n = net()
    x = n.conv(image(n), 16, name="a", act="Relu")
    y, where = n.node("MaxPool", x, name="op", outputs=2, kernel_shape=[2, 2])
    p = n.place(n.conv(y, 16, name="b"), f"{where}#")
    assert p.reason("op") == "its indices are used, and equal codes would change them"


def test_a_table_that_is_looked_up_stays(net: Callable[..., Any]) -> None:
    n = net()
    x = n.node("Gather", n.random("table", 100, 32), n.input("ids", [1, 8], TensorProto.INT64), name="op")
    p = n.place(n.linear(x, 32, 32, name="fc"))
    assert p.reason("op") == "it moves a constant: a table, or a part that no layer writes"
    assert p.edges() == {("fc", 0)}


def test_a_split_is_moved_through_where_all_its_parts_are_quantized(net: Callable[..., Any]) -> None:
    n = net()
    x = n.conv(image(n), 32, name="a")
    u, v = n.node("Split", x, n.shape("sizes", 16, 16), name="split", outputs=2, axis=1)
    n._channels |= {u: 16, v: 16}
    p = n.place(n.conv(u, 16, name="b"), n.conv(v, 16, name="c"))
    assert p.edges() == {("a", 0), ("split", 0)} and p.layer("split") == ("int8", "Split")


# one scale


def test_all_readers_of_a_tensor_share_one_site(net: Callable[..., Any]) -> None:
    n = net()
    x = n.conv(image(n), 16, name="a", act="Relu")
    p = n.place(n.conv(x, 16, name="b"), n.conv(x, 16, name="c"), n.node("Softmax", x, name="soft"))
    assert [s.readers for s in p.sites if s.value == "a.act"] == [(("b", 0), ("c", 0))]


def test_concats_join_their_inputs_scales_through_each_other(net: Callable[..., Any]) -> None:
    n = net()
    a, b, c = (n.conv(image(n, name=f"x{i}"), 16, name=i, act="Relu") for i in "abc")
    inner = n.node("Concat", a, b, name="inner", axis=1)
    outer = n.node("Concat", inner, c, name="outer", axis=1)
    n._channels[outer] = 48
    p = n.place(n.conv(outer, 16, name="next"))
    groups = {s.value: s.group for s in p.sites if s.role == "activation"}
    assert (
        groups["a.act"] == groups["b.act"] == groups["c.act"] and len({groups[f"x{i}"] for i in "abc"}) == 3
    )


def _groups(p: Any) -> dict[str, int]:
    return {s.value: s.group for s in p.sites if s.role == "activation"}


def test_a_part_of_a_concat_that_others_read_keeps_its_grid(net: Callable[..., Any]) -> None:
    n = net()
    a, b = (n.conv(image(n, name=f"x{i}"), 16, name=i, act="Relu") for i in "ab")
    cat = n.node("Concat", a, b, name="cat", axis=1)
    n._channels[cat] = 32
    flat = n.node("Transpose", cat, name="flat", perm=[0, 1, 3, 2])
    outputs = n.conv(flat, 16, name="next"), n.conv(a, 16, name="other")
    groups = _groups(n.place(*outputs))
    assert groups["cat"] == groups["b.act"] != groups["a.act"] and "flat" not in groups
    for profile in ("tensorrt", "openvino", "onnxruntime"):
        groups = _groups(n.place(*outputs, profile=profile))
        assert groups["a.act"] == groups["b.act"], profile


def test_a_part_that_is_moved_on_its_way_to_a_concat_keeps_its_grid(net: Callable[..., Any]) -> None:
    n = net()
    a, b = (n.conv(image(n, name=f"x{i}"), 16, name=i, act="Relu") for i in "ab")
    moved = n.node("Transpose", a, name="moved", perm=[0, 1, 3, 2])
    cat = n.node("Concat", moved, b, name="cat", axis=1)
    n._channels[cat] = 32
    groups = _groups(n.place(n.conv(cat, 16, name="next"), n.conv(a, 16, name="other")))
    assert groups["cat"] == groups["b.act"] != groups["a.act"] and "moved" not in groups


def test_what_two_concats_read_keeps_its_grid_and_one_that_reads_twice_shares_it(
    net: Callable[..., Any],
) -> None:
    n = net()
    a, b, c = (n.conv(image(n, name=f"x{i}"), 16, name=i, act="Relu") for i in "abc")
    item = n.node("Concat", a, b, name="one", axis=1)
    two = n.node("Concat", a, c, c, name="two", axis=1)
    n._channels.update(one=32, two=48)
    groups = _groups(n.place(n.conv(item, 16, name="next"), n.conv(two, 16, name="other")))
    assert groups["one"] == groups["b.act"] and groups["two"] == groups["c.act"]
    assert len({groups["a.act"], groups["b.act"], groups["c.act"]}) == 3


def test_a_concat_with_a_constant_keeps_its_pair_behind(net: Callable[..., Any]) -> None:
    n = net()
    x = n.node("Concat", n.conv(image(n), 16, name="a"), n.random("grid", 1, 16, 8, 8), name="cat", axis=1)
    n._channels[x] = 32
    p = n.place(n.conv(x, 16, name="b"))
    assert p.edges() == {("a", 0), ("b", 0)} and p.layer("cat")[0] == "float"


# tables


def test_a_function_between_int8_layers_is_a_table(net: Callable[..., Any]) -> None:
    n = net()
    x = n.node("Concat", n.conv(image(n), 16, name="a"), n.conv("x", 16, name="b"), name="cat", axis=1)
    n._channels[x] = 32
    y = n.conv(n.node("Sigmoid", x, name="op"), 16, name="c")
    p = n.place(y)
    assert p.layer("op") == ("int8", "Sigmoid") and p.layer("cat")[0] == "int8"
    assert n.place(y, profile="openvino").reason("op") == "openvino has no int8 Sigmoid of its own"


def test_a_function_of_a_float_tensor_stays_float(net: Callable[..., Any]) -> None:
    n = net()
    x = n.node("LpNormalization", n.conv(image(n), 16, name="a"), name="norm")
    p = n.place(n.conv(n.node("Relu", x, name="op"), 16, name="b"))
    assert p.reason("op") == "its input comes in float, from LpNormalization 'norm'"
    assert ("norm", 0) not in p.edges() and ("b", 0) in p.edges()


# normalizations


def test_tensorrt_wants_a_convolution_to_write_int8_for_a_normalization(net: Callable[..., Any]) -> None:
    n = net()
    y = n.node("LayerNormalization", n.conv(image(n), 16, name="a"), n.random("g", 8), name="norm")
    p = n.place(y, profile="tensorrt")
    assert ("norm", 0) in p.edges() and p.layer("norm") == ("float", "LayerNormalization")
    assert p.reason("a").endswith("it writes int8")
    assert n.place(y).edges() == {("a", 0)}


# float


@pytest.mark.parametrize(
    ("op", "why"),
    [
        ("Softmax", "its exponentials need float; what reads it may quantize it"),
        ("Exp", "no rule runs it in int8"),
    ],
)
def test_other_operators_say_why_they_stay(op: str, why: str, net: Callable[..., Any]) -> None:
    n = net()
    assert n.place(n.node(op, image(n), name="op")).reason("op") == why
