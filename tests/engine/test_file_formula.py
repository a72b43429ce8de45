"""The engine's codes are those of the file's float32 arithmetic, for every code that can come in."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest

from intact import compile as build

SHORT = [8, 9, 10, 11, 12, 13, 14, 15]


def scale_of(rng: np.random.Generator, short: bool) -> float:
    """A scale of 4 significant bits, or of 24."""
    mantissa = rng.choice(SHORT) if short else rng.uniform(8, 16)
    return float(np.float32(mantissa * 2.0 ** rng.integers(-11, -6)))


def answers(model, feeds: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Of the engine, and of ONNX Runtime without optimizations."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options)
    engine = build(model, threads=1)
    assert not any(step.kind == "fallback" for step in engine.plan.steps)
    (file,) = session.run(None, feeds)
    (ours,) = engine.run(feeds).values()
    return ours, file


def codes_of(scale: float, zero_point: int = 0) -> np.ndarray:
    """The float of each int8 code."""
    return ((np.arange(-128, 128) - zero_point) * np.float32(scale)).astype(np.float32)


@pytest.mark.rule("N22", "N26")
@pytest.mark.parametrize("short", [True, False], ids=["short scales", "any scales"])
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
def test_every_pair_of_codes(qdq, rng, op, short):
    for _ in range(25):
        s_a, s_b, s_y = (scale_of(rng, short) for _ in range(3))
        s_y = s_y * (0.25 if op == "Mul" else 1)
        g = qdq()
        a, b = g.pair(g.input("a", [256, 256]), s_a), g.pair(g.input("b", [256, 256]), s_b)
        model = g.proto(g.pair(g.node(op, a, b), s_y))
        left, right = np.meshgrid(codes_of(s_a), codes_of(s_b), indexing="ij")
        np.testing.assert_array_equal(*answers(model, {"a": left, "b": right}), f"{s_a} {s_b} {s_y}")


@pytest.mark.rule("N27")
@pytest.mark.parametrize("size", [2, 3, 7])
def test_average_pools(qdq, rng, size):
    """Every sum at least once: at short scales float32 holds all of them, in any order."""
    for _ in range(6):
        s_x, s_y = scale_of(rng, True), scale_of(rng, True)
        g = qdq()
        y = g.node("AveragePool", g.pair(g.input("x", [64, 16, size, size]), s_x), kernel_shape=[size, size])
        model = g.proto(g.pair(y, s_y))
        low = rng.integers(-128, 120, (64, 16, 1, 1))
        codes = np.clip(low + rng.integers(0, 8, (64, 16, size, size)), -128, 127)
        np.testing.assert_array_equal(*answers(model, {"x": codes.astype(np.float32) * np.float32(s_x)}))


@pytest.mark.rule("N28")
@pytest.mark.parametrize("short", [True, False], ids=["short scales", "any scales"])
def test_concat_rescales_every_code(qdq, rng, short):
    for _ in range(25):
        s_a, s_b, s_y = (scale_of(rng, short) for _ in range(3))
        g = qdq()
        a, b = g.pair(g.input("a", [1, 256]), s_a), g.pair(g.input("b", [1, 256]), s_b)
        model = g.proto(g.pair(g.node("Concat", a, b, axis=1), s_y))
        feeds = {"a": codes_of(s_a)[None], "b": codes_of(s_b)[None]}
        np.testing.assert_array_equal(*answers(model, feeds))


@pytest.mark.parametrize("residual", [False, True], ids=["", "residual"])
@pytest.mark.parametrize("slope", [False, True], ids=["", "slope"])
def test_layers_at_short_scales(qdq, rng, residual, slope):
    """Sums of 13 bits and scales of 4: float32 holds every partial sum, so that the order does not matter."""
    for _ in range(6):
        s_x, s_w, s_r, s_y = (scale_of(rng, True) for _ in range(4))
        g = qdq()
        x = g.pair(g.input("x", [4, 16, 9, 9]), s_x)
        weight = g.constant(rng.integers(-9, 10, (24, 16, 1, 1)).astype(np.int8))
        y = g.node("Conv", x, g.dequantize(weight, s_w))
        feeds = {"x": rng.integers(-128, 128, (4, 16, 9, 9)).astype(np.float32) * np.float32(s_x)}
        if residual:
            y = g.node("Add", y, g.pair(g.input("r", [4, 24, 9, 9]), s_r))
            feeds["r"] = rng.integers(-128, 128, (4, 24, 9, 9)).astype(np.float32) * np.float32(s_r)
        if slope:
            y = g.node("LeakyRelu", y, alpha=0.125)
        model = g.proto(g.pair(y, s_y))
        np.testing.assert_array_equal(*answers(model, feeds))
