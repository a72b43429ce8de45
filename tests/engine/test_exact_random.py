"""Random Q/DQ graphs: the engine gives the reference's bits in every tensor; passes keep the meaning."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.conftest import Lowered, Qdq

from intact.engine.lower.pipeline import ENGINE
from intact.graph import Session, load, to_proto

GRIDS = st.sampled_from(
    [
        (0.0511, 0, "int8"),
        (0.0437, -21, "int8"),
        (0.0323, 128, "uint8"),
        (0.0613, 3, "uint8"),
        (0.11, 127, "int8"),
    ]
)
ACTS = st.sampled_from(["", "", "Relu", "Clip", "HardSwish", "Sigmoid"])
CONVS = st.sampled_from([(1, 1, 1), (3, 1, 1), (3, 2, 1), (3, 1, 4), (5, 2, 2)])
"""kernel, stride, groups"""
IMAGE_STEPS = st.one_of(
    st.tuples(
        st.just("conv"), st.sampled_from([(1, 1, 1), (3, 1, 1), (3, 2, 1), (3, 1, 4), (5, 2, 2)]), ACTS
    ),
    st.tuples(st.just("add"), ACTS),
    st.tuples(st.sampled_from(["max", "average", "concat", "table", "upsample", "pad", "slice"])),
)
TOKEN_STEPS = st.one_of(
    st.tuples(st.sampled_from(["linear", "gelu", "attention", "norm", "heads", "add", "mul", "table"]))
)


class Image:
    """A random network over images: every method reads the codes at hand and leaves others."""

    def __init__(self, first: tuple) -> None:
        self.g, self.grid, self.channels = Qdq(), first, 4
        self.now = self.g.pair(self.g.input("x", ["n", 4, 9, 8]), *first)
        self.branch = (self.now, 4, (9, 8))
        self.size = (9, 8)

    def end(self, real: str, grid: tuple) -> None:
        self.now = self.g.pair(real, *grid)

    def act(self, y: str, act: str) -> str:
        if act == "Clip":
            return str(
                self.g.node("Clip", y, self.g.constant(np.float32(-1)), self.g.constant(np.float32(2.5)))
            )
        return str(self.g.node(act, y)) if act else y

    def conv(self, grid, shape, act):
        kernel, stride, group = shape
        outputs = 8 if self.channels == 4 else 4
        y = self.g.conv(self.now, self.channels, outputs, kernel, group=group, strides=[stride, stride])
        self.channels, self.size = outputs, tuple((n - 1) // stride + 1 for n in self.size)
        self.end(self.act(y, act), grid)

    def add(self, grid, act):
        other, channels, size = self.branch
        if (channels, size) == (self.channels, self.size):
            y = self.g.node("Add", self.g.conv(self.now, self.channels, self.channels, 3), other)
        else:
            y = self.g.node("Add", self.now, self.now)
        self.end(self.act(y, act), grid)
        self.branch = (self.now, self.channels, self.size)

    def max(self, grid):
        self.now = self.g.node("MaxPool", self.now, kernel_shape=[3, 3], pads=[1] * 4)

    def average(self, grid):
        self.end(self.g.node("AveragePool", self.now, kernel_shape=[2, 3], pads=[1, 1, 0, 1]), grid)

    def concat(self, grid):
        if self.channels == 4:
            self.end(self.g.node("Concat", self.now, self.g.conv(self.now, 4, 4, 1), axis=1), grid)
            self.channels = 8

    def table(self, grid):
        self.end(self.g.node("HardSwish", self.now), grid)

    def upsample(self, grid):
        if self.size[0] < 12:
            scales = self.g.constant(np.float32([1, 1, 2, 2]))
            self.now = self.g.node("Resize", self.now, "", scales, mode="nearest")
            self.size = tuple(2 * n for n in self.size)

    def pad(self, grid):
        self.now = self.g.node("Pad", self.now, self.g.ints(0, 0, 1, 0, 0, 0, 0, 2))
        self.size = (self.size[0] + 1, self.size[1] + 2)

    def slice(self, grid):
        if min(self.size) > 2:
            ends = [np.iinfo(np.int64).max] * 2
            g = self.g
            self.now = g.node("Slice", self.now, g.ints(1, 0), g.ints(*ends), g.ints(2, 3), g.ints(1, 2))
            self.size = (self.size[0] - 1, (self.size[1] + 1) // 2)


class Tokens:
    """A random network over sequences of 16 numbers."""

    def __init__(self, first: tuple) -> None:
        self.g = Qdq()
        self.now = self.g.pair(self.g.input("x", ["n", "t", 16]), *first)
        self.branch = self.now

    def end(self, real: str, grid: tuple) -> None:
        self.now = self.g.pair(real, *grid)

    def _linear(self, x):
        return self.g.node("Add", self.g.node("MatMul", x, self.g.weight(16, 16, axis=1)), self.g.floats(16))

    def linear(self, grid):
        self.end(self._linear(self.now), grid)

    def gelu(self, grid):
        self.end(self.g.node("Gelu", self._linear(self.now)), grid)

    def heads(self, grid):
        g = self.g
        y = g.node("Transpose", g.node("Reshape", self.now, g.ints(0, -1, 2, 8)), perm=[0, 2, 1, 3])
        y = g.node("Transpose", y, perm=[0, 2, 1, 3])
        self.now = g.node("Reshape", y, g.ints(0, -1, 16))

    def attention(self, grid):
        g, k = self.g, self.g.pair(self._linear(self.now), *grid)
        scores = g.node("MatMul", self.now, g.node("Transpose", k, perm=[0, 2, 1]))
        weights = g.node("Softmax", g.node("Mul", scores, g.constant(np.float32(0.25))), axis=-1)
        self.end(g.node("MatMul", g.pair(weights, 1 / 127), self.now), grid)

    def norm(self, grid):
        y = self.g.node("Add", self._linear(self.now), self.branch)
        y = self.g.node("LayerNormalization", y, self.g.floats(16), self.g.floats(16), axis=-1)
        self.end(y, grid)
        self.branch = self.now

    def add(self, grid):
        self.end(self.g.node("Add", self.now, self.branch), grid)

    def mul(self, grid):
        self.end(self.g.node("Mul", self.now, self.g.node("Sigmoid", self.branch)), grid)

    def table(self, grid):
        self.end(self.g.node("Tanh", self.now), grid)


def build(net, steps, grids):
    for (name, *arguments), grid in zip(steps, grids, strict=False):
        getattr(net, name)(grid, *arguments)
    return net.g, net.now


@given(st.lists(IMAGE_STEPS, min_size=1, max_size=6), st.lists(GRIDS, min_size=7, max_size=7))
@settings(max_examples=60)
def test_images(steps, grids):
    g, y = build(Image(grids[-1]), steps, grids)
    lowered = Lowered(g, [y], {"n": 2}).exact()
    assert "onnx" not in lowered.kinds


@given(st.lists(TOKEN_STEPS, min_size=1, max_size=6), st.lists(GRIDS, min_size=7, max_size=7))
@settings(max_examples=40)
def test_tokens(steps, grids):
    g, y = build(Tokens(grids[-1]), steps, grids)
    lowered = Lowered(g, [y], {"n": 2, "t": 5}).exact()
    assert "onnx" not in lowered.kinds


@pytest.mark.rule("N43")
@given(st.lists(IMAGE_STEPS, min_size=1, max_size=6), st.lists(GRIDS, min_size=7, max_size=7))
@settings(max_examples=25)
def test_every_pass_keeps_the_meaning(steps, grids):
    g, y = build(Image(grids[-1]), steps, grids)
    feeds = g.feeds({"n": 1})
    model = load(g.proto(y))
    before = Session(to_proto(model).SerializeToString()).run(feeds)[y]
    for stage in ENGINE:
        stage(model)
        after = Session(to_proto(model).SerializeToString()).run(feeds)[y]
        np.testing.assert_array_equal(after, before, err_msg=stage.name)
