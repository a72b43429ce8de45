"""Engines whose runs are checked (INTACT_CHECK=1). `make check-native` does more, under sanitizers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engine import test_empty_images, test_exact_grids
from tests.engine.conftest import Lowered, Qdq

from intact.engine.engine import Engine


@pytest.fixture(autouse=True)
def set_check(monkeypatch):
    monkeypatch.setenv("INTACT_CHECK", "1")


@pytest.mark.parametrize("isa", ["", "none"], ids=["best", "plain"])
@pytest.mark.parametrize("kind", test_empty_images.KINDS)
def test_layers_over_much_and_nothing(kind, isa, monkeypatch):
    test_empty_images.test_sizes_of_nothing(kind, isa, monkeypatch)


@pytest.mark.parametrize("grid", test_exact_grids.GRIDS, ids=str)
@pytest.mark.parametrize("consumer", test_exact_grids.CONSUMERS)
def test_grids_without_their_zero_point(consumer, grid):
    graph = Qdq()
    x, y = (test_exact_grids.narrow(graph, graph.input(n, ["n", 8, 12, 12]), grid) for n in "xy")
    output = graph.pair(test_exact_grids.CONSUMERS[consumer](graph, x, y), 0.05, 1)
    Lowered(graph, [output], {"n": 1}).exact()


def test_a_network_over_images():
    graph = Qdq()
    x = graph.pair(graph.input("x", ["n", 3, 17, 19]), 0.05, -3)
    for channels, outputs, more in ((3, 40, {"strides": [2, 2]}), (40, 40, {"group": 40}), (40, 40, {})):
        x = graph.pair(graph.node("Relu", graph.conv(x, channels, outputs, **more)), 0.04, -128)
    skip = x
    for kernel, group in ((1, 1), (3, 4), (5, 1)):
        x = graph.pair(graph.conv(x, 40, 40, kernel, group=group), 0.06, 5)
    x = graph.pair(graph.node("Add", x, skip), 0.07, 3)
    pooled = [graph.node("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4), x]
    x = graph.pair(graph.node("Concat", *(graph.pair(p, 0.07, 3) for p in pooled), axis=1), 0.08, 9)
    up = graph.node("ConvTranspose", x, graph.weight(80, 8, 3, 3, axis=1), strides=[2, 2], pads=[1] * 4)
    last = graph.node("GlobalAveragePool", graph.pair(up, 0.2, -7))
    output = graph.pair(last, 0.05, 1)
    lowered = Lowered(graph, [output], {"n": 2}).exact()
    runs = [Engine(lowered.plan, threads=threads).run(lowered.feeds) for threads in (1, 3)]
    np.testing.assert_array_equal(*(run[output] for run in runs))


def test_a_network_over_tokens():
    graph = Qdq()
    x = graph.pair(graph.input("x", ["n", 7, 24]), 0.05, -3)
    a, b, v = (graph.pair(graph.node("MatMul", x, graph.weight(24, 24, axis=1)), 0.05, z) for z in (0, 3, -9))
    turned = graph.pair(graph.node("Transpose", b, perm=[0, 2, 1]), 0.05, 3)
    scores = graph.pair(
        graph.node("Softmax", graph.pair(graph.node("MatMul", a, turned), 0.5, 2)), 1 / 255, -128
    )
    mixed = graph.node("Add", graph.pair(graph.node("MatMul", scores, v), 0.05, 4), x)
    normed = graph.node("LayerNormalization", mixed, graph.floats(24), graph.floats(24))
    output = graph.pair(graph.node("Gelu", graph.pair(normed, 0.04, 1), name="g"), 0.03, -100)
    Lowered(graph, [output], {"n": 2}).exact()
