"""Layers over volumes run in int8, natively: each plane is an image, beside its neighbours in depth."""

from __future__ import annotations

import numpy as np
import pytest

import intact
from intact.engine import Plan, Tensor
from intact.engine.backends import BACKENDS
from intact.engine.engine import Engine
from intact.engine.files.limits import check_limits
from intact.engine.steps import Codes, StackPlanes
from intact.errors import FileFormatError
from intact.graph import Session

WINDOWS = {
    "plain": {},
    "padded": {"pads": [1] * 6},
    "one side": {"pads": [2, 0, 1, 0, 1, 0]},
    "strides": {"strides": [2, 1, 2], "pads": [1] * 6},
    "dilations": {"dilations": [2, 1, 2], "pads": [2, 1, 1, 2, 1, 1]},
    "same": {"auto_pad": "SAME_UPPER", "strides": [2, 2, 2]},
}


def conv(g, x, channels, outputs, kernel=(3, 3, 3), **attributes):
    w = g.weight(outputs, channels // attributes.get("group", 1), *kernel)
    return g.node("Conv", x, w, g.floats(outputs), **attributes)


@pytest.mark.rule("N61")
@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("group", [1, 2, 4])
def test_convolutions_of_volumes(qdq, lower_graph, name, group):
    g = qdq()
    x = g.pair(g.input("x", ["n", 4, 5, 6, 7]), 0.05, 3)
    y = conv(g, x, 4, 8, group=group, **WINDOWS[name])
    lowered = lower_graph(g, g.quantize(y, 0.4, -4), sizes={"n": 2}).exact().agree()
    assert set(lowered.kinds) <= {"quantize", "transpose", "reshape", "stack_planes", "conv"}


@pytest.mark.parametrize("kernel", [(1, 3, 3), (3, 1, 1), (1, 1, 1), (5, 1, 2)], ids=str)
def test_kernels_that_are_flat_or_deep(qdq, lower_graph, kernel):
    """As networks of video split them: over a plane, then over time."""
    g = qdq()
    x = g.pair(g.input("x", [1, 3, 6, 6, 6]))
    lowered = lower_graph(g, g.quantize(conv(g, x, 3, 4, kernel), 0.2)).exact().agree()
    assert lowered.kinds.count("stack_planes") == (kernel[0] > 1)


@pytest.mark.parametrize("group", [1, 4])
def test_rows_of_a_window_that_are_apart(qdq, lower_graph, group):
    """Between rows of other planes they have no place: such layers with groups are left to ONNX Runtime."""
    g = qdq()
    x = g.pair(g.input("x", [1, 4, 3, 8, 8]))
    lowered = lower_graph(g, g.quantize(conv(g, x, 4, 4, group=group, dilations=[1, 2, 2]), 0.3)).agree()
    assert ("onnx" in lowered.kinds) == (group > 1)


def test_a_residual_block_of_volumes_stays_planes(qdq, lower_graph):
    """Between its layers nothing is turned round; Relu and the sum are the layers' own."""
    g = qdq()
    x = g.pair(g.node("Relu", conv(g, g.pair(g.input("x", ["n", 2, 4, 6, 6])), 2, 4, pads=[1] * 6)), 0.2)
    y = g.pair(g.node("Relu", conv(g, x, 4, 4, pads=[1] * 6)), 0.4)
    y = g.node("Relu", g.node("Add", conv(g, y, 4, 4, pads=[1] * 6), x))
    lowered = lower_graph(g, g.quantize(y, 0.5), sizes={"n": 2}).exact().agree()
    kinds = [kind for kind in lowered.kinds if kind not in ("transpose", "reshape")]
    assert kinds == ["quantize", *["stack_planes", "conv"] * 3]


@pytest.mark.parametrize("threads", [1, 2])
def test_any_number_of_threads(qdq, lower_graph, threads):
    g = qdq()
    x = g.pair(g.input("x", [2, 8, 6, 9, 9]))
    y = g.pair(g.node("Relu", conv(g, x, 8, 16, pads=[1] * 6)), 0.5)
    lowered = lower_graph(g, g.quantize(conv(g, y, 16, 8), 2.0))
    (got,) = Engine(lowered.plan, threads=threads).run(lowered.feeds).values()
    np.testing.assert_array_equal(got, lowered.values[lowered.plan.outputs[0]], strict=True)


@pytest.mark.rule("N61")
@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("group", [1, 2, 4])
def test_convolutions_in_float(qdq, lower_graph, name, group):
    g = qdq()
    x = g.input("x", ["n", 4, 5, 6, 7])
    y = g.node("Conv", x, g.floats(8, 4 // group, 3, 3, 3), g.floats(8), group=group, **WINDOWS[name])
    lowered = lower_graph(g, g.node("Relu", y), sizes={"n": 2}).exact().agree(1e-4)
    assert "onnx" not in lowered.kinds and lowered.kinds.count("float_conv") == 1


def test_no_volumes_at_all(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", ["n", 4, 5, 6, 7]))
    y = g.node("MaxPool", g.pair(conv(g, x, 4, 6, (3, 1, 3), pads=[1, 0, 1] * 2)), kernel_shape=[2, 1, 1])
    lowered = lower_graph(g, g.quantize(y), sizes={"n": 0}).exact()
    (got,) = Engine(lowered.plan, threads=1).run(lowered.feeds).values()
    assert got.shape == lowered.values[lowered.plan.outputs[0]].shape == (0, 6, 4, 6, 7)


def test_a_depth_that_is_not_known_waits_for_sizes(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.input("x", [1, 3, "d", 6, 6]))
    lowered = lower_graph(g, g.quantize(conv(g, x, 3, 4), 0.2), sizes={"d": 5})
    assert "the depth of its volumes is not known" in lowered.step("onnx").reason


TRANSPOSED = {
    "side by side": {"strides": [2, 2, 2]},
    "over each other in a plane": {"strides": [2, 1, 2], "pads": [0, 1, 0, 0, 0, 1]},
    "one plane each": {"strides": [1, 2, 2]},
}
SIZES = {"side by side": [6, 10, 12], "over each other in a plane": [6, 5, 11], "one plane each": [3, 10, 12]}


@pytest.mark.parametrize("name", TRANSPOSED)
@pytest.mark.parametrize("how", ["alone", "relu", "residual"])
def test_transposed_convolutions_of_volumes(qdq, lower_graph, name, how):
    """As U-Nets of medical volumes go up."""
    g = qdq()
    strides = TRANSPOSED[name]["strides"]
    x = g.pair(g.input("x", ["n", 4, 3, 5, 6]), 0.05, 3)
    w = g.weight(4, 6, strides[0], 2, 2, axis=1)
    y = g.node("ConvTranspose", x, w, g.floats(6), **TRANSPOSED[name])
    if how == "residual":
        y = g.node("Add", y, g.pair(g.input("z", ["n", 6, *SIZES[name]])))
    y = g.node("Relu", y) if how != "alone" else y
    lowered = lower_graph(g, g.quantize(y, 0.2, -4), sizes={"n": 2}).exact().agree()
    assert "onnx" not in lowered.kinds and lowered.kinds.count("conv_transpose") == 1


@pytest.mark.parametrize("attributes", [{"strides": [1, 2, 2]}, {"strides": [2, 2, 2], "group": 2}])
def test_windows_that_overlap_in_depth_are_summed_in_float(qdq, lower_graph, attributes):
    g = qdq()
    outputs = 8 // attributes.get("group", 1)
    x, w = g.pair(g.input("x", [1, 4, 3, 5, 6])), g.weight(4, outputs, 2, 2, 2, axis=None)
    lowered = lower_graph(g, g.quantize(g.node("ConvTranspose", x, w, **attributes), 0.3)).agree()
    assert "conv_transpose" not in lowered.kinds and "float_conv_transpose" in lowered.kinds


POOLS = {
    "plain": {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]},
    "padded": {"kernel_shape": [3, 3, 3], "pads": [1] * 6, "strides": [2, 2, 2]},
    "one side": {"kernel_shape": [3, 2, 2], "pads": [2, 0, 1, 0, 1, 0]},
    "flat": {"kernel_shape": [1, 3, 3], "strides": [1, 2, 2], "pads": [0, 1, 1, 0, 1, 1]},
    "deep": {"kernel_shape": [3, 1, 1], "strides": [2, 1, 1]},
    "every second plane": {"kernel_shape": [1, 1, 2], "strides": [2, 1, 1]},
    "ceil": {"kernel_shape": [2, 2, 3], "strides": [2, 2, 2], "ceil_mode": 1},
    "dilated": {"kernel_shape": [2, 2, 2], "dilations": [2, 1, 2]},
    "same": {"kernel_shape": [3, 3, 3], "strides": [2, 1, 2], "auto_pad": "SAME_UPPER"},
    "rows apart": {"kernel_shape": [2, 2, 2], "dilations": [1, 2, 1], "pads": [1, 0, 0, 0, 1, 1]},
}


@pytest.mark.rule("N61")
@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("codes", [True, False])
def test_pools_of_volumes(qdq, lower_graph, name, codes):
    g = qdq()
    x = g.input("x", ["n", 3, 5, 6, 7])
    y = g.node("MaxPool", g.pair(x, 0.05, 3) if codes else g.node("Neg", x), **POOLS[name])
    lowered = lower_graph(g, g.quantize(y, 0.05, 3) if codes else y, sizes={"n": 2}).exact().agree(0)
    in_depth = POOLS[name]["kernel_shape"][0] > 1 or name == "every second plane"
    assert "onnx" not in lowered.kinds and lowered.kinds.count("pool") == 1 + in_depth


def test_planes_of_any_size_wait_for_sizes(qdq, lower_graph):
    """A plan for all sizes has a part for ONNX Runtime; one for those of a run has none."""
    g = qdq()
    x = g.pair(g.input("x", ["n", 3, 4, "h", 6]))
    y = g.quantize(conv(g, x, 3, 4, pads=[1] * 6), 0.2)
    lowered = lower_graph(g, y, sizes={"n": 2, "h": 5})
    assert "neither how many volumes" in lowered.step("onnx").reason
    engine = intact.compile(g.proto(y), shapes={"x": (2, 3, 4, 5, 6)}, threads=1)
    assert "onnx" not in [step.kind for step in engine.plan.steps]
    np.testing.assert_array_equal(engine.run(lowered.feeds)[y], lowered.values[y], strict=True)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (
            {"kernel_shape": [2, 1, 1], "dilations": [2, 1, 1], "pads": [1, 0, 0] * 2},
            "planes of its window",
        ),
    ],
)
def test_pools_that_are_left_to_onnx_runtime_say_why(qdq, lower_graph, how, why):
    g = qdq()
    lowered = lower_graph(g, g.node("MaxPool", g.node("Neg", g.input("x", [1, 2, 5, 6, 7])), **how)).agree(0)
    assert why in lowered.step("onnx").reason


def stacking(step, dtype="float32"):
    codes = Codes(0.1, 3, True, -128, 127) if dtype == "codes" else None
    tensors = {name: Tensor(name, dtype, (f"n{name}", f"c{name}", f"h{name}", "w"), codes) for name in "xy"}
    return Plan((step,), tensors, {}, ("x",), ("y",))


@pytest.mark.rule("N61")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float32", "codes"])
@pytest.mark.parametrize(
    "rule",
    [
        (5, 3),
        (5, 3, 2, 1, (1, 1)),
        (5, 2, 3, 4, (0, 2), True),
        (2, 3, 1, 1, (4, 4)),
        (5, 3, 1, 1, (1, 1), True),
        (5, 3, 2, 1, (2, 2), False, True),
        (1, 5, 1, 1, (2, 2), True),
        (1, 4, 1, 1, (1, 2), True, True),
    ],
)
def test_planes_of_each_window(backend, dtype, rule):
    step, rng = StackPlanes("stack", (), "x", "y", *rule), np.random.default_rng(0)
    x = rng.integers(-128, 128, (2 * step.depth, 4, 2, 3)).astype("int8" if dtype == "codes" else dtype)
    got = Engine(stacking(step, dtype), backend=BACKENDS[backend], threads=1).run({"x": x})["y"]
    zero = 3 if dtype == "codes" else 0
    for volume in range(2):
        for place in range(step.places):
            for tap in range(step.kernel):
                plane = place * step.stride + tap * step.dilation - step.pads[0]
                image = got[volume * step.places + place]
                window = image[:, tap :: step.kernel] if step.rows else image[tap * 4 : tap * 4 + 4]
                plane = min(max(plane, 0), step.depth - 1) if step.repeats else plane
                there = 0 <= plane < step.depth
                want = x[volume * step.depth + plane] if there else np.full_like(x[0], zero)
                np.testing.assert_array_equal(window, want, strict=True)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ((0, 1), "a depth and a kernel above 0"),
        ((3, 1, 0), "a stride and a dilation above 0"),
        ((3, 1, 1, 1, (-1, 0)), "pads of 0 or more"),
        ((3, 4), "a window that fits"),
    ],
)
def test_files_cannot_ask_for_windows_that_are_none(rule, message):
    with pytest.raises(FileFormatError, match=message):
        check_limits(stacking(StackPlanes("stack", (), "x", "y", *rule)), {})


AVERAGES = {
    "plain": {}, "strides": {"strides": [2, 1, 2]}, "padded": {"pads": [1] * 6, "count_include_pad": 1},
    "one side": {"pads": [1, 0, 0, 0, 1, 1], "count_include_pad": 1, "strides": [2, 2, 2]},
}  # fmt: skip


def average_pool(g, x, attributes, *, apart=False):
    """An AveragePool; its pads are a Pad in front where they stand `apart`."""
    attributes = dict(attributes)
    if apart and (pads := attributes.pop("pads", None)):
        x = g.node("Pad", x, g.ints(0, 0, *pads[:3], 0, 0, *pads[3:]))
    return g.node("AveragePool", x, **attributes)


def with_pads_apart(lowered, g, y):
    """`found`, to agree with a graph that counts pads as elements: older ONNX Runtimes count others."""
    (answer,) = Session(g.proto(y).SerializeToString()).run(lowered.feeds).values()
    lowered.expected = dict.fromkeys(lowered.expected, answer)
    return lowered


@pytest.mark.parametrize("name", AVERAGES)
@pytest.mark.parametrize("kernel", [(2, 3, 2), (1, 2, 2), (3, 1, 1)], ids=str)
def test_averages_of_volumes(qdq, lower_graph, name, kernel):
    def build(g, **how):
        x = g.pair(g.input("x", ["n", 4, 5, 6, 7]), 0.05, 3)
        return g.quantize(average_pool(g, x, attributes, **how), 0.037, -4)

    g, other = qdq(), qdq()
    attributes = {"kernel_shape": kernel, **AVERAGES[name]}
    if "pads" in attributes:
        attributes["pads"] = [min(pad, k - 1) for pad, k in zip(attributes["pads"], kernel * 2, strict=True)]
    lowered = with_pads_apart(
        lower_graph(g, build(g), sizes={"n": 2}), other, build(other, apart=True)
    ).agree()
    assert "pool" in lowered.kinds and "onnx" not in lowered.kinds


@pytest.mark.parametrize("name", AVERAGES)
def test_averages_of_volumes_of_floats(qdq, lower_graph, name):
    def build(g, **how):
        return average_pool(g, g.input("x", ["n", 4, 5, 6, 7]), attributes, **how)

    g, other = qdq(), qdq()
    attributes = {"kernel_shape": [2, 3, 2], **AVERAGES[name]}
    lowered = with_pads_apart(lower_graph(g, build(g), sizes={"n": 2}), other, build(other, apart=True))
    assert "float_conv" in lowered.agree(1e-5).kinds and "onnx" not in lowered.kinds


@pytest.mark.parametrize("how", [{"pads": [1] * 6}, {"ceil_mode": 1, "strides": [2, 2, 2]}], ids=str)
def test_averages_of_what_is_inside_stay_with_onnx_runtime(qdq, lower_graph, how):
    g = qdq()
    x = g.input("x", [1, 4, 5, 6, 7])
    lowered = lower_graph(g, g.node("AveragePool", x, kernel_shape=[2, 3, 2], **how)).agree(1e-5)
    assert "onnx" in lowered.kinds
