"""Layout and memory of bound plans: nothing overlaps, little is taken, and reshapes move nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intact.engine.engine import Engine
from intact.engine.files.container import SLACK
from intact.kernels.program import place_spans

SPANS = st.lists(
    st.tuples(st.integers(0, 3000), st.integers(0, 12), st.integers(0, 12)).map(
        lambda t: (t[0], min(t[1:]), max(t[1:]))
    ),
    max_size=14,
)


@given(SPANS)
def test_what_is_alive_together_does_not_overlap(spans):
    offsets, size = place_spans(spans)
    for i, (nbytes, begin, end) in enumerate(spans):
        assert offsets[i] % 64 == 0
        assert offsets[i] + nbytes + SLACK <= size
        for j, (_, other_begin, other_end) in enumerate(spans):
            if i != j and begin <= other_end and other_begin <= end:
                first, second = sorted((i, j), key=offsets.__getitem__)
                assert offsets[first] + spans[first][0] + SLACK <= offsets[second]


@given(SPANS, st.sampled_from([1, 11, 40]))
def test_the_largest_lie_lowest(spans, apart):
    """Spans of long plans, which are listed by periods of steps, lie as if each were compared with all."""
    spans = [(nbytes, begin * apart, end * apart) for nbytes, begin, end in spans]
    placed: list[tuple[int, int, int, int]] = []  # offset, its end, first and last step
    expected = {}
    for i in sorted(range(len(spans)), key=lambda i: -spans[i][0]):
        nbytes, begin, end = spans[i]
        size, offset = -(-(nbytes + SLACK) // 64) * 64, 0
        for low, high, first, last in sorted(placed):
            if first <= end and last >= begin:
                if low - offset >= size:
                    break
                offset = max(offset, high)
        placed.append((offset, offset + size, begin, end))
        expected[i] = offset
    assert place_spans(spans) == (
        [expected[i] for i in range(len(spans))], max((high for _, high, _, _ in placed), default=0)
    )  # fmt: skip


def test_a_chain_takes_two_places():
    """Each tensor lies where the one before the last did."""
    assert place_spans([(1000, i, i + 1) for i in range(9)])[1] == 2 * 1088


def test_neighbouring_rows_and_images_share_their_halo(qdq, lower_graph):
    net = qdq()
    x = net.pair(net.input("x", (2, 5, 4, 3)))
    window = {"kernel_shape": [3, 4], "pads": [1, 2, 1, 1]}
    plan = lower_graph(net, net.pair(net.node("Conv", x, net.weight(6, 5, 3, 4), **window))).exact().plan
    codes = next(step.x for step in plan.steps if step.kind == "conv")
    place, row = bind_plan(plan, 2).place(codes), (3 + 2) * 5
    assert place.strides == ((4 + 1) * row, 1, row, 5)


def bind_plan(plan, batch=1):
    engine = Engine(plan, threads=1)
    shapes = {p.name: [batch if isinstance(d, str) else d for d in p.shape] for p in engine.inputs}
    return engine.prepare(shapes).bound


def test_a_residual_is_overwritten(qdq, lower_graph):
    net = qdq()
    x = net.pair(net.input("x", (1, 16, 32, 32)))
    a = net.pair(net.conv(x, 16, 16, 1))
    b = net.pair(net.node("Add", net.conv(a, 16, 16, 1), a))
    c = net.pair(net.node("Relu", net.conv(b, 16, 16, 1)))
    lowered = lower_graph(net, net.node("Relu", c)).exact()
    size = 16 * 32 * 32 + SLACK
    # Codes of x, a, b and c; never more than two of them but for floats at the end.
    assert bind_plan(lowered.plan).arena <= 3 * (size + 64)


def test_flatten_and_squeeze_move_nothing(qdq, lower_graph):
    net = qdq()
    x = net.pair(net.input("x", ("n", 4, 6, 6)))
    pooled = net.pair(net.node("GlobalAveragePool", net.pair(net.conv(x, 4, 8))))
    flat = net.node("Flatten", pooled)
    lowered = lower_graph(net, net.node("Gemm", flat, net.weight(10, 8), transB=1), sizes={"n": 3}).exact()
    assert "reshape" in lowered.kinds
    assert "reshape" not in [step.kind for step in bind_plan(lowered.plan, 3).labels if step]


def test_transposes_around_a_product_move_nothing(qdq, lower_graph):
    """Heads of an attention: split, turned, multiplied, turned back, joined."""
    net = qdq()
    x = net.pair(net.input("x", ("n", 5, 12)))
    heads = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1]):
        linear = net.pair(net.node("MatMul", x, net.weight(12, 12, axis=1)))
        split = net.node("Reshape", linear, net.ints(0, 0, 3, 4))
        heads.append(net.node("Transpose", split, perm=order))
    scores = net.pair(net.node("MatMul", *heads))
    value = net.node(
        "Reshape", net.pair(net.node("MatMul", x, net.weight(12, 12, axis=1))), net.ints(0, 0, 3, 4)
    )
    mixed = net.pair(net.node("MatMul", scores, net.node("Transpose", value, perm=[0, 2, 1, 3])))
    joined = net.node("Reshape", net.node("Transpose", mixed, perm=[0, 2, 1, 3]), net.ints(0, 0, 12))
    lowered = lower_graph(net, net.node("MatMul", joined, net.weight(12, 7, axis=1)), sizes={"n": 2}).exact()
    assert lowered.kinds.count("transpose") == 4
    kinds = [step.kind for step in bind_plan(lowered.plan, 2).labels if step]
    assert not {"transpose", "reshape"} & set(kinds)


@pytest.mark.parametrize("size", [1, 3])
def test_bound_with_and_without_reuse_is_the_same(qdq, lower_graph, size):
    net = qdq()
    x = net.pair(net.input("x", ("n", 3, 9, 9)))
    y = x
    for _ in range(4):
        y = net.pair(net.node("Relu", net.conv(y, 3, 3)))
        y = net.pair(net.node("Add", y, x))
    lowered = lower_graph(net, net.node("Relu", y), sizes={"n": size}).exact()
    got = Engine(lowered.plan, threads=2).run(lowered.feeds)
    for name, array in got.items():
        np.testing.assert_array_equal(array, lowered.values[name])


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("padded", [False, True], ids=["plain", "read through a halo"])
def test_concatenated_tensors_are_written_in_place(qdq, lower_graph, size, padded):
    net = qdq()
    x = net.pair(net.input("x", ("n", 8, 10, 10)))
    grid = {"scale": 0.1}
    parts = [
        net.pair(net.conv(x, 8, 5), **grid),
        net.pair(net.conv(x, 8, 8, group=8), **grid),
        net.pair(net.node("Add", net.pair(net.conv(x, 8, 8)), x), **grid),
        net.pair(net.node("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4), **grid),
    ]
    y = net.pair(net.node("Concat", *parts, axis=1), **grid)
    z = net.conv(y, 29, 7) if padded else net.node("Conv", y, net.weight(7, 29, 1, 1))
    lowered = lower_graph(net, net.pair(z), sizes={"n": size}).exact()
    assert "concat" in lowered.kinds
    b = bind_plan(lowered.plan, size)
    moved = [
        kernel
        for kernel, step in zip(b.program.kernels, b.labels, strict=True)
        if step and step.kind == "concat"
    ]
    assert moved == ["halo"] * padded
    np.testing.assert_array_equal(
        *(answer[name] for name in lowered.plan.outputs for answer in ends(lowered))
    )


def ends(lowered):
    return Engine(lowered.plan, threads=2).run(lowered.feeds), lowered.values


def test_what_somebody_else_reads_is_copied(qdq, lower_graph):
    net = qdq()
    x = net.pair(net.input("x", (1, 4, 6, 6)))
    a = net.pair(net.conv(x, 4, 4), scale=0.1)
    y = net.pair(net.node("Concat", a, a, x, axis=1), scale=0.1)
    lowered = lower_graph(net, net.pair(net.conv(y, 12, 3))).exact()
    assert "concat" in [step.kind for step in bind_plan(lowered.plan).labels if step]


def test_under_another_shape_inputs_and_outputs_are_read_and_made_in_place(qdq, lower_graph):
    net = qdq()
    x = net.input("x", ("n", 6, 8))
    y = net.node(
        "Reshape", net.node("Softmax", net.node("Reshape", x, net.ints(0, 2, 3, 8))), net.ints(0, -1)
    )
    lowered = lower_graph(net, y, net.node("Flatten", x), sizes={"n": 2}).exact()
    b = bind_plan(lowered.plan, 2)
    moved = [step.y for step in b.labels if step and step.kind == "reshape"]
    assert moved == [lowered.plan.outputs[1]]  # an input is one array, an output another
    lowered.agree(1e-6)


def test_parts_in_onnx_runtime_read_inputs_under_another_shape(qdq, lower_graph):
    net = qdq()
    flat = net.node("Reshape", net.input("x", (2, 3, 4)), net.ints(6, 4))
    y = net.node("Abs", net.node("Reshape", net.node("Hardmax", flat), net.ints(2, 3, 4)))
    lowered = lower_graph(net, net.node("Reshape", y, net.ints(-1)), net.node("Neg", flat)).exact()
    assert "onnx" in lowered.kinds
    lowered.agree(1e-6)


def test_what_several_outputs_are_made_of_is_made_once(qdq, lower_graph):
    net = qdq()
    y = net.node("Abs", net.input("x", ("n", 6)))
    wide, narrow = net.node("Reshape", y, net.ints(-1, 3)), net.node("Reshape", y, net.ints(0, 2, 3))
    lowered = lower_graph(net, wide, narrow, net.node("Neg", narrow), sizes={"n": 4}).exact()
    got = Engine(lowered.plan, threads=1).run(lowered.feeds)
    for name, array in got.items():
        np.testing.assert_array_equal(array, lowered.values[name], strict=True)
