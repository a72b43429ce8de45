"""Layers whose outputs stay floats between bounds: a bound of 0 leaves a zero of either sign alone (N49)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.engine.conftest import assert_same_bits
from tests.kernel_paths import environment, kernel_paths

from intact.engine.engine import Engine
from intact.engine.lower import lower
from intact.engine.reference import evaluate


def _weight(graph: Any, *shape: int) -> str:
    codes = graph.constant(graph.rng.integers(-3, 4, shape).astype(np.int8))
    return str(
        graph.node("DequantizeLinear", codes, graph.constant(np.float32(0.01)), graph.constant(np.int8(0)))
    )


def _image(graph: Any, *weight: int, **attributes: Any) -> str:
    x = graph.pair(graph.input("x", [1, 32, 5, 6]))
    return str(graph.node("Conv", x, _weight(graph, *weight), pads=[1, 1, 1, 1], **attributes))


def _rows(graph: Any, columns: int) -> str:
    return str(graph.node("MatMul", graph.pair(graph.input("x", [7, 24])), _weight(graph, 24, columns)))


def _operands(graph: Any) -> str:
    a, b = graph.pair(graph.input("x", [2, 7, 24])), graph.pair(graph.input("z", [2, 24, 9]))
    return str(graph.node("MatMul", a, b))


LAYERS: dict[str, Callable[[Any], str]] = {
    "conv": lambda g: _image(g, 32, 32, 3, 3),
    "conv in two groups": lambda g: _image(g, 32, 16, 3, 3, group=2),
    "depthwise": lambda g: _image(g, 32, 1, 3, 3, group=32),
    "rows": lambda g: _rows(g, 32),
    "one column": lambda g: _rows(g, 1),
    "two operands": _operands,
}


@pytest.mark.parametrize("build", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("bounds", [(0.0, None), (-1.0, 0.0)], ids=["relu", "below 0"])
def test_every_kernel_clips_as_the_reference(qdq, build, bounds):
    g = qdq()
    y = g.node("Mul", build(g), g.constant(np.float32([-1.5])))
    ends = [g.constant(np.float32(end)) for end in bounds if end is not None]
    y = g.node("Relu", y) if bounds[1] is None else g.node("Clip", y, *ends)
    plan = lower(g.proto(y))
    feeds = {name: np.where(g.rng.random(x.shape) < 0.97, 0, x) for name, x in g.feeds().items()}
    feeds = {name: x.astype(np.float32) for name, x in feeds.items()}
    want = evaluate(plan, feeds)[y]
    assert np.signbit(want[want == 0]).any()
    for settings in kernel_paths():
        with environment(**settings):
            assert_same_bits(Engine(plan, threads=1).run(feeds)[y], want, str(settings))
