"""Engines whose runs are checked (INTACT_CHECK=1). `make check-native` does more, under sanitizers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engine import test_empty_images, test_exact_grids
from tests.engine.conftest import Lowered, Qdq

from intact.engine.engine import Engine
from intact.kernels import moves, pointwise
from intact.kernels.program import Program, View


@pytest.fixture(autouse=True)
def set_check(monkeypatch):
    monkeypatch.setenv("INTACT_CHECK", "1")


def lookup(holds: tuple[int, int]) -> None:
    """One step over an input of bytes up to 200, whose view says what it holds."""
    x, table, y = np.arange(100, 201, dtype=np.uint8), np.arange(256, dtype=np.uint8), np.empty(101, np.uint8)
    program = Program()
    program.arena(0)
    views = [View(b, 0, "uint8", (101,), (1,)) for b in (program.output(101), program.constant(table))]
    x_view = View(program.input(101), 0, "uint8", (101,), (1,), holds=holds)
    program.add(pointwise.lookup(x_view, View(views[1].block, 0, "uint8", (256,), (1,)), views[0]))
    program.run([x], [y])
    assert (x == y).all()


def test_a_byte_that_its_tensor_cannot_hold_is_found(monkeypatch):
    lookup((100, 200))
    for holds in ((101, 255), (0, 199)):
        with pytest.raises(RuntimeError, match="a byte that its tensor cannot hold"):
            lookup(holds)
    monkeypatch.delenv("INTACT_CHECK")
    lookup((101, 255))


def add_view(program: Program, offset: int, size: int, fits: bool) -> None:
    """Add a step that writes so many bytes of the arena, which is refused where they do not fit."""
    step = moves.fill(View(0, offset, "uint8", (size,), (1,)), 7)
    if fits:
        program.add(step)
    else:
        with pytest.raises(ValueError, match="leaves its tensor"):
            program.add(step)


def test_a_view_that_leaves_its_tensor_is_refused():
    """Within the arena, but in the memory of the next one."""
    program = Program()
    program.arena(256)
    program.tensor(0, 64)
    program.tensor(128, 64)
    for offset, size, fits in (
        (0, 64, True),
        (130, 62, True),
        (0, 65, False),
        (64, 64, False),
        (130, 63, False),
    ):
        add_view(program, offset, size, fits)


def test_a_view_fits_in_any_tensor_around_it():
    """Tensors of other steps share memory, and are declared in any order."""
    program = Program()
    program.arena(512)
    for offset, size in ((300, 20), (64, 256), (100, 40), (0, 16)):
        program.tensor(offset, size)
    for offset, size, fits in (
        (64, 256, True),
        (110, 200, True),
        (310, 10, True),
        (0, 16, True),
        (16, 1, False),
        (300, 21, False),
        (0, 100, False),
    ):
        add_view(program, offset, size, fits)


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
