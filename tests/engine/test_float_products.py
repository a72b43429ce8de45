"""Products and convolutions of floats in an engine: what runs, its bits, a tolerance to others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import intact
from intact.engine import Plan, Tensor
from intact.engine.files.limits import check_limits
from intact.engine.steps import FloatConv, FloatLinear, FloatMatMul
from intact.errors import FileFormatError, QuantValueError


def inner(lowered: Any) -> list[str]:
    """Kinds of steps, but those that only move."""
    return [kind for kind in lowered.kinds if kind not in ("reshape", "transpose")]


@pytest.mark.rule("N51")
@pytest.mark.parametrize("sizes", [[3, 7], [2, 5, 7], [2, 1, 3, 7], ["n", 7]], ids=str)
def test_matmul_with_a_weight_takes_the_bias_in(qdq, lower_graph, sizes):
    g = qdq()
    product = g.node("MatMul", g.input("x", sizes), g.floats(7, 9))
    lowered = lower_graph(g, g.node("Relu", g.node("Add", g.floats(9), product)), sizes={"n": 4}).agree()
    assert lowered.kinds == ["float_linear", "function"]
    assert lowered.step("float_linear").bias


def test_a_bias_that_is_no_row_stays_a_sum(qdq, lower_graph):
    g = qdq()
    product = g.node("MatMul", g.input("x", [4, 7]), g.floats(7, 4))
    lowered = lower_graph(g, g.node("Add", product, g.floats(4, 1))).agree()
    assert lowered.kinds == ["float_linear", "binary"]


@pytest.mark.parametrize(
    ("a", "b"), [((5, 7), (7, 4)), ((2, 3, 5, 7), (3, 7, 4)), ((3, 1, 5, 7), (2, 7, 4)), ((2, 5, 7), (7, 4))]
)
def test_matmul_of_two_tensors_broadcasts(qdq, lower_graph, a, b):
    g = qdq()
    lowered = lower_graph(g, g.node("MatMul", g.input("a", a), g.input("b", b))).agree()
    assert lowered.kinds == ["float_matmul"]


def test_a_constant_on_the_left_is_a_product_too(qdq, lower_graph):
    g = qdq()
    lowered = lower_graph(g, g.node("MatMul", g.floats(6, 7), g.input("b", [2, 7, 3]))).agree()
    assert lowered.kinds == ["float_matmul"]


@pytest.mark.rule("N51")
@pytest.mark.parametrize("right", ["constant", "tensor"])
@pytest.mark.parametrize(
    ("a", "b"),
    [((5, 7), (7,)), ((2, 3, 5, 7), (7,)), ((7,), (7,)), ((7,), (7, 4)), ((7,), (2, 7, 4)), (("n", 7), (7,))],
)
def test_vectors_are_multiplied_as_matrices(qdq, lower_graph, a, b, right):
    g = qdq()
    second = g.floats(*b) if right == "constant" else g.input("b", b)
    lowered = lower_graph(g, g.node("MatMul", g.input("a", a), second), sizes={"n": 4}).agree()
    assert set(inner(lowered)) <= {"float_linear", "float_matmul"}


def test_attention_reads_heads_where_they_lie(qdq, lower_graph):
    """[B, T, H, D] as [B, H, T, D], its transposed form, and what comes back: nothing is copied."""
    g = qdq()
    heads = [g.node("Exp", g.input(name, [2, 5, 3, 8])) for name in "qkv"]
    q, v = (g.node("Transpose", x, perm=[0, 2, 1, 3]) for x in (heads[0], heads[2]))
    scores = g.node("MatMul", q, g.node("Transpose", heads[1], perm=[0, 2, 3, 1]))
    product = g.node("MatMul", g.node("Softmax", scores, axis=-1), v)
    lowered = lower_graph(g, g.node("Relu", g.node("Transpose", product, perm=[0, 2, 1, 3]))).agree(1e-4)
    assert inner(lowered) == ["function"] * 3 + ["float_matmul", "softmax", "float_matmul", "function"]


@pytest.mark.parametrize("trans", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("right", ["constant", "tensor"])
@pytest.mark.parametrize("added", [None, (9,), (1, 1), (5, 1)])
def test_gemm(qdq, lower_graph, trans, right, added):
    g = qdq()
    a = g.input("a", (7, 5) if trans[0] else (5, 7))
    sizes = (9, 7) if trans[1] else (7, 9)
    b = g.floats(*sizes) if right == "constant" else g.input("b", sizes)
    factors = {"alpha": 0.5, "beta": 2.0} if right == "constant" and added != (5, 1) else {}
    third = [] if added is None else [g.floats(*added)]
    y = g.node("Gemm", a, b, *third, transA=trans[0], transB=trans[1], **factors)
    lowered = lower_graph(g, y).agree()
    assert set(inner(lowered)) <= {"float_linear", "float_matmul", "binary"}


@pytest.mark.rule("N51")
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("attributes", [
    {"pads": [1, 2, 0, 1], "strides": [2, 1]}, {"dilations": [1, 2]},
    {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
], ids=["pads", "dilations", "same"])  # fmt: skip
def test_convolutions_of_images_in_a_row(qdq, lower_graph, groups, attributes):
    g = qdq()
    x = g.input("x", [2, 4, 9, 8])
    y = g.node("Conv", x, g.floats(8, 4 // groups, 3, 3), g.floats(8), group=groups, **attributes)
    y = g.node("Conv", g.node("Tanh", y), g.floats(8, 1, 2, 2), group=8, pads=[0, 1, 1, 0])
    lowered = lower_graph(g, g.node("Concat", y, g.node("Conv", y, g.floats(3, 8, 1, 1)), axis=1)).agree(1e-4)
    assert inner(lowered)[:3] == ["float_conv", "function", "float_conv"] and "onnx" not in lowered.kinds


def test_padding_in_front_is_part_of_it(qdq, lower_graph):
    g = qdq()
    pads = g.constant(np.array([0, 0, 1, 2, 0, 0, 0, 1]))
    x = g.node("Pad", g.input("x", [1, 2, 5, 5]), pads)
    lowered = lower_graph(g, g.node("Conv", x, g.floats(3, 2, 3, 3), pads=[1, 1, 1, 1])).agree()
    assert lowered.kinds == ["float_conv"] and lowered.step("float_conv").pads == (2, 3, 1, 2)


def test_convolution_of_a_sequence(qdq, lower_graph):
    g = qdq()
    y = g.node("Conv", g.input("x", [2, 3, "l"]), g.floats(5, 3, 4), g.floats(5), pads=[2, 1], strides=[2])
    assert inner(lower_graph(g, y, sizes={"l": 19}).agree()) == ["float_conv"]


def test_between_codes_it_has_no_subgraph(qdq, lower_graph):
    """A layer left in float among others reads dequantized codes, and its outputs are quantized again."""
    g = qdq()
    y = g.node("Relu", g.conv(g.pair(g.input("x", [1, 3, 6, 6])), 3, 8))
    y = g.node("Conv", g.pair(y), g.floats(8, 8, 3, 3), pads=[1, 1, 1, 1])
    lowered = lower_graph(g, g.pair(g.conv(g.pair(y, 0.3), 8, 4), 0.2)).agree()
    assert lowered.kinds.count("float_conv") == 1 and lowered.kinds.count("conv") == 2
    assert "onnx" not in lowered.kinds
    (layer,) = (layer for layer in lowered.plan.layers if layer.precision == "float")
    assert layer.op_type == "Conv" and "does not come through DequantizeLinear" in layer.reason


def test_beside_what_onnx_runtime_runs(qdq, lower_graph):
    g = qdq()
    y = g.node(
        "Conv", g.node("LpNormalization", g.input("x", [2, 4, 5, 6])), g.floats(6, 4, 3, 3), pads=[1, 1, 1, 1]
    )
    assert lower_graph(g, g.node("Shrink", y)).agree(1e-4).kinds == ["onnx", "float_conv", "onnx"]


def test_layers_that_share_a_weight_hold_it_once(qdq, lower_graph):
    g = qdq()
    w = g.floats(7, 7)
    lowered = lower_graph(g, g.node("MatMul", g.node("MatMul", g.input("x", [3, 7]), w), w)).agree(1e-4)
    assert lowered.kinds == ["float_linear"] * 2 and len(lowered.plan.constants) == 1


@pytest.mark.parametrize(("op", "wanted"), [
    (lambda g: g.node("ConvTranspose", g.input("x", [1, 2, 4, 4]), g.floats(2, 3, 2, 2), output_shape=[5, 5]),
     "output_shape"),
    (lambda g: g.node("Conv", g.input("x", [1, 2, 4, 4]), g.input("w", [3, 2, 2, 2])), "not a constant"),
    (lambda g: g.node("Gemm", g.input("x", [4, 4]), g.input("w", [4, 3]), alpha=0.5), "it scales a product"),
], ids=["shape", "weight", "alpha"])  # fmt: skip
def test_what_has_no_kernel_says_why(qdq, lower_graph, op, wanted):
    g = qdq()
    assert wanted in lower_graph(g, op(g)).agree(1e-4).step("onnx").reason


def test_threads_and_plan_files_change_no_bit(qdq, lower_graph, tmp_path):
    g = qdq()
    x = g.input("x", [1, 16, 40, 40])
    y = g.node("Conv", x, g.floats(70, 16, 3, 3), g.floats(70), pads=[1, 1, 1, 1])
    y = g.node("Conv", y, g.floats(70, 1, 3, 3), group=70)
    proto, feeds = g.proto(g.node("MatMul", y, g.floats(38, 50))), g.feeds()
    single, two = (intact.compile(proto, threads=n) for n in (1, 2))
    (want,) = single.run(feeds).values()
    two.save(tmp_path / "float.plan")
    for engine in (two, intact.load(tmp_path / "float.plan", threads=2)):
        (got,) = engine.run(feeds).values()
        np.testing.assert_array_equal(got, want)


def plan(step: Any, tensors: dict[str, tuple[Any, ...]], **constants: np.ndarray) -> Plan:
    records = {name: Tensor(name, "float32", shape) for name, shape in tensors.items()}
    inputs = tuple(name for name in tensors if name != "y")
    return Plan((step,), records, constants, inputs, ("y",))


ONES = np.ones((4, 3, 3, 2), np.float32)


@pytest.mark.parametrize(("step", "constants", "wanted"), [
    (FloatConv("c", (), "x", "y", "w", groups=3), {"w": ONES}, "groups 3, .*want groups that divide"),
    (FloatConv("c", (), "x", "y", "w", "b"), {"w": ONES, "b": np.ones(3, np.float32)}, "want one number"),
    (FloatConv("c", (), "x", "y", "w", strides=(0, 1)), {"w": ONES}, "strides and dilations above 0"),
    (FloatConv("c", (), "x", "y", "w"), {"w": ONES[:0]}, "not empty"),
    (FloatLinear("l", (), "x", "y", "w"), {"w": np.ones((2, 2))}, "float32 of rank 2"),
], ids=["groups", "bias", "strides", "empty", "dtype"])  # fmt: skip
def test_files_that_say_what_nobody_runs_are_refused(step, constants, wanted):
    lowered_plan = plan(step, {"x": ("n", 2, 5, 5), "y": ("n", 4, "h", "w")}, **constants)
    with pytest.raises(FileFormatError, match=wanted):
        check_limits(lowered_plan, {name: (a.dtype.name, a.shape) for name, a in constants.items()})


@pytest.mark.parametrize("wrong_plan", [
    plan(FloatLinear("l", (), "x", "y", "w"), {"x": (2, "k"), "y": (2, 4)}, w=np.ones((3, 4), np.float32)),
    plan(FloatMatMul("m", (), "x", "w", "y"), {"x": (2, "k"), "w": (3, 4), "y": (2, 4)}),
    plan(FloatConv("c", (), "x", "y", "w"), {"x": (1, 5, 5, 5), "y": (1, 4, 3, 3)}, w=ONES),
], ids=["linear", "matmul", "conv"])  # fmt: skip
def test_sizes_that_do_not_fit_are_refused(wrong_plan):
    shapes = {
        n: tuple(d if isinstance(d, int) else 5 for d in wrong_plan.tensors[n].shape)
        for n in wrong_plan.inputs
    }
    feeds = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    with pytest.raises(QuantValueError, match="want"):
        intact.compile(wrong_plan, threads=1).run(feeds)
