"""A few images of a batch at a time: the bits of the whole batch, in less memory, whatever the threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.conftest import Qdq
from tests.engine.test_exact_random import GRIDS, IMAGE_STEPS, Image, build

from intact.engine.cpu import bound_plan as module
from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate


@pytest.fixture(autouse=True)
def nothing_is_near(monkeypatch):
    """However small the images of a test are, no two of them stay near the core."""
    monkeypatch.setattr(module, "NEAR_BYTES", 0)


def times_of(engine, batch):
    bound = engine.prepare({p.name: (batch, *p.shape[1:]) for p in engine.inputs}).bound
    return sorted(set(bound.times.tolist()))


def residual_net():
    """A residual that is read in 3x3 windows, too; parts of a Concat; each channel by itself; a pool."""
    g = Qdq()
    x = g.pair(g.input("x", ["n", 4, 10, 9]))
    stem = g.pair(g.node("Relu", g.conv(x, 4, 8)))
    branch = g.pair(g.conv(stem, 8, 8, group=8))
    joined = g.pair(g.node("Relu", g.node("Add", g.conv(branch, 8, 8, 1), stem)), 0.07, -20)
    parts = [g.pair(g.conv(joined, 8, 4, kernel), 0.07, -20) for kernel in (1, 3)]
    both = g.pair(g.node("Concat", *parts, joined, axis=1), 0.07, -20)
    pooled = g.node("MaxPool", both, kernel_shape=[3, 3], pads=[1] * 4, strides=[2, 2])
    return g, g.pair(g.conv(pooled, 16, 8)), g.pair(g.node("GlobalAveragePool", both))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("batch", [2, 3, 7, 8])
def test_every_bit_of_the_whole_batch(monkeypatch, threads, batch):
    monkeypatch.setenv("INTACT_CHECK", "1")
    g, *ys = residual_net()
    plan = lower(g.proto(*ys))
    feeds = g.feeds({"n": batch})
    engine, want = Engine(plan, threads=threads), evaluate(plan, feeds)
    uneven = batch % threads and 4 * batch < 3 * threads * -(-batch // threads)
    assert times_of(engine, batch) == ([1] if uneven else [1, batch])
    for name, got in engine.run(feeds).items():
        np.testing.assert_array_equal(got, want[name], strict=True)


@given(
    st.lists(IMAGE_STEPS, min_size=2, max_size=7),
    st.lists(GRIDS, min_size=8, max_size=8),
    st.sampled_from([1, 2, 4]),
)
@settings(max_examples=60)
def test_random_nets(steps, grids, threads):
    g, y = build(Image(grids[-1]), steps, grids)
    plan, feeds = lower(g.proto(y)), g.feeds({"n": 4})
    np.testing.assert_array_equal(Engine(plan, threads=threads).run(feeds)[y], evaluate(plan, feeds)[y])


def test_threads_race_for_nothing():
    """Many runs of one engine give one answer, though threads take turns in ever other orders."""
    g, *ys = residual_net()
    engine, feeds = Engine(lower(g.proto(*ys)), threads=4), g.feeds({"n": 16})
    first = engine.run(feeds)
    for _ in range(50):
        for name, got in engine.run(feeds).items():
            np.testing.assert_array_equal(got, first[name])


def test_memory_of_a_few_images(monkeypatch):
    """Tensors that only repeated steps use have room for one image of each thread."""
    g = Qdq()
    y = g.pair(g.input("x", ["n", 4, 32, 32]))
    for channels in (4, 16, 16):
        y = g.pair(g.conv(y, channels, 16))
    plan = lower(g.proto(g.pair(g.node("MaxPool", y, kernel_shape=[32, 32]))))
    arenas = {}
    for near in (0, 1 << 30):
        monkeypatch.setattr(module, "NEAR_BYTES", near)
        arenas[near] = Engine(plan, threads=1).prepare({"x": (16, 4, 32, 32)}).bound.arena
    assert arenas[0] * 8 < arenas[1 << 30]


@pytest.mark.parametrize(
    "images", [pytest.param(4, id="as many as fit"), pytest.param(2, id="as many as divide the batch")]
)
def test_images_of_one_time(monkeypatch, images):
    """Of 32 x 32 bytes, four channels in and out."""
    monkeypatch.setattr(module, "NEAR_BYTES", images * 2 * 4 * 32 * 32 + 5000)
    g = Qdq()
    x = g.pair(g.input("x", ["n", 4, 32, 32]), 0.05)
    y = g.pair(g.conv(g.pair(g.conv(x, 4, 4)), 4, 4))
    engine, batch = Engine(lower(g.proto(y)), threads=1), 8 if images == 4 else 6
    assert max(times_of(engine, batch)) > 1


def test_weights_that_are_larger_than_images():
    """They would come from far away for each image anew."""
    g = Qdq()
    y = g.pair(g.input("x", ["n", 64, 2, 2]))
    for _ in range(3):
        y = g.pair(g.conv(y, 64, 64))
    assert times_of(Engine(lower(g.proto(y)), threads=1), 8) == [1]


def test_images_without_pixels():
    g = Qdq()
    y = g.pair(g.node("Relu", g.pair(g.input("x", ["n", 2, 0, 3]))))
    plan, feeds = lower(g.proto(y)), g.feeds({"n": 5})
    assert Engine(plan, threads=2).run(feeds)[y].shape == (5, 2, 0, 3)


def test_an_image_for_all():
    """A tensor of one image that meets a batch is no part of it."""
    g = Qdq()
    x, single = g.pair(g.input("x", [4, 4, 8, 8])), g.pair(g.input("one", [1, 4, 8, 8]))
    y = g.pair(g.conv(g.pair(g.node("Add", g.pair(g.conv(x, 4, 4)), single)), 4, 4))
    plan, feeds = lower(g.proto(y)), g.feeds({})
    np.testing.assert_array_equal(Engine(plan, threads=2).run(feeds)[y], evaluate(plan, feeds)[y])


def test_seconds_of_repeated_steps():
    """A profile has each step once, with the time of all its images."""
    g, *ys = residual_net()
    plan, feeds = lower(g.proto(*ys)), g.feeds({"n": 8})
    profile = Engine(plan, threads=2).profile(feeds)
    assert sum(timing.kind != "copy" for timing in profile.timings) == len(plan.steps)
    assert all(timing.seconds >= 0 for timing in profile.timings)
