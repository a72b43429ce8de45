"""Transposed convolutions in float run natively: windows over each other, groups, sequences, volumes."""

from __future__ import annotations

import numpy as np
import pytest

from intact.engine import Plan, Tensor
from intact.engine.files.limits import check_limits
from intact.engine.steps import FloatConvTranspose
from intact.errors import FileFormatError, QuantValueError

LAID = {
    "over each other": {"strides": [2, 2], "pads": [1, 1, 1, 1]},
    "with more behind": {"strides": [2, 3], "pads": [1, 0, 0, 2], "output_padding": [1, 2]},
    "apart": {"strides": [4, 5], "output_padding": [0, 1]},
    "dilated": {"strides": [2, 3], "dilations": [3, 2]},
    "of one step": {"strides": [1, 1], "pads": [1, 0, 0, 1]},
    "larger than what there is": {"strides": [2, 2], "pads": [5, 5, 5, 5]},
}


@pytest.mark.rule("N51")
@pytest.mark.parametrize("window", LAID)
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("bias", [True, False])
def test_over_images(qdq, lower_graph, window, groups, bias):
    g = qdq()
    x, w = g.input("x", [2, 4, 6, 7]), g.floats(4, 8 // groups, 3, 4)
    y = g.node("ConvTranspose", x, w, *([g.floats(8)] if bias else []), group=groups, **LAID[window])
    lowered = lower_graph(g, y).agree(1e-5)
    assert lowered.kinds == ["float_conv_transpose"]


@pytest.mark.parametrize(("kernel", "stride", "pads"), [(16, 8, [4, 4]), (3, 2, [1, 0]), (4, 4, [0, 0])])
@pytest.mark.parametrize("size", [9, "l"])
def test_over_sequences(qdq, lower_graph, kernel, stride, pads, size):
    """As vocoders make sound of spectra."""
    g = qdq()
    x = g.input("x", [1, 6, size])
    y = g.node("ConvTranspose", x, g.floats(6, 9, kernel), g.floats(9), strides=[stride], pads=pads)
    lowered = lower_graph(g, g.node("Tanh", y), sizes={"l": 11}).agree(1e-5)
    assert "onnx" not in lowered.kinds and "float_conv_transpose" in lowered.kinds


VOLUMES = {
    "side by side": ([2, 2, 2], {"strides": [2, 2, 2]}),
    "over each other": ([3, 3, 3], {"strides": [2, 2, 2], "pads": [1] * 6, "output_padding": [1, 1, 1]}),
    "cut behind": ([3, 3, 3], {"strides": [2, 2, 2], "pads": [1] * 6}),
    "four taps": ([4, 4, 4], {"strides": [2, 2, 2], "pads": [1] * 6}),
    "of one step": ([3, 2, 2], {"strides": [1, 2, 2], "pads": [1, 0, 0, 1, 0, 0]}),
    "in groups": ([1, 3, 3], {"strides": [1, 2, 2], "group": 2}),
}


@pytest.mark.rule("N51")
@pytest.mark.parametrize("name", VOLUMES)
@pytest.mark.parametrize("count", [2, "n"])
def test_over_volumes(qdq, lower_graph, name, count):
    g = qdq()
    kernel, attributes = VOLUMES[name]
    x = g.input("x", [count, 4, 3, 5, 6])
    w = g.floats(4, 8 // attributes.get("group", 1), *kernel)
    y = g.node("ConvTranspose", x, w, g.floats(8), **attributes)
    lowered = lower_graph(g, y, sizes={"n": 2}).agree(1e-5)
    assert "onnx" not in lowered.kinds


@pytest.mark.parametrize(("kernel", "attributes", "why"), [
    ([3, 3, 3], {"strides": [2, 2, 2], "group": 2}, "it has groups, and its windows overlap"),
    ([1, 3, 3], {"strides": [2, 2, 2]}, "leave something out in depth"),
    ([2, 2, 2], {"strides": [2, 2, 2], "pads": [1] * 6}, "take planes away"),
], ids=["groups", "holes", "pads"])  # fmt: skip
def test_volumes_that_are_left_say_why(qdq, lower_graph, kernel, attributes, why):
    g = qdq()
    w = g.floats(4, 8 // attributes.get("group", 1), *kernel)
    y = g.node("ConvTranspose", g.input("x", [1, 4, 3, 5, 6]), w, **attributes)
    assert why in lower_graph(g, y).agree(1e-5).step("onnx").reason


def test_few_channels_are_left_to_onnx_runtime(qdq, lower_graph):
    g = qdq()
    y = g.node("ConvTranspose", g.input("x", [1, 4, 6, 7]), g.floats(4, 3, 4, 4), strides=[2, 2])
    assert "it makes 3 channels" in lower_graph(g, y).agree(1e-5).step("onnx").reason


def _plan(**more) -> tuple[Plan, dict]:
    tensors = {"x": Tensor("x", "float32", (1, 4, 5, 5)), "y": Tensor("y", "float32", (1, 6, "h", "w"))}
    constants = {"w": np.ones((6, 3, 3, 4 // more.get("groups", 1)), np.float32)}
    step = FloatConvTranspose("up", (), "x", "y", "w", **more)
    return Plan((step,), tensors, constants, ("x",), ("y",)), constants


@pytest.mark.parametrize(("more", "message"), [
    ({"groups": 4}, r"groups 4, weight\[0\] 6, want groups that divide"),
    ({"output_padding": (0, -1)}, "no sizes below 0"),
    ({"strides": (0, 1)}, "strides"),
], ids=["groups", "padding", "strides"])  # fmt: skip
def test_a_file_cannot_say_what_no_kernel_does(more, message):
    plan, constants = _plan(**more)
    with pytest.raises(FileFormatError, match=message):
        check_limits(plan, {name: (a.dtype.name, a.shape) for name, a in constants.items()})


def test_pads_that_leave_nothing_are_refused(qdq, lower_graph):
    from intact.engine.engine import Engine

    plan, _ = _plan(pads=(9, 9, 9, 9))
    with pytest.raises(QuantValueError, match="pads leave something"):
        Engine(plan, threads=1).run({"x": np.zeros((1, 4, 5, 5), np.float32)})
