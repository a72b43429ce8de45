"""Bindings that a session of the C library keeps, by the sizes of its inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.capi.library import CError, CPlan
from tests.engine.conftest import Qdq

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate

KEPT_BYTES = 2**26
"""As include/intact.h says."""


@pytest.fixture(scope="module")
def engine() -> Engine:
    """Images of any number and height."""
    net = Qdq()
    x = net.pair(net.input("x", ("n", 3, "h", 8)))
    y = net.pair(net.node("Relu", net.conv(x, 3, 4)))
    return Engine(lower(net.proto(net.pair(net.node("Add", net.pair(net.conv(y, 4, 4)), y)))), threads=1)


@pytest.fixture
def c_plan(c_library: Path, engine: Engine, tmp_path: Path) -> CPlan:
    engine.save(tmp_path / "plan")
    return CPlan(c_library, tmp_path / "plan")


def image(n: int, h: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(h).standard_normal((n, 3, h, 8)).astype(np.float32)}


def assert_same(c_plan: CPlan, engine: Engine, n: int, h: int) -> None:
    (got,), (want,) = c_plan.run(image(n, h)).values(), engine.run(image(n, h)).values()
    np.testing.assert_array_equal(got, want, err_msg=f"{n} of {h}")


def test_sizes_take_turns_in_one_memory(c_plan: CPlan, engine: Engine) -> None:
    """Small ones behind large ones, and large ones again, which made the memory grow meanwhile."""
    for n, h in [(1, 8), (4, 30), (1, 8), (2, 9), (8, 60), (4, 30), (1, 8), (8, 60)]:
        assert_same(c_plan, engine, n, h)


def test_sizes_that_come_again_are_kept(c_plan: CPlan) -> None:
    sizes = [[(n, 3, 8, 8)] for n in range(1, 40)]
    for shapes in sizes:
        c_plan.prepare(shapes)
    nbytes = c_plan.workspace
    for shapes in sizes:
        c_plan.prepare(shapes)
        assert c_plan.workspace == nbytes


def test_sizes_used_longest_ago_are_dropped(c_plan: CPlan, engine: Engine) -> None:
    nbytes = []
    for h in range(1, 4000):
        c_plan.prepare([(1, 3, h, 8)])
        nbytes.append(c_plan.workspace)
    runs = 2**23  # of the largest image
    assert nbytes[500] > nbytes[100] and KEPT_BYTES / 2 < nbytes[-1] < KEPT_BYTES + runs
    for h in (1, 3999, 1):
        assert_same(c_plan, engine, 1, h)


def test_a_refused_size_leaves_the_kept_ones(c_plan: CPlan, engine: Engine) -> None:
    assert_same(c_plan, engine, 1, 8)
    with pytest.raises(CError):
        c_plan.prepare([(1, 3, 8, 9)])
    assert c_plan.workspace == 0, "it is ready for nothing"
    assert_same(c_plan, engine, 1, 8)


def test_a_constant_that_is_expanded_to_free_sizes_needs_no_onnx_runtime(
    c_library: Path, tmp_path: Path
) -> None:
    """Embeddings of places in many text models: of ONNX Runtime's parts, the C library refuses all."""
    net = Qdq()
    x = net.input("x", ("batch", "words", 6))
    places = net.constant(net.rng.standard_normal((1, 1, 6)).astype(np.float32))
    wide = net.node("Expand", places, net.node("Shape", x))
    plan = lower(net.proto(net.node("Add", x, wide)))
    assert [step.kind for step in plan.steps].count("size_vector") == 0
    Engine(plan, threads=1).save(tmp_path / "plan")
    opened = CPlan(c_library, tmp_path / "plan")
    for batch, words in [(1, 3), (4, 7), (0, 2), (1, 3)]:
        feeds = {"x": net.rng.standard_normal((batch, words, 6)).astype(np.float32)}
        ((name, got),) = opened.run(feeds).items()
        np.testing.assert_array_equal(got, evaluate(plan, feeds)[name])
