"""Operators of floats that are several native steps: as ONNX Runtime computes them, in floats and codes."""

from itertools import product

import numpy as np
import pytest
from onnx import helper, numpy_helper

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.graph import Session


@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[1], [-1, 1], []], ids=str)
@pytest.mark.parametrize(
    "op_type", ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"]
)
def test_other_sums_along_axes(qdq, lowered, op_type, axes, keepdims, codes):
    g = qdq()
    x = g.node("Sigmoid", g.input("x", ["n", 5, 7]))
    y = g.node(op_type, x, *[g.constant(np.array(axes))] * bool(axes), keepdims=keepdims)
    found = lowered(g, g.quantize(y, 0.05) if codes else y, sizes={"n": 3}).agree(1e-5)
    assert "onnx" not in found.kinds


@pytest.mark.parametrize("count", [1, 2, 3, 9, 15, 16, 17, 33])
@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"])
def test_few_that_lie_apart_are_folded_in_the_order_of_their_lanes(qdq, lowered, op_type, count):
    """Parts of images, channels last: the squares of real and imaginary parts, as front ends of speech."""
    g = qdq()
    x = g.node("Relu", g.conv(g.input("x", [2, 3, 4, 5]), 3, 6 * count))
    parts = g.node("Reshape", x, g.ints(2, count, 6, 20))
    y = g.node(op_type, parts, g.ints(1), keepdims=0)
    assert "reduce" in lowered(g, y).agree(1e-4).exact().kinds


ROWS = [
    [np.inf, 1, 2], [-np.inf] * 3, [np.inf, -np.inf, 0], [np.inf, np.inf, 1], [-np.inf, 0, 1],
    [np.nan, 1, np.inf], [3e38, 3e38, 0], [-3e38, -3e38, -3.4e38], [1, 2, 3],
]  # fmt: skip


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_sum_of_exponentials_of_infinities_is_what_onnx_runtime_gives(qdq, backend, keepdims):
    g = qdq()
    y = g.node("ReduceLogSumExp", g.input("x", [len(ROWS), 3]), g.constant(np.array([1])), keepdims=keepdims)
    data, x = g.proto(y).SerializeToString(), np.array(ROWS, np.float32)
    plan = lower(data)
    assert not any(step.kind == "onnx" for step in plan.steps)
    (want,) = Session(data).run({"x": x}).values()
    (got,) = Engine(plan, threads=1, backend=backend).run({"x": x}).values()
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert np.isinf(want).sum() == 4


@pytest.mark.parametrize("codes", [False, True])
def test_a_gemm_of_beta_0_does_not_read_what_it_adds(qdq, codes):
    g = qdq()
    x = g.input("x", [4, 16])
    weight = g.weight(8, 16) if codes else g.floats(8, 16)
    bias = g.constant(np.array([np.nan, np.inf, 1, 2, 3, 4, 5, 6], np.float32))
    data = g.proto(
        g.node("Gemm", g.pair(x) if codes else x, weight, bias, transB=1, beta=0.0)
    ).SerializeToString()
    plan = lower(data)
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
    (want,) = Session(data).run({"x": x}).values()
    (got,) = Engine(plan, threads=1).run({"x": x}).values()
    assert not any(step.kind == "onnx" for step in plan.steps) and np.isfinite(want).all()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_a_sum_of_exponentials_does_not_overflow(qdq, lowered):
    g = qdq()
    x = g.node("Mul", g.input("x", [3, 50]), g.constant(np.float32(1000)))
    both = [g.node("ReduceLogSumExp", x, g.constant(np.array([1]))), g.node("LogSoftmax", x, axis=1)]
    found = lowered(g, *both).agree(1e-2)
    assert all(np.isfinite(found.values[y]).all() for y in both)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_logarithms_of_a_softmax(qdq, lowered, axis):
    g = qdq()
    found = lowered(g, g.node("LogSoftmax", g.input("x", ["n", 5, 7]), axis=axis), sizes={"n": 2}).agree(1e-5)
    assert found.kinds == ["reduce", "binary", "function", "reduce", "function", "binary"]


@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize("size", [1, 5, 21])
def test_norms_of_neighbouring_channels(qdq, lowered, size, codes):
    g = qdq()
    x = g.node("Mul", g.input("x", ["n", 9, 3, "w"]), g.constant(np.float32(20)))
    y = g.node("LRN", x, size=size, alpha=0.01, beta=0.6, bias=1.5)
    found = lowered(g, g.quantize(y, 0.2) if codes else y, sizes={"n": 2, "w": 4}).agree(1e-4)
    assert "onnx" not in found.kinds and found.kinds.count("float_conv") == 1


@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize("plane", [(6,), (6, 5), ("h", 5), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("affine", ["both", "scale", "bias", "neither"])
def test_norms_of_planes(qdq, lowered, affine, plane, codes):
    g = qdq()
    scale = g.rng.uniform(0.5, 2, 4) if affine in ("both", "scale") else np.ones(4)
    bias = g.rng.uniform(-1, 1, 4) if affine in ("both", "bias") else np.zeros(4)
    x = g.node("Sigmoid", g.input("x", [2, 4, *plane]))
    y = g.node("InstanceNormalization", x, g.constant(np.float32(scale)), g.constant(np.float32(bias)))
    found = lowered(g, g.quantize(y, 0.05) if codes else y, sizes={"h": 3}).agree(1e-5)
    assert "onnx" not in found.kinds
    assert found.kinds.count("binary") == ("neither", "scale", "both").index(affine.replace("bias", "scale"))


def test_a_norm_of_planes_is_native_when_the_sizes_of_a_run_are_known(qdq, lowered):
    g = qdq()
    ones, zeros = g.constant(np.ones(4, np.float32)), g.constant(np.zeros(4, np.float32))
    y = g.node("InstanceNormalization", g.node("Sigmoid", g.input("x", ["n", 4, "h", 5])), ones, zeros)
    found = lowered(g, y, sizes={"n": 2, "h": 3})
    engine = Engine(found.plan, threads=1)
    assert found.kinds == ["function", "onnx"]
    assert "onnx" not in {timing.kind for timing in engine.profile(found.feeds, runs=1).timings}
    np.testing.assert_allclose(engine.run(found.feeds)[y], found.expected[y], atol=1e-5)


def test_norms_of_groups():
    scale, bias = np.random.default_rng(0).uniform(0.5, 2, (2, 6)).astype(np.float32)
    ports = [helper.make_tensor_value_info(name, 1, ["n", 6, 5, 4]) for name in "xy"]
    node = helper.make_node("GroupNormalization", ["x", "scale", "bias"], ["y"], num_groups=3)
    held = [numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(bias, "bias")]
    graph = helper.make_graph([node], "net", ports[:1], ports[1:], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    engine = Engine(lower(model), threads=1)
    assert {step.kind for step in engine.plan.steps} == {"reshape", "layer_norm", "binary"}
    x = np.random.default_rng(1).standard_normal((2, 6, 5, 4)).astype(np.float32)
    (want,) = Session(model.SerializeToString()).run({"x": x}).values()
    np.testing.assert_allclose(engine.run({"x": x})["y"], want, atol=1e-5)


def test_a_computed_scale_stays_with_onnx_runtime(qdq, lowered):
    g = qdq()
    x, zeros = g.input("x", [2, 4, 6]), g.constant(np.zeros(4, np.float32))
    assert "onnx" in lowered(g, g.node("InstanceNormalization", x, g.input("scale", [4]), zeros)).kinds


def _means(x, kernel, strides, pads, ceil_mode, count_include_pad):
    """AveragePool by its definition: a window that `ceil_mode` lets hang over divides by what it covers."""
    padded = np.pad(x.astype(np.float64), [(0, 0)] * 2 + list(zip(pads[:2], pads[2:], strict=True)))
    inside = np.pad(np.ones(x.shape[2:]), list(zip(pads[:2], pads[2:], strict=True)))
    counted = np.ones_like(inside) if count_include_pad else inside
    starts = []
    for size, k, s, begin, end in zip(x.shape[2:], kernel, strides, pads[:2], pads[2:], strict=True):
        last = begin + size + end - k + (s - 1 if ceil_mode else 0)
        starts.append([start for start in range(0, last + 1, s) if start < begin + size])
    means = np.empty((*x.shape[:2], *map(len, starts)))
    for (i, top), (j, left) in product(*map(enumerate, starts)):
        window = np.s_[top : top + kernel[0], left : left + kernel[1]]
        means[:, :, i, j] = padded[:, :, *window].sum((2, 3)) / counted[window].sum()
    return means


# By the definition: ONNX Runtime 1.24 divides by another number where the rim is counted at one end only.
@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 1, 1]], ids=str)
@pytest.mark.parametrize("count_include_pad", [0, 1])
def test_means_of_windows(qdq, lowered, count_include_pad, pads, ceil_mode, codes):
    g = qdq()
    x = g.node("Sigmoid", g.input("x", ["n", 5, 9, 8]))
    how = {"strides": [2, 3], "pads": pads, "ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    y = g.node("AveragePool", x, kernel_shape=[3, 2], **how)
    found = lowered(g, g.quantize(y, 0.05) if codes else y, sizes={"n": 2}).exact()
    assert found.kinds[:2] == ["function", "float_conv"] and "onnx" not in found.kinds
    (name,) = found.expected
    want = _means(found.values[x], [3, 2], **how)
    if codes:
        want = np.clip(want / 0.05, -128, 127)
    np.testing.assert_allclose(found.values[name], want, atol=0.501 if codes else 1e-5)


def test_means_of_windows_over_a_rim_whose_place_is_not_known(qdq, lowered):
    g = qdq()
    x = g.node("Sigmoid", g.input("x", [1, 5, "h", 8]))
    y = g.node("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    assert lowered(g, y, sizes={"h": 6}).kinds == ["function", "onnx"]
