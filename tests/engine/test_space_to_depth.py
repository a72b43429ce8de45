"""Slices that are only concatenated again are read where they lie: no step copies them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from intact.engine.engine import Engine

END = 2**31 - 1


def cut(g, x: str, starts: Sequence[int], hops: Sequence[int], axes: Sequence[int], ends=None) -> str:
    return g.node("Slice", x, *(g.ints(*n) for n in (starts, ends or [END] * len(starts), axes, hops)))


def native_slices(lowered) -> set[str]:
    """Slices that native steps make."""
    engine = Engine(lowered.plan, threads=1)
    bound = engine.prepare({name: x.shape for name, x in lowered.feeds.items()}).bound
    return {step.name for step in bound.labels if step is not None and step.kind == "slice"}


def blocks(g, x: str, size: int, chained: bool, rows_first: bool, order: Sequence[int]) -> str:
    """Space to depth by slices, its parts in any order."""
    places = list(itertools.product(range(size), range(size)))
    parts = []
    for row, column in (places[i] for i in order):
        cuts = [(row, 2), (column, 3)][:: 1 if rows_first else -1]
        if chained:
            part = x
            for start, axis in cuts:
                part = cut(g, part, [start], [size], [axis])
        else:
            starts, axes = zip(*cuts, strict=True)
            part = cut(g, x, starts, [size] * 2, axes)
        parts.append(part)
    return g.node("Concat", *parts, axis=1)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("codes", [False, True])
@pytest.mark.parametrize(
    ("size", "order"),
    [
        (2, (0, 1, 2, 3)),
        (2, (0, 2, 1, 3)),
        (2, (3, 0, 2, 1)),
        (3, (8, 1, 2, 3, 0, 4, 7, 6, 5)),
        (2, (1, 1, 0)),
    ],
)
def test_space_to_depth_is_one_step(qdq, lower_graph, size, order, codes, chained, batch):
    g = qdq()
    x = g.input("x", [batch, 3, 6 * size, 4 * size])
    x = g.pair(x) if codes else x
    y = blocks(g, x, size, chained, batch == 1, order)
    y = g.pair(y) if codes else y
    y = g.pair(g.conv(y, 3 * len(order), 8)) if codes else g.node("Relu", y)
    lowered = lower_graph(g, y).agree()
    assert "slice" in lowered.kinds and not native_slices(lowered)


def test_parts_of_bytes_that_a_caller_gives(qdq, lower_graph):
    g = qdq()
    x = g.dequantize(g.input("x", [2, 3, 8, 12], onnx.TensorProto.UINT8), zero=9, dtype="uint8")
    y = g.pair(blocks(g, x, 2, True, True, (0, 2, 1, 3)), zero=9, dtype="uint8")
    lowered = lower_graph(g, g.conv(y, 12, 4)).agree(1e-4)
    assert not native_slices(lowered)


def test_parts_from_the_end_empty_parts_and_halves_of_channels(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.conv(g.pair(g.input("x", [1, 6, 7, 5])), 6, 8))
    low, high = cut(g, x, [0], [1], [1], [4]), cut(g, x, [4], [1], [1])
    back, none = cut(g, x, [7], [-1], [1], [-END]), cut(g, x, [8], [1], [1])
    y = g.pair(g.node("Concat", high, back, none, low, axis=1))
    lowered = lower_graph(g, g.pair(g.conv(y, 16, 4))).agree()
    assert not native_slices(lowered)


def test_parts_that_others_read_too_are_made(qdq, lower_graph):
    g = qdq()
    x = g.pair(g.conv(g.pair(g.input("x", [1, 6, 7, 5])), 6, 8))
    low, high = cut(g, x, [0], [1], [1], [4]), cut(g, x, [4], [1], [1])
    deep = g.pair(g.conv(low, 4, 4))
    y = g.pair(g.node("Concat", high, low, deep, axis=1))
    lowered = lower_graph(g, g.pair(g.conv(y, 12, 4))).agree()
    assert native_slices(lowered) == {low}


def test_a_batch_in_pieces_reads_parts_of_a_callers_array(qdq, lower_graph, monkeypatch):
    """Steps that run a few images at a time walk over parts that lie in the caller's array."""
    monkeypatch.setattr("intact.engine.cpu.bound_plan.NEAR_BYTES", 0)
    monkeypatch.setenv("INTACT_CHECK", "1")
    g = qdq()
    y = blocks(g, g.input("x", ["n", 3, 8, 12]), 2, False, True, (0, 1, 2, 3))
    y = g.node("Relu", g.node("Add", y, g.constant(np.float32(1))))
    y = g.pair(g.conv(g.pair(y), 12, 8))
    lowered = lower_graph(g, y, sizes={"n": 6}).agree()
    for threads in (1, 2):
        got = Engine(lowered.plan, threads=threads).run(lowered.feeds)[y]
        np.testing.assert_array_equal(got, lowered.values[y], strict=True)
