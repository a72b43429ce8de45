"""Nodes without kernels run in as few parts as possible."""

import numpy as np
import pytest
from tests.onnx_models import onnx_graph


def test_what_has_no_kernel_runs_in_one_stretch(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [1, 3, 6, 6]))
    y = g.conv(x, 3, 4)
    y = g.node("Shrink", g.node("LpNormalization", y))
    side = g.node("Ceil", g.input("z", [1, 4, 6, 6]))
    y = g.conv(g.pair(g.node("Add", y, side), 0.01), 4, 4)
    lowered = lower_graph(g, g.quantize(y)).agree()
    assert lowered.kinds.count("onnx") == 1
    reason = lowered.step("onnx").reason
    assert "LpNormalization: no kernel for LpNormalization" in reason and "Shrink" in reason
    assert any("ONNX Runtime" in note for note in lowered.plan.notes)


def test_stretches_on_both_sides_of_a_layer_are_two(qdq, lower_graph):
    g = qdq()
    y = g.conv(g.pair(g.node("LpNormalization", g.input("x", [1, 3, 4, 4])), 0.01), 3, 4)
    assert lower_graph(g, g.node("LpNormalization", y)).agree().kinds == ["onnx", "quantize", "conv", "onnx"]


CHEAP = {
    "product": lambda g, x: g.node("Mul", x, g.constant(np.float32(0.5))),
    "sum of both": lambda g, x: g.node("Add", x, g.input("z", [2, 6])),
    "bounds": lambda g, x: g.node("Clip", x, g.constant(np.float32(-0.1)), g.constant(np.float32(0.9))),
    "function": lambda g, x: g.node("Tanh", x),
    "halves": lambda g, x: g.node("Concat", *g.node("Split", x, outputs=2, axis=1, num_outputs=2), axis=0),
    "turned": lambda g, x: g.node("Transpose", g.node("Reshape", x, g.ints(3, 4)), perm=[1, 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", CHEAP)
def test_cheap_steps_between_stretches_join_them(qdq, lower_graph, name):
    g = qdq()
    y = CHEAP[name](g, g.node("LpNormalization", g.input("x", [2, 6])))
    y = CHEAP[name](g, g.node("Shrink", y)) if name in ("product", "function") else y
    lowered = lower_graph(g, g.node("LpNormalization", y)).agree(1e-6)
    assert lowered.kinds == ["onnx"]
    assert "it stands between nodes without a kernel" in lowered.step("onnx").reason


@pytest.mark.parametrize("name", ["norm", "codes", "norm beside it"])
def test_other_steps_between_stretches_stay(qdq, lower_graph, name):
    g = qdq()
    y = g.node("Mul", g.node("LpNormalization", g.input("x", [2, 6])), g.constant(np.float32(0.5)))
    if name == "codes":
        y = g.pair(y, 0.01)
    else:
        norm = g.node("LayerNormalization", y, g.floats(6), axis=-1)
        y = norm if name == "norm" else g.node("Add", y, norm)
    lowered = lower_graph(g, g.node("Shrink", y)).agree(1e-5)
    assert lowered.kinds.count("onnx") == 2 and "binary" in lowered.kinds


def test_a_cheap_step_that_others_read_too_joins_all_the_same(qdq, lower_graph):
    g = qdq()
    y = g.node("Mul", g.node("LpNormalization", g.input("x", [2, 6])), g.constant(np.float32(0.5)))
    z = g.node("MatMul", g.pair(y, 0.01), g.weight(6, 4, axis=1))
    lowered = lower_graph(g, g.node("Shrink", y), g.quantize(z)).agree()
    assert lowered.kinds == ["onnx", "quantize", "linear"]


def test_a_stretch_holds_the_constants_that_it_reads(qdq, lower_graph):
    g = qdq()
    y = g.node(
        "Mul", g.node("LpNormalization", g.input("x", [2, 6])), g.dequantize(g.constant(np.int8([3] * 6)))
    )
    assert lower_graph(g, g.node("Shrink", y)).agree(1e-6).kinds == ["onnx"]


def test_branches_run_in_a_stretch(qdq, lower_graph):
    from onnx import TensorProto, helper

    g = qdq()
    x = g.pair(g.input("x", [2, 4]))
    first = g.node("ReduceMax", x, keepdims=0)
    flag = g.node("Greater", first, g.constant(np.float32(0)))
    out = helper.make_tensor_value_info("branch", TensorProto.FLOAT, [2, 4])
    then = onnx_graph([helper.make_node("LpNormalization", [x], ["branch"])], (), [out], name="then")
    other = onnx_graph([helper.make_node("Shrink", [x], ["branch"])], (), [out], name="else")
    y = g.node("If", flag, then_branch=then, else_branch=other)
    lowered = lower_graph(g, y).agree()
    assert lowered.kinds[-1] == "onnx" and lowered.kinds.count("onnx") == 1
